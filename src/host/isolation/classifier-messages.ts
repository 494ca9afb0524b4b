// What is said to and by a classifier in a thread, beside what all plugins in threads say.
import { z } from 'zod';
import type { ClassifierEvent, SessionContext } from '../../plugin/index.ts';

/** Characters of a text of a classifier's own that leave the thread. */
const MOST_TEXT = 2000;
/** Workers of a partition; as many as a fleet has slots. */
const MOST_WORKERS = 65_536;

const id = z.int().min(0);
const rank = z.strictObject({ workerId: z.bigint(), rank: z.int() });
const shortText = z.string().max(MOST_TEXT);

/** The workers of a partition. */
export const workersView = z
  .array(
    z.strictObject({
      workerId: z.bigint(),
      ranks: z.array(z.int()).max(MOST_WORKERS),
      totalKvBlocks: z.number().nullable(),
    }),
  )
  .max(MOST_WORKERS);

const request = z.strictObject({
  requestId: z.string(),
  // The router's own; its members are handed on in their order.
  session: z.custom<SessionContext>((value) => typeof value === 'object' && value !== null).nullable(),
  inputTokens: z.number(),
  schedulingCostTokens: z.number(),
  policyClass: z.string().nullable(),
  ingressAt: z.number(),
  dueAt: z.number().nullable(),
  contextTokens: z.number(),
  pinnedWorker: z.strictObject({ workerId: z.bigint(), rank: z.number().nullable() }).nullable(),
});

const event: z.ZodType<ClassifierEvent> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('sent'), requestId: z.string(), worker: rank }),
  z.strictObject({ kind: z.literal('responding'), requestId: z.string(), worker: rank }),
  z.strictObject({
    kind: z.literal('completed'),
    requestId: z.string(),
    worker: rank.nullable(),
    contextTokens: z.number(),
  }),
  z.strictObject({
    kind: z.literal('aborted'),
    requestId: z.string(),
    worker: rank.nullable(),
    contextTokens: z.number(),
    error: z.string().nullable(),
  }),
]);

/** To the thread. Each but `workers` is answered under its number. */
export const classifierToThread = [
  z.strictObject({ kind: z.literal('classify'), task: id, site: id, nowMs: z.number(), request }),
  z.strictObject({ kind: z.literal('event'), task: id, site: id, nowMs: z.number(), event }),
  /** Asks whether it still answers. */
  z.strictObject({ kind: z.literal('ping'), task: id, nowMs: z.number() }),
  z.strictObject({ kind: z.literal('workers'), site: id, workers: workersView }),
] as const;

const target = z.strictObject({ workerId: z.bigint(), rank: z.number().nullable() });
// Numbers of any kind, as the plugin gave them: what they may be is checked where they are used.
const anyNumber = z.custom<number>((value) => typeof value === 'number');

const answer = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('overrides'),
    overrides: z.strictObject({
      policyClass: shortText.nullable().optional(),
      dueAt: z.number().nullable().optional(),
      schedulingCostTokens: z.number().nullable().optional(),
      workerTarget: target.nullable().optional(),
    }),
  }),
  /** An answer that is no set of overrides. */
  z.strictObject({ kind: z.literal('invalid'), text: shortText }),
  z.strictObject({ kind: z.literal('rate_limited'), retryAfterSeconds: anyNumber, message: shortText }),
  z.strictObject({ kind: z.literal('capacity'), message: shortText }),
  z.strictObject({ kind: z.literal('threw'), text: shortText }),
]);

/** From the thread. */
export const classifierFromThread = [
  /** The task was taken; what it comes to is said later, or nothing is to say. */
  z.strictObject({ kind: z.literal('taken'), task: id }),
  z.strictObject({ kind: z.literal('classified'), task: id, answer }),
  /** The handler is done with an event; `failed` = what it threw. */
  z.strictObject({ kind: z.literal('handled'), task: id, failed: shortText.nullable() }),
] as const;

/** A request by value. */
export type WireRequest = z.infer<typeof request>;
/** What `classify` came to, by value. */
export type WireAnswer = z.infer<typeof answer>;
/** Workers by value. */
export type WireWorkers = z.infer<typeof workersView>;

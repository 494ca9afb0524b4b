// What the router and a plugin's thread say to each other. Either side reads what the other sends through the parsers here: a
// message of another shape is refused, never guessed at.
import { z } from 'zod';
import { ROLES, type SessionContext } from '../../plugin/index.ts';
import { METER_RULES } from '../meter-input.ts';
import { classifierFromThread, classifierToThread, workersView } from './classifier-messages.ts';

/** Sources of copies that a call carries at most. */
export const MOST_OWNERS = 32;
/** Hashes of a session's own blocks that a call carries at most. */
export const MOST_LINEAGE_HASHES = 4096;
/** Characters of an error or log text that leave the thread. */
export const MOST_TEXT = 2000;
/** Readings of plugins in one report. */
export const MOST_READINGS = 2000;
const MOST_FIELDS = 32;
const MOST_LIST = 65_536;

const count = z.number();
const id = z.int().min(0);
const shortText = z.string().max(MOST_TEXT);
const role = z.enum(ROLES);
const partition = z.strictObject({ model: z.string(), routingGroup: z.string() });
const rank = z.strictObject({ workerId: z.bigint(), rank: z.int() });
const hashes = z.custom<BigUint64Array>((value) => value instanceof BigUint64Array);

const lineageHashes = hashes.refine((list) => list.length <= MOST_LINEAGE_HASHES);

const owner = z.strictObject({ source: rank, prefixBlocks: count });
const copy = z.strictObject({
  source: rank,
  prefixBlocks: count,
  additionalBlocks: count,
  controlEndpoint: z.string(),
  blockHashes: hashes,
  link: z.strictObject({ latencyMs: count, blockMs: count, confidence: count }).nullable(),
});

const copyLocations = z.strictObject({
  owners: z.array(owner).max(MOST_OWNERS),
  localPrefixBlocks: count,
  copies: z.array(copy).max(MOST_OWNERS),
});

const sessionShape = z.strictObject({
  sessionId: z.string(),
  parentSessionId: z.string().optional(),
  namespace: z.string().optional(),
  sessionFinal: z.boolean().optional(),
  inputTrigger: z.string().optional(),
  agentHeaders: z.record(z.string(), z.array(z.string()).max(MOST_LIST)),
  compaction: z.boolean().optional(),
});
/** Handed on as it came: a policy that lists its members finds them in the same order as in process. */
const session = z.custom<SessionContext>((value) => sessionShape.safeParse(value).success);

const context = z.strictObject({
  requestId: z.string(),
  worker: rank,
  role,
  partition,
  promptTokens: count,
  blockSize: count,
  session: session.nullable(),
  capabilities: z.set(z.string()).max(MOST_LIST).nullable(),
  cache: z
    .strictObject({
      effectiveOverlapBlocks: count,
      cachedTokens: count,
      deviceBlocks: count,
      hostBlocks: count,
      diskBlocks: count,
      hasTierMatches: z.boolean(),
    })
    .optional(),
  load: z
    .strictObject({
      available: count,
      activePrefillTokens: count,
      decodeCostBlocks: count,
      activeRequests: count,
    })
    .optional(),
  timing: z
    .strictObject({
      prefillTokenMs: count,
      prefillAttentionMs: count,
      prefillPassMs: count,
      decodeMs: count,
      decodeFillMs: count,
      kvReferenceTokens: count,
      prefillConfidence: count,
      decodeConfidence: count,
      prefillObservations: count,
      decodeObservations: count,
      prefillError: count,
      decodeError: count,
    })
    .nullable()
    .optional(),
  copyLocations: copyLocations.optional(),
  committedKvCopy: copy.nullable().optional(),
  // Names of declared inputs that are switched off: null for the policy.
  switchedOff: z.array(shortText).max(MOST_FIELDS),
  // The session's own blocks on the booked worker, none where the request has no session; null = not declared, or switched off.
  lineage: z.strictObject({ uniqueBlocks: lineageHashes, exclusiveBlocks: lineageHashes }).nullable(),
});

const toThread = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('create'),
    site: id,
    /** Seed of the instance's generator, the same as in process. */
    seed: z.number(),
    nowMs: z.number(),
    /** Of a hint policy, or of a classifier, which has no role; null = scope `shared`. */
    place: z
      .union([
        z.strictObject({ role, partition, blockSize: count }),
        z.strictObject({ partition, blockSize: count.nullable(), workers: workersView }),
      ])
      .nullable(),
  }),
  z.strictObject({ kind: z.literal('dispose'), site: id }),
  z.strictObject({ kind: z.literal('call'), call: id, site: id, nowMs: z.number(), context }),
  ...classifierToThread,
  z.strictObject({ kind: z.literal('end') }),
]);

const thrown = z.strictObject({
  text: shortText,
  /** Of an error of the contract, such as a refusal; null for any other. */
  code: shortText.nullable(),
  details: z.record(shortText, z.union([shortText, z.number(), z.boolean(), z.null()])),
});

const logValue = z.union([shortText, z.number(), z.nan(), z.bigint(), z.boolean(), z.null()]);

const fromThread = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('ready'), sameFiles: z.boolean() }),
  z.strictObject({ kind: z.literal('failed'), text: shortText }),
  z.strictObject({ kind: z.literal('created'), site: id }),
  z.strictObject({ kind: z.literal('refused'), site: id, text: shortText }),
  z.strictObject({ kind: z.literal('disposed'), site: id }),
  z.strictObject({ kind: z.literal('ended') }),
  /** What the policy returned; judged where it arrives. */
  z.strictObject({ kind: z.literal('output'), call: id, output: z.unknown() }),
  z.strictObject({
    kind: z.literal('dropped'),
    call: id,
    reason: z.enum(['threw', 'malformed', 'no_room', 'undeclared_action', 'unsupported_action', 'promise']),
    thrown: thrown.nullable(),
  }),
  ...classifierFromThread,
  z.strictObject({
    kind: z.literal('numbers'),
    /** Counts since the last report and gauges as they read: site, which, name, label, value. */
    readings: z
      .array(z.tuple([id, z.enum(['count', 'gauge']), shortText, shortText, z.number()]))
      .max(MOST_READINGS),
    complaints: z.array(z.tuple([id, z.enum(METER_RULES)])).max(MOST_READINGS),
  }),
  /** Log lines that did not leave the thread. */
  z.strictObject({ kind: z.literal('lines_dropped'), lines: z.int().min(1) }),
  z.strictObject({
    kind: z.literal('log'),
    level: z.enum(['debug', 'info', 'warn', 'error']),
    message: shortText,
    fields: z.record(shortText, logValue).refine((fields) => Object.keys(fields).length <= MOST_FIELDS),
  }),
]);

/** To the thread. */
export type ToThread = z.infer<typeof toThread>;
/** From the thread. */
export type FromThread = z.infer<typeof fromThread>;
/** Lineage by value. */
export type WireLineage = NonNullable<WireContext['lineage']>;
/** A hint context by value. */
export type WireContext = z.infer<typeof context>;
/** Copy locations by value. */
export type WireCopyLocations = z.infer<typeof copyLocations>;
/** A thrown value by value. */
export type WireThrown = z.infer<typeof thrown>;

/** What the thread was sent, or null. */
export function parseToThread(message: unknown): ToThread | null {
  return toThread.safeParse(message).data ?? null;
}

/** What the thread sent, or null. */
export function parseFromThread(message: unknown): FromThread | null {
  return fromThread.safeParse(message).data ?? null;
}

/** Log fields as they may leave the thread. */
export function wireFields(fields: unknown): Extract<FromThread, { kind: 'log' }>['fields'] {
  const entries = Object.entries(Object(fields))
    .slice(0, MOST_FIELDS)
    .map(([name, value]): [string, z.infer<typeof logValue>] => {
      const parsed = logValue.safeParse(typeof value === 'string' ? value.slice(0, MOST_TEXT) : value);
      return [name.slice(0, MOST_TEXT), parsed.success ? parsed.data : typeof value];
    });
  return Object.fromEntries(entries);
}

// How long a session's blocks are retained: the same for all, as a header says, or as long as the next turn usually takes.
import { z } from 'zod';
import type { Clock, SessionContext } from '../../plugin/index.ts';
import { sessionName } from '../session-name.ts';
import { GapModel } from './gap-model.ts';

/** As long as the action takes. */
const MOST_MS = 86_400_000;
/** Sessions whose last turn is remembered. */
const MOST_SESSIONS = 16_384;

const ms = z.int().min(1).max(MOST_MS);

/** The parameter `ttl`. */
export const ttlParameter = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('fixed'), ms: ms.default(30_000) }),
  z.strictObject({
    type: z.literal('header'),
    name: z
      .string()
      .regex(/^[a-z0-9-]{1,64}$/)
      .default('x-dynamo-retention-ttl-ms'),
    max_ms: ms.default(MOST_MS),
  }),
  z
    .strictObject({
      type: z.literal('learned'),
      quantile: z.number().min(0.5).max(0.99).default(0.8),
      least_turns: z.int().min(2).max(1000).default(16),
      initial_ms: z.int().min(0).max(MOST_MS).default(30_000),
      min_ms: ms.default(1000),
      max_ms: ms.default(600_000),
    })
    .refine(({ max_ms: most, min_ms: least }) => least <= most, {
      error: 'must not be above max_ms',
      path: ['min_ms'],
    }),
]);

/** Answers for each turn how long its session is retained, ms; null = not at all. */
export type TtlOf = (session: SessionContext) => number | null;

/** The source that the parameter asks for. */
export function ttlSource(parameter: z.output<typeof ttlParameter>, clock: Clock): TtlOf {
  switch (parameter.type) {
    case 'fixed':
      return () => parameter.ms;
    case 'header':
      return ({ agentHeaders }) => fromHeader(agentHeaders[parameter.name]?.[0], parameter.max_ms);
    case 'learned':
      return learned(parameter, clock);
  }
}

function fromHeader(value: string | undefined, most: number): number | null {
  const text = value?.trim() ?? '';
  if (!/^\d{1,12}$/.test(text)) return null;
  const wanted = Number(text);
  return wanted === 0 ? null : Math.min(wanted, most);
}

function learned(
  parameter: Extract<z.output<typeof ttlParameter>, { type: 'learned' }>,
  clock: Clock,
): TtlOf {
  const model = new GapModel();
  /** The turn heard of last, by name of the session, the one heard of longest ago first. */
  const turns = new Map<string, { readonly at: number; readonly kind: string }>();
  return (session) => {
    const now = clock.now();
    const name = sessionName(session);
    const before = turns.get(name);
    if (before !== undefined) model.learn(before.kind, now - before.at);
    turns.delete(name);
    const kind = kindOf(session);
    // Nothing follows a final turn.
    if (session.sessionFinal !== true) turns.set(name, { at: now, kind });
    if (turns.size > MOST_SESSIONS) turns.delete(turns.keys().next().value ?? '');
    const gap = model.quantile(kind, parameter.quantile, parameter.least_turns);
    if (gap === null) return parameter.initial_ms === 0 ? null : parameter.initial_ms;
    return Math.round(Math.min(parameter.max_ms, Math.max(parameter.min_ms, gap)));
  };
}

const TRIGGERS: ReadonlySet<string> = new Set(['user_message', 'tool_result']);

/** What gaps are compared with: those after turns of the same cause, of sessions that have a parent or not. */
function kindOf({ inputTrigger = '', parentSessionId }: SessionContext): string {
  return `${TRIGGERS.has(inputTrigger) ? inputTrigger : 'other'} ${parentSessionId === undefined ? 'root' : 'child'}`;
}

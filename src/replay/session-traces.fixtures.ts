// Lines of session traces for tests: drawn at random, and read as a file would be.
import fc from 'fast-check';
import { parseSessionLine } from './session-line.ts';
import { planSessions, type SessionPlan, type SessionSettings } from './session-plan.ts';
import type { SessionTrace } from './session-trace.ts';

/** A request as a line spells it. */
export interface RequestRow {
  readonly t: number;
  readonly type: string;
  readonly in: number;
  readonly out: number;
  readonly hash_ids: readonly number[];
  readonly input_types?: readonly string[];
  readonly api_time?: number;
  readonly think_time?: number;
}

/** A sub-agent as a line spells it. */
export interface SubAgentRow {
  readonly t: number;
  readonly type: 'subagent';
  readonly agent_id: string;
  readonly duration_ms: number;
  readonly requests: readonly EntryRow[];
}

export type EntryRow = RequestRow | SubAgentRow;

/** A line. */
export interface SessionRow {
  readonly id: string;
  readonly block_size: number;
  readonly hash_id_scope: string;
  readonly requests: readonly EntryRow[];
}

export const BLOCK = 64;
const encoder = new TextEncoder();

/** A line read. @throws what the reader throws. */
export function parsed(row: unknown, line = 1) {
  return parseSessionLine(encoder.encode(JSON.stringify(row)), { name: 'trace.jsonl', line });
}

/** A trace of these lines. */
export function traceOf(rows: readonly SessionRow[]): SessionTrace {
  return {
    kind: 'sessions',
    name: 'trace.jsonl',
    blockSize: BLOCK,
    lines: rows.map((row, index) => parsed(row, index + 1)),
  };
}

/** Everything of a trace, at once, as it is. */
export const PLAIN: SessionSettings = { copies: 1, window_ms: 0, think_cap_ms: 1e12, max_context: null };

/** The plan of these lines. */
export function planOf(
  rows: readonly SessionRow[],
  settings: Partial<SessionSettings> = {},
  seed = 1,
): SessionPlan {
  return planSessions(traceOf(rows), { ...PLAIN, ...settings }, seed);
}

interface DrawnTurn {
  readonly kept: number;
  readonly added: number;
  readonly rest: number;
  readonly out: number;
  readonly api: number | null;
  readonly think: number | null;
  readonly pause: number;
  readonly children: readonly { readonly delay: number; readonly turns: readonly DrawnTurn[] }[];
}

const turnOf = (children: fc.Arbitrary<DrawnTurn['children']>): fc.Arbitrary<DrawnTurn> =>
  fc.record({
    kept: fc.integer({ min: 0, max: 100 }),
    added: fc.integer({ min: 0, max: 4 }),
    rest: fc.integer({ min: 1, max: BLOCK - 1 }),
    out: fc.integer({ min: 0, max: 9 }),
    api: fc.option(fc.integer({ min: 0, max: 20 })),
    think: fc.option(fc.integer({ min: 0, max: 30 })),
    pause: fc.integer({ min: 0, max: 30 }),
    children,
  });
const leaf = turnOf(fc.constant([]));
const inner = turnOf(
  fc.array(
    fc.record({
      delay: fc.integer({ min: 0, max: 25 }),
      turns: fc.array(leaf, { minLength: 1, maxLength: 3 }),
    }),
    { maxLength: 2 },
  ),
);

/** Lines whose sessions grow, fall back and have sub-agents, some of which outlast the next turns. */
export const sessionRows: fc.Arbitrary<readonly SessionRow[]> = fc
  .array(fc.array(inner, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 })
  .map((lines) =>
    lines.map((turns, index) => {
      const ids = new Ids();
      return {
        id: `s${index}`,
        block_size: BLOCK,
        hash_id_scope: 'local',
        requests: entriesOf(turns, ids, 'a').entries,
      };
    }),
  );

class Ids {
  #next = 1;
  take(count: number): number[] {
    return Array.from({ length: count }, () => this.#next++);
  }
}

function entriesOf(
  turns: readonly DrawnTurn[],
  ids: Ids,
  prefix: string,
): { readonly entries: EntryRow[]; readonly seconds: number } {
  const entries: EntryRow[] = [];
  let before: readonly number[] = [];
  let t = 0;
  let end = 0;
  for (const [index, turn] of turns.entries()) {
    const hashIds = [
      ...before.slice(0, Math.floor((before.length * turn.kept) / 100)),
      ...ids.take(turn.added),
    ];
    before = hashIds;
    entries.push({
      t,
      type: index % 2 === 0 ? 'n' : 's',
      in: hashIds.length * BLOCK + turn.rest,
      out: turn.out,
      hash_ids: hashIds,
      input_types: index % 3 === 0 ? ['text'] : ['tool_result'],
      ...(turn.api !== null && { api_time: turn.api }),
      ...(turn.think !== null && { think_time: turn.think }),
    });
    end = t + (turn.api ?? 0);
    for (const [place, child] of turn.children.entries()) {
      const agent = `${prefix}${index}.${place}`;
      const nested = entriesOf(child.turns, ids, `${agent}.`);
      const until = end + child.delay + nested.seconds;
      entries.push({
        t: until,
        type: 'subagent',
        agent_id: agent,
        duration_ms: nested.seconds * 1000,
        requests: nested.entries,
      });
    }
    t = end + turn.pause;
  }
  return { entries, seconds: end };
}

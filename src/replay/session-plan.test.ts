// Which sessions run, when they start and what their prompts are.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FIRST_PROMPT_TOKEN, planSessions, type SessionPlan, turnTokens } from './session-plan.ts';
import { BLOCK, PLAIN, planOf, sessionRows, traceOf } from './session-traces.fixtures.ts';

function prompts(plan: SessionPlan): readonly (readonly Uint32Array[])[] {
  return plan.sessions.map((session) => session.turns.map((_, turn) => turnTokens(plan, session, turn)));
}

/** Whole blocks that two prompts begin with alike. */
function sharedBlocks(a: Uint32Array, b: Uint32Array): number {
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  return Math.floor(at / BLOCK);
}

describe('planSessions', () => {
  it('makes prompts that begin alike as far as their ids do, within a line and copy, and nowhere else', () => {
    fc.assert(
      fc.property(sessionRows, fc.integer({ min: 1, max: 3 }), (rows, copies) => {
        const plan = planOf(rows, { copies });
        const made = prompts(plan);
        for (const [left, one] of plan.sessions.entries()) {
          for (const [right, other] of plan.sessions.entries()) {
            const a = made[left]!.at(-1)!;
            const b = made[right]![0]!;
            const ids = (index: number, turn: number): Uint32Array =>
              plan.sessions[index]!.turns.at(turn)!.ids;
            const [x, y] = [ids(left, -1), ids(right, 0)];
            let common = 0;
            while (common < x.length && common < y.length && x[common] === y[common]) common += 1;
            expect(sharedBlocks(a, b)).toBe(one.family === other.family ? common : 0);
          }
        }
      }),
    );
  });

  it('gives each prompt its length, its blocks one token each that no answer has, and what is left over a token of its own', () => {
    fc.assert(
      fc.property(sessionRows, (rows) => {
        const plan = planOf(rows, { copies: 2 });
        const tails = new Set<number>();
        let turns = 0;
        for (const [index, session] of plan.sessions.entries()) {
          for (const [turn, tokens] of prompts(plan)[index]!.entries()) {
            const { ids, inputTokens } = session.turns[turn]!;
            expect(tokens).toHaveLength(inputTokens);
            for (const [block, id] of ids.entries()) {
              const [first] = tokens.subarray(block * BLOCK, (block + 1) * BLOCK);
              expect(
                tokens.subarray(block * BLOCK, (block + 1) * BLOCK).every((token) => token === first),
              ).toBe(true);
              expect(first).toBe(session.firstToken + id);
              expect(first).toBeGreaterThanOrEqual(FIRST_PROMPT_TOKEN);
              expect(first).toBeLessThan(plan.endOfIds);
            }
            const rest = tokens.subarray(ids.length * BLOCK);
            expect(new Set(rest).size).toBe(1);
            expect(rest[0]).toBeGreaterThanOrEqual(plan.endOfIds);
            tails.add(rest[0]!);
            turns += 1;
          }
        }
        expect(tails.size).toBe(turns);
        expect(turns).toBe(plan.requests);
      }),
    );
  });

  it('draws starts within the window by seed, line and copy, whatever else is left out', () => {
    const rows = fc.sample(sessionRows, { numRuns: 30, seed: 3 }).find((list) => list.length > 2)!;
    const how = { window_ms: 1000, copies: 40 };
    const starts = (plan: SessionPlan): Map<string, number> =>
      new Map(plan.sessions.map(({ sessionId, startAt }) => [sessionId, startAt]));
    const drawn = starts(planOf(rows, how, 5));
    expect(starts(planOf(rows, how, 5))).toEqual(drawn);
    expect(starts(planOf(rows, how, 6))).not.toEqual(drawn);
    expect(starts(planOf(rows.slice(0, 2), how, 5)).get('40/s1')).toBe(drawn.get('40/s1'));
    const roots = [...drawn].filter(([id]) => !id.slice(3).includes('/')).map(([, startAt]) => startAt);
    expect(Math.min(...roots)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...roots)).toBeLessThan(1000);
    const mean = roots.reduce((sum, startAt) => sum + startAt, 0) / roots.length;
    expect(mean).toBeGreaterThan(400);
    expect(mean).toBeLessThan(600);
  });

  it('leaves out lines with a prompt above the cap and says how many, and refuses when none is left', () => {
    fc.assert(
      fc.property(sessionRows, fc.integer({ min: 1, max: 1000 }), (rows, most) => {
        const trace = traceOf(rows);
        const longest = trace.lines.map(({ sessions }) =>
          Math.max(...sessions.flatMap(({ turns }) => turns.map(({ inputTokens }) => inputTokens))),
        );
        const kept = longest.filter((tokens) => tokens <= most).length;
        const plan = (): SessionPlan => planSessions(trace, { ...PLAIN, max_context: most }, 1);
        if (kept === 0) expect(plan).toThrow(/every session of trace\.jsonl has a prompt of more than/);
        else expect(plan()).toMatchObject({ kept, dropped: rows.length - kept });
      }),
    );
  });

  it('refuses more requests than it may hold before it makes them', () => {
    const trace = traceOf(fc.sample(sessionRows, { numRuns: 1, seed: 1 })[0]!);
    const lines = Array.from({ length: 500_000 }, () => trace.lines[0]!);
    expect(() => planSessions({ ...trace, lines }, { ...PLAIN, copies: 10_000 }, 1)).toThrow(
      /10000 copies of trace\.jsonl make \d{10,} requests; at most 5000000 are replayed/,
    );
  });

  it('refuses more copies than tokens can tell apart', () => {
    const trace = traceOf(fc.sample(sessionRows, { numRuns: 1, seed: 1 })[0]!);
    const huge = { ...trace, lines: trace.lines.map((line) => ({ ...line, uniqueIds: 2 ** 30 })) };
    expect(() => planSessions(huge, { ...PLAIN, copies: 3 }, 1)).toThrow(/take fewer --copies/);
  });
});

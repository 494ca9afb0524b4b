// The closed loop under any answer times: order, pauses, sub-agents.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../simulator/index.ts';
import { SessionLoop } from './session-loop.ts';
import type { SessionPlan, SessionSettings } from './session-plan.ts';
import { planOf, sessionRows } from './session-traces.fixtures.ts';

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Times of every turn, by `session.turn`. */
function loopOf(
  plan: SessionPlan,
  answerMs: (session: number, turn: number) => number,
  speedup = 1,
): Map<string, Span> {
  const time = new VirtualTime();
  const spans = new Map<string, Span>();
  const loop: SessionLoop = new SessionLoop(plan, speedup, {
    after: (delayMs, callback) => time.plan(time.now() + delayMs, 'arrival', callback),
    send(session, turn) {
      const key = `${session}.${turn}`;
      expect(spans.has(key)).toBe(false);
      const from = time.now();
      const to = from + answerMs(session, turn);
      spans.set(key, { from, to });
      time.plan(to, 'engine', () => loop.ended(session, turn));
    },
  });
  loop.start();
  while (time.step());
  return spans;
}

const settings: fc.Arbitrary<Partial<SessionSettings>> = fc.record({
  copies: fc.integer({ min: 1, max: 3 }),
  window_ms: fc.integer({ min: 0, max: 50_000 }),
  think_cap_ms: fc.constantFrom(0, 9000, 1e9),
});

describe('SessionLoop', () => {
  it('sends every turn once: think time after the answer before it and after the sub-agents it waits for, at once then', () => {
    fc.assert(
      fc.property(sessionRows, settings, fc.array(fc.nat(40_000), { minLength: 1 }), (rows, how, answers) => {
        const plan = planOf(rows, how);
        const spans = loopOf(plan, (session, turn) => answers[(7 * session + turn) % answers.length]!);
        expect(spans.size).toBe(plan.requests);
        const at = (session: number, turn: number): Span => spans.get(`${session}.${turn}`)!;
        const endOf = (session: number): number => at(session, plan.sessions[session]!.turns.length - 1).to;
        const capped = (ms: number): number => Math.min(ms, plan.settings.think_cap_ms);
        for (const [
          index,
          { family, parent, startAt, startDelayMs, startsAfter, turns },
        ] of plan.sessions.entries()) {
          const begins = parent < 0 ? startAt : at(parent, startsAfter).to + capped(startDelayMs);
          expect(at(index, 0).from).toBeCloseTo(begins, 6);
          for (const [turn, { awaits, thinkMs }] of turns.entries()) {
            if (turn === 0) continue;
            const ready = Math.max(at(index, turn - 1).to, ...awaits.map((one) => endOf(family + one)));
            expect(at(index, turn).from).toBeCloseTo(ready + capped(thinkMs), 6);
          }
        }
      }),
    );
  });

  it('keeps the times of the trace where answers take as long as in the trace and it tells no think times', () => {
    fc.assert(
      fc.property(sessionRows, (drawn) => {
        const rows = drawn.map((row) => ({
          ...row,
          requests: row.requests.flatMap((entry) => {
            if ('agent_id' in entry) return [];
            const { think_time: _, ...rest } = entry;
            return [rest];
          }),
        }));
        const plan = planOf(rows);
        const spans = loopOf(plan, (session, turn) => plan.sessions[session]!.turns[turn]!.answerMs);
        for (const [index, { requests }] of rows.entries()) {
          for (const [turn, { t }] of requests.entries()) {
            expect(spans.get(`${index}.${turn}`)!.from / 1000).toBeCloseTo(t, 6);
          }
        }
      }),
    );
  });

  it('divides starts and think times by the speed', () => {
    fc.assert(
      fc.property(sessionRows, (rows) => {
        const plan = planOf(rows, { window_ms: 10_000 });
        const slow = loopOf(plan, () => 0);
        for (const [key, { from }] of loopOf(plan, () => 0, 4))
          expect(from).toBeCloseTo(slow.get(key)!.from / 4, 6);
      }),
    );
  });
});

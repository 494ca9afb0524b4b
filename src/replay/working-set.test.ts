import fc from 'fast-check';
import { expect, it } from 'vitest';
import { VirtualTime } from '../simulator/index.ts';
import { SessionLoop } from './session-loop.ts';
import type { SessionPlan } from './session-plan.ts';
import { planOf, sessionRows } from './session-traces.fixtures.ts';
import { measureWorkingSet } from './working-set.ts';

/** The same from the definition: at every moment, the union of what live sessions have sent. */
function naive(plan: SessionPlan): { blocks: number; durationMs: number } {
  const time = new VirtualTime();
  const sent = plan.sessions.map(() => 0);
  let peak = 0;
  const loop: SessionLoop = new SessionLoop(plan, 1, {
    after: (delayMs, callback) => time.plan(time.now() + delayMs, 'arrival', callback),
    send(session, turn) {
      sent[session] = turn + 1;
      const union = new Set<string>();
      for (const [index, { family, turns }] of plan.sessions.entries()) {
        if (sent[index] === turns.length) continue;
        for (const { ids } of turns.slice(0, sent[index])) for (const id of ids) union.add(`${family}:${id}`);
      }
      peak = Math.max(peak, union.size);
      time.plan(time.now() + plan.sessions[session]!.turns[turn]!.answerMs, 'message', () =>
        loop.ended(session, turn),
      );
    },
  });
  loop.start();
  while (time.step());
  return { blocks: peak, durationMs: time.now() };
}

it('the working set is the most different blocks that sessions with a turn to come have sent', () => {
  let peak = 0;
  fc.assert(
    fc.property(
      sessionRows,
      fc.integer({ min: 1, max: 3 }),
      fc.constantFrom(0, 60_000),
      (rows, copies, window_ms) => {
        const plan = planOf(rows, { copies, window_ms });
        const found = measureWorkingSet(plan, 1);
        expect(found).toEqual(naive(plan));
        peak = Math.max(peak, found.blocks);
      },
    ),
  );
  expect(peak).toBeGreaterThan(10);
});

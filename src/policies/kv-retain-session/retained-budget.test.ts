import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MOST_SESSIONS, RetainedBudget } from './retained-budget.ts';

const worker = { workerId: 1n, rank: 0 };

it('is what the unended sessions of a worker leave, as if it were counted anew each time', () => {
  const turn = fc.record({
    session: fc.constantFrom('a', 'b', 'c', 'd'),
    rank: fc.nat(1),
    blocks: fc.integer({ min: 1, max: 8 }),
    wanted: fc.integer({ min: 1, max: 12 }),
    ms: fc.integer({ min: 1, max: 20 }),
    // Time may stand still.
    later: fc.integer({ min: 0, max: 9 }),
    final: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 60 }), (turns) => {
      const budget = new RetainedBudget(10);
      const naive = new Map<string, { blocks: number; until: number }>();
      let now = 100;
      for (const { blocks, final, later, ms, rank, session, wanted } of turns) {
        now += later;
        const at = { workerId: 7n, rank };
        for (const [key, { until }] of naive) if (until <= now) naive.delete(key);
        let used = 0;
        for (const [key, one] of naive)
          if (key.startsWith(`${rank} `) && key !== `${rank} ${session}`) used += one.blocks;
        const room = budget.room(at, session, now, wanted);
        expect(room).toBe(Math.min(wanted, Math.max(0, 10 - used)));
        if (final) {
          budget.forget(at, session);
          naive.delete(`${rank} ${session}`);
        } else if (room > 0) {
          budget.note(at, session, Math.min(room, blocks), now + ms);
          naive.set(`${rank} ${session}`, { blocks: Math.min(room, blocks), until: now + ms });
        }
      }
    }),
  );
});

it('is kept for so many sessions of a worker at a time, however many blocks it has', () => {
  const budget = new RetainedBudget(Number.MAX_SAFE_INTEGER);
  const noteOf = (session: string, now: number): number => {
    const room = budget.room(worker, session, now, 5);
    if (room > 0) budget.note(worker, session, 5, now + 1000);
    return room;
  };
  for (let session = 0; session < MOST_SESSIONS; session += 1) expect(noteOf(`s${session}`, 0)).toBe(5);
  expect([noteOf('more', 999), noteOf('s3', 999)]).toEqual([0, 5]);
  expect(noteOf('more', 1000)).toBe(5);
  expect(budget.sessions(worker)).toBe(2);
});

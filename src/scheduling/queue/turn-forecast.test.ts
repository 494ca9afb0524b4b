// Turns foreseen, beside the turns that come.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyQueue } from './policy-queue.ts';
import { queueClass, queued } from './queue.fixtures.ts';

const always = (): boolean => true;

it('are the turns that come while nobody else does, and change nothing', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 }),
      fc.array(
        fc.record({
          at: fc.nat(3),
          cost: fc.integer({ min: 1, max: 99 }),
          strictPriority: fc.nat(1),
          pinned: fc.option(fc.record({ workerId: fc.bigInt(1n, 2n), rank: fc.constant(0) }), { freq: 2 }),
        }),
        { maxLength: 50 },
      ),
      fc.nat(10),
      fc.nat(3),
      fc.integer({ min: 1, max: 300 }),
      (quanta, requests, before, which, amount) => {
        const queue = new PolicyQueue<number>(
          quanta.map((quantum, at) => queueClass(String(at), { quantum })),
          0,
        );
        for (const { at, cost, ...rest } of requests)
          queue.push(at % quanta.length, queued(at % quanta.length, cost, rest));
        for (let go = 0; go < before; go += 1) queue.popNext(always);
        const classIndex = which % quanta.length;
        const deficits = queue.classes.map(({ deficit }) => deficit);
        const { work, times } = queue.forecast(classIndex, amount, ({ rawIsl }) => rawIsl);
        expect(queue.classes.map(({ deficit }) => deficit)).toEqual(deficits);
        let gone = 0;
        const came: number[] = [];
        while (gone < amount) {
          const entry = queue.popNext(always);
          if (entry === null) break;
          came.push(entry.snapshot.cost);
          if (entry.payload === classIndex) gone += entry.snapshot.cost;
        }
        expect(work).toEqual(came);
        expect(times).toBe(gone >= amount ? 1 : gone === 0 ? Number.POSITIVE_INFINITY : amount / gone);
      },
    ),
    { numRuns: 500 },
  );
});

it('are cut short after 64, and go on as they did', () => {
  const queue = new PolicyQueue<string>([queueClass('a'), queueClass('b')], 0);
  for (let at = 0; at < 500; at += 1) for (const index of [0, 1]) queue.push(index, queued('x', 10));
  const { work, times } = queue.forecast(0, 320, () => 1);
  expect([work.length, times]).toEqual([64, 10]);
});

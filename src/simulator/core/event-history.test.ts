import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventHistory } from './event-history.ts';

const bytes = (length: number, fill = 0): Uint8Array => new Uint8Array(length).fill(fill);
const numbers = (history: EventHistory, start: number): number[] =>
  history.since(start).map(({ sequence }) => sequence);

describe('an event history', () => {
  it('answers every kept batch from a number on, in order', () => {
    const history = new EventHistory(3);
    for (let batch = 0; batch < 5; batch += 1) history.append(bytes(1, batch));
    expect(numbers(history, 0)).toEqual([2, 3, 4]);
    expect(numbers(history, 3)).toEqual([3, 4]);
    expect(numbers(history, 5)).toEqual([]);
    expect(history.since(4)[0]!.payload).toEqual(bytes(1, 4));
  });

  it('keeps nothing with a capacity of 0 and numbers batches all the same', () => {
    const history = new EventHistory(0);
    expect([history.append(bytes(1)).sequence, history.append(bytes(1)).sequence]).toEqual([0, 1]);
    expect(history.since(0)).toEqual([]);
  });

  it('gives up the oldest batches when their bytes grow beyond the cap, at last also the newest', () => {
    const history = new EventHistory(100, 10);
    for (let batch = 0; batch < 4; batch += 1) history.append(bytes(4));
    expect(numbers(history, 0)).toEqual([2, 3]);
    history.append(bytes(11));
    expect(numbers(history, 0)).toEqual([]);
    history.append(bytes(10));
    expect(numbers(history, 0)).toEqual([5]);
  });

  it('is the tail of a plain list, whatever is appended and restarted', () => {
    const step = fc.oneof({ weight: 9, arbitrary: fc.nat(6) }, fc.constant('restart' as const));
    fc.assert(
      fc.property(
        fc.nat(5),
        fc.integer({ min: 1, max: 20 }),
        fc.array(step),
        fc.nat(40),
        (capacity, cap, steps, from) => {
          const history = new EventHistory(capacity, cap);
          let list: { sequence: number; size: number }[] = [];
          let next = 0;
          for (const taken of steps) {
            if (taken === 'restart') {
              history.restart();
              list = [];
              next = 0;
              continue;
            }
            expect(history.append(bytes(taken)).sequence).toBe(next);
            list.push({ sequence: next, size: taken });
            next += 1;
            while (list.length > capacity || list.reduce((sum, { size }) => sum + size, 0) > cap)
              list.shift();
          }
          expect(history.kept).toBe(list.length);
          expect(history.since(from).map((batch) => [batch.sequence, batch.payload.length])).toEqual(
            list.filter(({ sequence }) => sequence >= from).map(({ sequence, size }) => [sequence, size]),
          );
        },
      ),
    );
  });
});

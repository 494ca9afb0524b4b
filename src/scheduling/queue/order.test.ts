// Who goes first within a class.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareKeys, policyScore } from './order.ts';
import { PolicyQueue } from './policy-queue.ts';
import { queueClass, queued } from './queue.fixtures.ts';

const order = (policy: 'fcfs' | 'wspt', requests: ReturnType<typeof queued<string>>[]): string[] => {
  const queue = new PolicyQueue<string>([queueClass('a', { policy })], 0);
  for (const one of requests) queue.push(0, one);
  return requests.map(() => queue.popNext(() => true)?.payload ?? '');
};

describe('the score', () => {
  it('is priority less arrival under fcfs, and weight by cost under wspt', () => {
    expect(policyScore('fcfs', 3, 10, 100)).toBe(-7);
    expect(policyScore('fcfs', -3, 10, 100)).toBe(-10);
    expect(policyScore('wspt', 3, 10, 100)).toBe(0.04);
    expect(policyScore('wspt', -3, 10, 100)).toBe(0.01);
  });
});

describe('the order', () => {
  it('takes equal keys first in, first out', () => {
    expect(
      order(
        'wspt',
        ['x', 'y', 'z'].map((name) => queued(name, 5)),
      ),
    ).toEqual(['x', 'y', 'z']);
    expect(
      order(
        'fcfs',
        ['x', 'y', 'z'].map((name) => queued(name, 5)),
      ),
    ).toEqual(['x', 'y', 'z']);
  });

  it('lets a strict priority win over everything, a due time over the score, and earlier ones over later', () => {
    const all = [
      queued('cheap', 1),
      queued('due late', 100, { dueAt: 9000 }),
      queued('due soon', 100, { dueAt: 10 }),
      queued('strict', 100, { strictPriority: 1 }),
      queued('strict and due', 100, { strictPriority: 1, dueAt: 1e9 }),
    ];
    expect(order('wspt', all)).toEqual(['strict and due', 'strict', 'due soon', 'due late', 'cheap']);
  });

  it('lets a priority of n overtake who came less than n seconds before, under fcfs', () => {
    const at = (name: string, arrivedAt: number, priorityJump: number) =>
      queued(name, 1, { arrivedAt, priorityJump });
    expect(order('fcfs', [at('first', 1000, 0), at('second', 2000, 0), at('jumps', 3500, 2)])).toEqual([
      'first',
      'jumps',
      'second',
    ]);
  });

  it('is total: any two keys with other numbers are told apart, the same way round', () => {
    const key = fc.record({
      strictPriority: fc.nat(2),
      dueAt: fc.option(fc.nat(2)),
      score: fc.constantFrom(-1, 0, 0.5),
      sequence: fc.nat(1000),
    });
    fc.assert(
      fc.property(key, key, key, (a, b, c) => {
        fc.pre(new Set([a.sequence, b.sequence, c.sequence]).size === 3);
        expect(Math.sign(compareKeys(a, b))).toBe(-Math.sign(compareKeys(b, a)));
        expect(compareKeys(a, b)).not.toBe(0);
        if (a.strictPriority > b.strictPriority) expect(compareKeys(a, b)).toBeLessThan(0);
        if (compareKeys(a, b) < 0 && compareKeys(b, c) < 0) expect(compareKeys(a, c)).toBeLessThan(0);
      }),
    );
  });

  it('is not hidden by a pin: a blocked lane leaves others their turn', () => {
    const queue = new PolicyQueue<string>([queueClass('a')], 0);
    const pinned = (workerId: bigint) => ({ workerId, rank: 0 });
    queue.push(0, queued('blocked', 1, { pinned: pinned(1n) }));
    queue.push(0, queued('other lane', 1, { pinned: pinned(2n) }));
    queue.push(0, queued('anywhere', 1));
    const asked: string[] = [];
    const free = ({
      payload,
      pinned: at,
    }: {
      payload: string;
      pinned: { workerId: bigint } | null;
    }): boolean => {
      asked.push(payload);
      return at?.workerId !== 1n;
    };
    expect([queue.popNext(free)?.payload, queue.popNext(free)?.payload, queue.popNext(free)]).toEqual([
      'other lane',
      'anywhere',
      null,
    ]);
    // Parked after the first look; it is asked about again when its worker is.
    expect(asked.filter((name) => name === 'blocked')).toHaveLength(1);
    queue.unpark(2n);
    expect(queue.popNext(free)).toBeNull();
    queue.unpark(1n);
    expect(queue.popNext(() => true)?.payload).toBe('blocked');
  });
});

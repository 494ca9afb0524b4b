// Deficit round robin over classes: the documented examples, and any history beside a queue of plain lists.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { QueueEntry } from './class-queue.ts';
import { PolicyQueue } from './policy-queue.ts';
import { NaiveQueue, queueClass, queued } from './queue.fixtures.ts';
import type { QueueClass } from './types.ts';

const always = (): boolean => true;
const deficits = (queue: PolicyQueue<string>): number[] => queue.classes.map(({ deficit }) => deficit);

describe('the documented examples', () => {
  it('a quantum of 10 lets three requests of 3 go before the next class', () => {
    const queue = new PolicyQueue<string>([queueClass('a'), queueClass('b')], 0);
    for (const at of [0, 1, 2, 3]) queue.push(0, queued(`a${at}`, 3));
    for (const at of [0, 1, 2, 3]) queue.push(1, queued(`b${at}`, 3));
    const order = Array.from({ length: 8 }, () => queue.popNext(always)?.payload);
    expect(order).toEqual(['a0', 'a1', 'a2', 'b0', 'b1', 'b2', 'a3', 'b3']);
  });

  it('heads of 7000 and 9000 tokens: four rounds at once, and latency goes', () => {
    const classes = [queueClass('standard', { quantum: 1000 }), queueClass('latency', { quantum: 2000 })];
    const queue = new PolicyQueue<string>(classes, 0);
    queue.push(0, queued('standard', 7000));
    queue.push(1, queued('latency', 9000));
    queue.push(1, queued('behind', 9000));
    expect(queue.popNext(always)?.payload).toBe('latency');
    // One round and four more for both: 5 × 1000, and 5 × 2000 − 9000.
    expect(deficits(queue)).toEqual([5000, 1000]);
  });

  it.each([
    [512, 128, 254, 257],
    [512, 512, 159, 161],
  ])(
    '320 + 320 requests of 512 tokens with quanta %i and %i: %i to %i of the first 320',
    (premium, basic, from, to) => {
      const queue = new PolicyQueue<string>(
        [queueClass('premium', { quantum: premium }), queueClass('basic', { quantum: basic })],
        0,
      );
      for (let at = 0; at < 320; at += 1) {
        queue.push(0, queued('premium', 512));
        queue.push(1, queued('basic', 512));
      }
      const first = Array.from({ length: 320 }, () => queue.popNext(always)?.payload);
      const share = first.filter((name) => name === 'premium').length;
      expect(share).toBeGreaterThanOrEqual(from);
      expect(share).toBeLessThanOrEqual(to);
    },
  );
});

describe('deficit round robin', () => {
  it('keeps the turn of whoever is pinned elsewhere while it waits', () => {
    const request = fc.record({
      at: fc.nat(1),
      cost: fc.integer({ min: 1, max: 25 }),
      before: fc.option(fc.constantFrom(1n, 2n)),
      after: fc.option(fc.constantFrom(1n, 2n)),
    });
    const lane = (workerId: bigint | null) => (workerId === null ? null : { workerId, rank: null });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 20 }), fc.nat(20), (requests, from) => {
        const order = (repins: boolean): unknown[] => {
          const queue = new PolicyQueue<string>([queueClass('a'), queueClass('b')], 0);
          const entries = requests.map(({ at, cost, before }, nth) =>
            queue.push(at, { ...queued(`${nth}`, cost), pinned: lane(before) }),
          );
          const popped: unknown[] = [];
          for (let turn = 0; turn <= requests.length; turn += 1) {
            if (repins && turn === from)
              for (const [nth, entry] of entries.entries())
                if (entry.place >= 0) queue.repin(entry, lane(requests[nth]?.after ?? null));
            popped.push([queue.popNext(always)?.payload, ...deficits(queue), queue.size]);
          }
          return popped;
        };
        expect(order(true)).toEqual(order(false));
      }),
    );
  });

  it('lets a head go that costs more than any grant, in one call', () => {
    const queue = new PolicyQueue<string>([queueClass('a', { quantum: 1 })], 0);
    queue.push(0, queued('big', 2 ** 31));
    expect(queue.popNext(always)?.payload).toBe('big');
    expect(deficits(queue)).toEqual([0]);
  });

  it('grants blocked classes nothing, and they keep what they have', () => {
    const queue = new PolicyQueue<string>([queueClass('a'), queueClass('b')], 0);
    for (const name of ['a', 'b'])
      for (const cost of [4, 4, 4]) queue.push(name === 'a' ? 0 : 1, queued(name, cost));
    expect(queue.popNext(always)?.payload).toBe('a');
    expect(deficits(queue)).toEqual([6, 0]);
    for (let go = 0; go < 3; go += 1) {
      expect(queue.popNext((_, { name }) => name === 'b')?.payload).toBe('b');
      expect(deficits(queue)[0]).toBe(6);
    }
    expect(queue.popNext((_, { name }) => name === 'b')).toBeNull();
    expect(deficits(queue)).toEqual([6, 0]);
  });

  it('shares tokens by quantum while both classes wait, within one request of each', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2000 }),
        fc.integer({ min: 1, max: 2000 }),
        fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1, maxLength: 8 }),
        (first, second, costs) => {
          const quanta = [first, second];
          const queue = new PolicyQueue<number>(
            quanta.map((quantum, at) => queueClass(String(at), { quantum })),
            0,
          );
          const served = [0, 0];
          const pushed = [0, 0];
          const fill = (at: number): void => {
            const cost = costs[pushed[at]! % costs.length]!;
            pushed[at]! += 1;
            queue.push(at, queued(at, cost));
          };
          for (const at of [0, 0, 1, 1]) fill(at);
          for (let go = 0; go < 300; go += 1) {
            const entry = queue.popNext(always);
            if (entry === null) throw new Error('nobody goes');
            served[entry.payload]! += entry.snapshot.cost;
            fill(entry.payload);
          }
          // Both were in as many rounds, but for one; of what they were granted less than a request each is not spent yet.
          const most = Math.max(...costs);
          const rounds = served.map((tokens, at) => tokens / quanta[at]!);
          const slack = 1 + Math.max(most / first, most / second);
          expect(Math.abs(rounds[0]! - rounds[1]!)).toBeLessThanOrEqual(slack);
        },
      ),
    );
  });
});

const classes = fc.array(
  fc.record({
    quantum: fc.integer({ min: 1, max: 50 }),
    policy: fc.constantFrom('fcfs' as const, 'wspt' as const),
  }),
  { minLength: 1, maxLength: 4 },
);
const request = fc.record({
  cost: fc.integer({ min: 1, max: 200 }),
  cached: fc.nat(50),
  strictPriority: fc.nat(2),
  priorityJump: fc.integer({ min: -2, max: 3 }),
  dueAt: fc.option(fc.nat(3), { freq: 3 }),
  arrivedAt: fc.nat(3).map((seconds) => seconds * 1000),
  pinned: fc.option(fc.record({ workerId: fc.bigInt(1n, 3n), rank: fc.constantFrom(null, 0, 1) }), {
    freq: 2,
  }),
});
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('push' as const), at: fc.nat(3), request }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pop' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), which: fc.nat(100) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('busy' as const), worker: fc.nat(3), busy: fc.boolean() }),
  },
);

describe('any history', () => {
  it('goes as with plain lists: same order, deficits and sums, nobody lost or twice', () => {
    fc.assert(
      fc.property(classes, fc.array(step, { maxLength: 120, size: 'max' }), (kinds, steps) => {
        const made: QueueClass[] = kinds.map((kind, at) => queueClass(`c${at}`, kind));
        const queue = new PolicyQueue<number>(made, 0);
        const naive = new NaiveQueue<number>(made);
        const waiting = new Map<number, QueueEntry<number>>();
        /** 0 = the workers that anybody may go to; others by their id. */
        const busy = new Set<bigint>();
        const isFree = ({ pinned }: { readonly pinned: { readonly workerId: bigint } | null }): boolean =>
          !busy.has(pinned?.workerId ?? 0n);
        let last = 0;
        for (const one of steps) {
          if (one.do === 'push') {
            const { cost, cached, ...rest } = one.request;
            const at = one.at % made.length;
            const item = queued(++last, cost, { ...rest, snapshot: { rawIsl: cost + cached, cached, cost } });
            waiting.set(last, queue.push(at, item));
            naive.push(at, item);
          } else if (one.do === 'pop') {
            const entry = queue.popNext(isFree);
            expect(entry?.payload ?? null).toBe(naive.popNext(isFree));
            if (entry !== null) expect(waiting.delete(entry.payload)).toBe(true);
          } else if (one.do === 'remove') {
            const [payload, entry] = [...waiting][one.which % Math.max(1, waiting.size)] ?? [0, null];
            if (entry === null) continue;
            expect([queue.remove(entry), queue.remove(entry)]).toEqual([true, false]);
            expect(naive.remove(payload)).toBe(true);
            waiting.delete(payload);
          } else {
            const worker = BigInt(one.worker);
            if (one.busy) busy.add(worker);
            else {
              busy.delete(worker);
              // What is parked is looked at again only when it is told so.
              queue.unpark(worker);
            }
          }
          expect(queue.size).toBe(waiting.size);
          for (const [at, { deficit, stats }] of queue.classes.entries()) {
            expect([stats, deficit]).toEqual([naive.statsOf(at), naive.deficits[at]]);
            expect(deficit).toBeGreaterThanOrEqual(0);
            if (stats.requests === 0) expect(deficit).toBe(0);
          }
        }
        busy.clear();
        queue.unparkAll();
        while (waiting.size > 0) expect(waiting.delete(queue.popNext(isFree)?.payload ?? -1)).toBe(true);
        expect([queue.popNext(isFree), queue.size]).toEqual([null, 0]);
        expect(queue.classes.map(({ laneCount }) => laneCount)).toEqual(made.map(() => 0));
      }),
      { numRuns: 500 },
    );
  });

  it('moves to other classes with nobody lost, in the order in which they came', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ at: fc.nat(2), cost: fc.integer({ min: 1, max: 40 }) }), { maxLength: 40 }),
        fc.nat(20),
        (pushes, pops) => {
          const before = new PolicyQueue<number>([queueClass('a'), queueClass('b'), queueClass('c')], 0);
          for (const [number, { at, cost }] of pushes.entries()) before.push(at, queued(number, cost));
          for (let go = 0; go < pops; go += 1) before.popNext(always);
          const waiting = before.classes
            .flatMap((one) => one.entries().map(({ payload }) => payload))
            .sort((a, b) => a - b);
          const kept = before.classes[1]?.deficit ?? 0;
          const keepsB = (before.classes[1]?.stats.requests ?? 0) > 0;
          const after = new PolicyQueue<number>([queueClass('b'), queueClass('all')], 0);
          const moves: number[] = [];
          before.moveTo(
            after,
            ({ of }) => (of.queueClass.name === 'b' ? 0 : 1),
            (from, to) => {
              expect(to.payload).toBe(from.payload);
              moves.push(to.payload);
            },
          );
          expect([moves, before.size, after.size]).toEqual([waiting, 0, waiting.length]);
          expect(after.classes[0]?.deficit).toBe(keepsB ? kept : 0);
          const got: number[] = [];
          for (let entry = after.popNext(always); entry !== null; entry = after.popNext(always))
            got.push(entry.payload);
          expect(got.sort((a, b) => a - b)).toEqual(waiting);
        },
      ),
    );
  });
});

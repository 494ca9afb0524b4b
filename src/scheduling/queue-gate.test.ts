// What the queue asks of fleet and loads, beside the plainest way of answering.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fleet, type WorkerState } from '../fleet/index.ts';
import { createBlockHasher, createPrefixIndex, TIERS } from '../kv/index.ts';
import { queueClass } from './queue/queue.fixtures.ts';
import { QueueGate } from './queue-gate.ts';
import { ANYWHERE, picking, tinyWorker } from './scheduler.fixtures.ts';

const PARTITION = { model: 'tiny', routingGroup: 'default' };
const ANY = { partition: PARTITION, role: 'aggregated', constraints: ANYWHERE, loraName: null } as const;

function gateOver(fleet: Fleet, tokens: ReadonlyMap<number, number>) {
  return new QueueGate({
    fleet,
    loads: { prefillTokensOn: (slot) => tokens.get(slot) ?? 0 },
    weights: () => ({ host: 0.75, disk: 0.25 }),
  });
}

const rank = fc.record({ tokens: fc.integer({ min: 0, max: 30 }) });
const worker = fc.record({
  ranks: fc.array(rank, { minLength: 1, maxLength: 3 }),
  state: fc.constantFrom<WorkerState>('ready', 'ready', 'ready', 'suspect', 'gone'),
  perPass: fc.constantFrom(null, 10, 20),
  tainted: fc.boolean(),
});

describe('busy', () => {
  it('is whoever has too much on every rank that may take the request: all of them, or the ratio', () => {
    fc.assert(
      fc.property(
        fc.array(worker, { maxLength: 5 }),
        fc.option(fc.nat(30)),
        fc.option(fc.constantFrom(0, 0.5, 1, 2)),
        fc.option(fc.constantFrom(0.25, 0.5, 0.95, 1)),
        fc.option(fc.record({ workerId: fc.bigInt(1n, 5n), rank: fc.constantFrom(null, 0, 1) })),
        fc.boolean(),
        (workers, absolute, share, ratio, pinnedWorker, tainted) => {
          const fleet = new Fleet();
          const tokens = new Map<number, number>();
          for (const [at, { ranks, state, perPass, tainted: has }] of workers.entries()) {
            const { slots, spec } = fleet.add(
              tinyWorker(BigInt(at + 1), {
                ranks: { first: 0, count: ranks.length },
                maxNumBatchedTokens: perPass,
                taints: has ? ['t'] : [],
              }),
            );
            for (const [index, slot] of slots.entries()) tokens.set(slot, ranks[index]?.tokens ?? 0);
            fleet.setState(spec.id, state);
          }
          const perWorker = workers.flatMap(({ ranks, state, perPass, tainted: has }, at) => {
            if (state !== 'ready' || (tainted && !has)) return [];
            if (pinnedWorker !== null && pinnedWorker.workerId !== BigInt(at + 1)) return [];
            const mine = ranks.filter((_, index) => (pinnedWorker?.rank ?? index) === index);
            if (mine.length === 0) return [];
            const tooMuch = (one: { readonly tokens: number }): boolean =>
              (absolute !== null && one.tokens > absolute) ||
              (share !== null && one.tokens > share * (perPass ?? 10_000_000));
            return [mine.every(tooMuch)];
          });
          const expected =
            perWorker.length > 0 &&
            (ratio === null
              ? perWorker.every((busy) => busy)
              : perWorker.filter((busy) => busy).length / perWorker.length >= ratio);
          const settings = {
            prefillBusyThreshold: absolute,
            prefillBusyThresholdFrac: share,
            busyWorkerRatio: ratio,
          };
          const constraints = { ...ANYWHERE, pinnedWorker, requiredTaints: tainted ? ['t'] : [] };
          const gate = gateOver(fleet, tokens);
          expect(gate.isBusy(queueClass('a', settings), { ...ANY, constraints })).toBe(expected);
          expect(gate.workersOf(ANY)).toBe(workers.filter(({ state }) => state !== 'gone').length);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is 19 of 20 workers at a ratio of 0.95', () => {
    const fleet = new Fleet();
    const tokens = new Map<number, number>();
    for (let id = 1n; id <= 20n; id += 1n)
      tokens.set(fleet.add(tinyWorker(id)).slots[0] ?? -1, id === 20n ? 0 : 5);
    const gate = gateOver(fleet, tokens);
    expect(gate.isBusy(queueClass('a', { busyWorkerRatio: 0.95 }), ANY)).toBe(true);
    expect(gate.isBusy(queueClass('a', { busyWorkerRatio: 0.96 }), ANY)).toBe(false);
    expect(gate.isBusy(queueClass('a'), ANY)).toBe(false);
  });
});

describe('the best that is cached', () => {
  const hasher = createBlockHasher();
  const tokens = Uint32Array.from({ length: 64 }, (_, at) => at);
  const { local, sequence } = hasher.hashPrompt(tokens, 16, { lo: 0, hi: 0 });
  const costWeights = null;

  it('is that of the rank with the most, by tiers, of those that may take the request, and no more than the prompt', () => {
    const fleet = new Fleet();
    const index = createPrefixIndex({ hasher });
    const store = (id: bigint, blocks: number, tier: 'device' | 'host', changes = {}): void => {
      const [slot = -1] = fleet.add(tinyWorker(id, changes)).slots;
      index.bindOwner(slot, id);
      const external = Uint32Array.from(local.subarray(0, 2 * blocks), (half) => (half ^ 0x5a5a5a5a) >>> 0);
      expect(index.store(slot, tier, null, external, local.subarray(0, 2 * blocks))).toBe('stored');
    };
    store(1n, 2, 'device');
    store(2n, 4, 'host');
    store(3n, 4, 'device', { role: 'prefill' });
    store(4n, 4, 'device', { model: 'other' });
    const gate = gateOver(fleet, new Map());
    const best = (constraints = ANYWHERE, promptTokens = 64): number => {
      const match = index.find(local, sequence, TIERS);
      return gate.bestCached(
        { ...ANY, constraints },
        match,
        { ...picking(() => 0), costWeights },
        16,
        promptTokens,
      );
    };
    // 4 blocks of 16 in host memory count three quarters.
    expect(best()).toBe(48);
    expect(best({ ...ANYWHERE, allowedWorkers: [1n] })).toBe(32);
    expect(best({ ...ANYWHERE, pinnedWorker: { workerId: 1n, rank: 0 } })).toBe(32);
    expect(best({ ...ANYWHERE, allowedWorkers: [4n] })).toBe(0);
    expect(best(ANYWHERE, 40)).toBe(40);
    fleet.setState(2n, 'draining');
    expect(best()).toBe(32);
    expect(gate.bestCached(ANY, null, { costWeights }, 16, 64)).toBe(0);
  });
});

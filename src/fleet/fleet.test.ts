import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PointsmanError } from '../plugin/index.ts';
import { Fleet } from './fleet.ts';
import type { WorkerCapabilities, WorkerSpec } from './types.ts';

function spec(id: bigint, changes: Partial<WorkerSpec> = {}): WorkerSpec {
  return {
    id,
    model: 'tiny',
    url: `http://127.0.0.1:${9000 + Number(id % 1000n)}`,
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
    ...changes,
  };
}

function capabilities(epoch: string): WorkerCapabilities {
  return {
    epoch,
    model: 'tiny-sim',
    workerType: 'aggregated',
    blockSize: 16,
    hashScheme: 'sim-xxh3/seed=0',
    reportsOutcomes: true,
    ranks: new Map([
      [0, { routerHint: true, actions: new Set(['kv.fetch@1.0']), sourceControlEndpoint: null }],
    ]),
  };
}

const tiny = { model: 'tiny', routingGroup: 'default' };

describe('the fleet', () => {
  it('gives each rank a slot and answers both ways', () => {
    const fleet = new Fleet();
    fleet.add(spec(7n, { ranks: { first: 2, count: 3 } }));
    const worker = fleet.worker(7n);
    expect(worker?.slots).toEqual([0, 1, 2]);
    expect([fleet.slotWorkerId(1), fleet.slotRank(1), fleet.slotOf(7n, 3)]).toEqual([7n, 3, 1]);
    expect(fleet.workerOfSlot(2)).toBe(worker);
    expect([fleet.slotWorkerId(3), fleet.slotRank(3), fleet.slotOf(7n, 1), fleet.slotOf(8n, 0)]).toEqual([
      null,
      -1,
      -1,
      -1,
    ]);
  });

  it('lists the candidates of a partition in (worker id, rank) order, ids exact, whatever the order of joining', () => {
    const fleet = new Fleet();
    fleet.add(spec(0xffff_ffff_ffff_fffen));
    fleet.add(spec(5n, { ranks: { first: 0, count: 2 } }));
    fleet.add(spec(6n, { role: 'decode' }));
    fleet.add(spec(4n, { model: 'other' }));
    const candidates = fleet.candidates(tiny, 'aggregated');
    expect([...candidates.workerIds]).toEqual([5n, 5n, 0xffff_ffff_ffff_fffen]);
    expect([...candidates.ranks]).toEqual([0, 1, 0]);
    expect([...candidates.slots]).toEqual([1, 2, 0]);
    expect(new BigUint64Array(candidates.idWords.buffer)[2]).toBe(0xffff_ffff_ffff_fffen);
    expect(fleet.candidates(tiny, 'aggregated')).toBe(candidates);
    expect(fleet.candidates({ model: 'tiny', routingGroup: 'elsewhere' }, 'aggregated').slots.length).toBe(0);
    expect(fleet.candidates({ model: 'nobody', routingGroup: 'default' }, 'aggregated').slots.length).toBe(0);
  });

  it('keeps slots dense: any order of adding and removing leaves every rank exactly one slot below the most ever used', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ add: fc.boolean(), id: fc.bigInt(0n, 6n), ranks: fc.integer({ min: 1, max: 4 }) }),
          { maxLength: 60 },
        ),
        (operations) => {
          const fleet = new Fleet();
          let most = 0;
          for (const { add, id, ranks } of operations) {
            if (add && fleet.worker(id) === null) fleet.add(spec(id, { ranks: { first: 0, count: ranks } }));
            else if (!add) fleet.remove(id);
            const slots = fleet.workers().flatMap((worker) => worker.slots);
            most = Math.max(most, slots.length);
            expect(new Set(slots).size).toBe(slots.length);
            for (const worker of fleet.workers()) {
              worker.slots.forEach((slot, rank) => {
                expect(fleet.workerOfSlot(slot)).toBe(worker);
                expect(fleet.slotRank(slot)).toBe(rank);
              });
            }
            expect([...fleet.candidates(tiny, 'aggregated').slots].sort()).toEqual([...slots].sort());
            expect(fleet.slotCapacity).toBe(most);
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('tells listeners what happened, a restart when the epoch changes, and nothing when nothing changed', () => {
    const heard: string[] = [];
    const fleet = new Fleet();
    const unlisten = fleet.listen({
      added: (worker) => heard.push(`added ${worker.spec.id}`),
      removed: (worker) =>
        heard.push(
          `removed ${worker.spec.id} ${fleet.slotWorkerId(worker.slots[0] ?? -1)} ${fleet.worker(1n)}`,
        ),
      stateChanged: (worker, from) => heard.push(`${from} to ${worker.state}`),
      capabilitiesChanged: (worker) => heard.push(`epoch ${worker.capabilities?.epoch}`),
      restarted: () => heard.push('restarted'),
    });
    fleet.add(spec(1n));
    fleet.setCapabilities(1n, capabilities('a'));
    fleet.setCapabilities(1n, capabilities('a'));
    fleet.setCapabilities(1n, capabilities('b'));
    fleet.setState(1n, 'suspect');
    fleet.setState(1n, 'suspect');
    fleet.remove(1n);
    expect(fleet.remove(1n)).toBe(false);
    unlisten();
    fleet.add(spec(2n));
    expect(heard).toEqual([
      'added 1',
      'epoch a',
      'restarted',
      'epoch b',
      'ready to suspect',
      'removed 1 1 null',
    ]);
  });

  it('refuses what cannot be right and changes nothing', () => {
    const fleet = new Fleet({ maxSlots: 2 });
    fleet.add(spec(1n));
    const codeOf = (attempt: () => void): string => {
      try {
        attempt();
      } catch (error) {
        return `${(error as PointsmanError).code}: ${(error as PointsmanError).message}`;
      }
      return 'accepted';
    };
    expect(codeOf(() => fleet.add(spec(1n)))).toBe(
      'PM_WORKER_EXISTS: worker 1 is already in the fleet; remove it first, or give this one another id',
    );
    expect(codeOf(() => fleet.add(spec(2n, { ranks: { first: 0, count: 2 } })))).toBe(
      "PM_FLEET_FULL: worker 2 has 2 ranks, but only 1 of the fleet's 2 slots are free; remove workers first",
    );
    expect(codeOf(() => fleet.add(spec(1n << 64n)))).toBe(
      'PM_WORKER_INVALID: worker at http://127.0.0.1:9616 cannot be added: its id 18446744073709551616 does not fit 64 bits',
    );
    expect(codeOf(() => fleet.add(spec(3n, { ranks: { first: 0, count: 0 } })))).toBe(
      'PM_WORKER_INVALID: worker at http://127.0.0.1:9003 cannot be added: it has 0 ranks, and must have 1 to 4096',
    );
    expect(codeOf(() => fleet.add(spec(3n, { ranks: { first: 0.5, count: 1 } })))).toBe(
      'PM_WORKER_INVALID: worker at http://127.0.0.1:9003 cannot be added: its first rank is 0.5, and must be a whole number from 0',
    );
    expect(codeOf(() => fleet.setState(9n, 'gone'))).toBe(
      'PM_WORKER_UNKNOWN: no worker 9 is in the fleet; add it first',
    );
    expect([fleet.size, fleet.slotCapacity, fleet.candidates(tiny, 'aggregated').slots.length]).toEqual([
      1, 1, 1,
    ]);
  });
});

// Workers that callers registered: in partitions of their own, changed in place, and nobody here judges their health.
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { BlockSizes } from './block-sizes.ts';
import { Fleet } from './fleet.ts';
import { WorkerHealth } from './health.ts';
import { HealthProber } from './prober.ts';
import type { WorkerSpec } from './types.ts';

function spec(id: bigint, changes: Partial<WorkerSpec> = {}): WorkerSpec {
  return {
    id,
    model: 'm',
    url: 'http://127.0.0.1:1',
    dialect: 'auto',
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

const DEFAULT = { model: 'm', routingGroup: 'default' };

describe('a registered worker', () => {
  it('is a candidate only for those who ask for such, in its own group', () => {
    const fleet = new Fleet();
    fleet.add(spec(1n));
    fleet.add(spec(2n, { registered: true }));
    fleet.add(spec(3n, { registered: true, routingGroup: 'b' }));
    const ids = (group: string, withRegistered?: boolean) => [
      ...fleet.candidates({ model: 'm', routingGroup: group }, 'aggregated', withRegistered).workerIds,
    ];
    expect(ids('default')).toEqual([1n]);
    expect(ids('default', true)).toEqual([1n, 2n]);
    expect(ids('b')).toEqual([]);
    expect(ids('b', true)).toEqual([3n]);
    expect(ids('c', true)).toEqual([]);
    fleet.remove(2n);
    expect(ids('default', true)).toEqual([1n]);
    expect(fleet.candidates(DEFAULT, 'aggregated')).toBe(fleet.candidates(DEFAULT, 'aggregated', true));
  });

  it('keeps its slots where its record changes, and its place cannot change so', () => {
    const fleet = new Fleet();
    const changed: bigint[] = [];
    fleet.listen({ capabilitiesChanged: (worker) => changed.push(worker.spec.id) });
    const { slots } = fleet.add(spec(1n, { registered: true }));
    const { version } = fleet;
    const next = spec(1n, { registered: true, taints: ['a'] });
    expect(fleet.canUpdate(next)).toBe(true);
    fleet.update(next, null);
    expect(fleet.worker(1n)).toMatchObject({ slots, spec: { taints: ['a'] }, state: 'ready' });
    expect(fleet.version).not.toBe(version);
    expect(changed).toEqual([1n]);
    const elsewhere: Partial<WorkerSpec>[] = [
      { model: 'n' },
      { routingGroup: 'b' },
      { ranks: { first: 1, count: 1 } },
      { ranks: { first: 0, count: 2 } },
      { blockSize: 8 },
      { registered: false },
    ];
    for (const changes of elsewhere) {
      const moved = spec(1n, { registered: true, ...changes });
      expect(fleet.canUpdate(moved)).toBe(false);
      expect(() => fleet.update(moved, null)).toThrow('cannot be changed in place');
    }
    expect(fleet.canUpdate(spec(2n))).toBe(false);
    expect(() => fleet.update(spec(2n), null)).toThrow('no worker 2');
  });

  it('is never suspect or gone, and nobody asks how it is', () => {
    const fleet = new Fleet();
    const clock = new ManualClock();
    const asked: bigint[] = [];
    const health = new WorkerHealth(fleet);
    const prober = new HealthProber({
      fleet,
      health,
      clock,
      probe: async ({ spec: { id } }) => {
        asked.push(id);
        return { healthy: true };
      },
    });
    prober.start();
    fleet.add(spec(1n));
    fleet.add(spec(2n, { registered: true }));
    for (let times = 0; times < 4; times += 1) {
      health.streamReset(2n);
      health.connectionRefused(2n);
      health.checkFailed(2n);
    }
    clock.advanceTo(60_000);
    expect(fleet.worker(2n)?.state).toBe('ready');
    expect(new Set(asked)).toEqual(new Set([1n]));
    prober.stop();
  });

  it('says the block size of its own group, also after its engine began anew and for those that stay', () => {
    const fleet = new Fleet();
    const sizes = new BlockSizes(fleet, () => null);
    const registered = { registered: true, blockSize: 8, eagle: true };
    const [slot = -1] = fleet.add(spec(1n, registered)).slots;
    fleet.add(spec(2n, registered));
    fleet.add(spec(3n, { registered: true, blockSize: 32, routingGroup: 'b' }));
    const said = () => [
      sizes.ofModel('m'),
      sizes.pairsOfModel('m'),
      sizes.ofModel('m', 'b'),
      sizes.pairsOfModel('m', 'b'),
    ];
    expect(said()).toEqual([8, true, 32, null]);
    sizes.restarted(slot);
    expect(said()).toEqual([8, true, 32, null]);
    fleet.remove(1n);
    expect(said()).toEqual([8, true, 32, null]);
    fleet.remove(2n);
    expect(said()).toEqual([null, null, 32, null]);
    expect(sizes.ofSlot(fleet.slotOf(3n, 0))).toBe(32);
  });
});

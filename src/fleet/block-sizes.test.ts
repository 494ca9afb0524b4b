import { describe, expect, it } from 'vitest';
import { BlockSizes } from './block-sizes.ts';
import { Fleet } from './fleet.ts';
import type { WorkerCapabilities, WorkerSpec } from './types.ts';

function spec(id: bigint, model: string): WorkerSpec {
  return {
    id,
    model,
    url: 'http://127.0.0.1:9000',
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
  };
}

function advertising(blockSize: number): WorkerCapabilities {
  return {
    epoch: 'a',
    model: 'x',
    workerType: 'aggregated',
    blockSize,
    hashScheme: 'sim',
    reportsOutcomes: false,
    ranks: new Map(),
  };
}

describe('pairs of tokens', () => {
  it('are what the configuration says, else what the first store said, while its worker lasts', () => {
    const fleet = new Fleet();
    const sizes = new BlockSizes(
      fleet,
      () => null,
      (model) => (model === 'set' ? false : null),
    );
    fleet.add(spec(1n, 'set'));
    fleet.add(spec(2n, 'open'));
    fleet.add(spec(3n, 'open'));
    expect([sizes.pairsOfModel('set'), sizes.pairsOfModel('open'), sizes.pairsOfSlot(99)]).toEqual([
      false,
      null,
      null,
    ]);
    sizes.learnPairs(fleet.slotOf(1n, 0), true);
    sizes.learnPairs(fleet.slotOf(2n, 0), true);
    sizes.learnPairs(fleet.slotOf(3n, 0), false);
    expect([sizes.pairsOfModel('set'), sizes.pairsOfSlot(fleet.slotOf(3n, 0))]).toEqual([false, true]);
    sizes.restarted(fleet.slotOf(3n, 0));
    expect(sizes.pairsOfModel('open')).toBe(true);
    sizes.restarted(fleet.slotOf(2n, 0));
    expect(sizes.pairsOfModel('open')).toBe(null);
  });
});

describe('block sizes', () => {
  it('are those configured, else advertised, else learned from the first store', () => {
    const fleet = new Fleet();
    const sizes = new BlockSizes(fleet, (model) => (model === 'set' ? 64 : null));
    fleet.add(spec(1n, 'set'), advertising(16));
    fleet.add(spec(2n, 'told'), advertising(32));
    fleet.add(spec(3n, 'silent'));
    expect(['set', 'told', 'silent', 'nobody'].map((model) => sizes.ofModel(model))).toEqual([
      64,
      32,
      null,
      null,
    ]);
    sizes.learn(fleet.slotOf(3n, 0), 8);
    sizes.learn(fleet.slotOf(3n, 0), 128);
    sizes.learn(99, 4);
    expect([sizes.ofModel('silent'), sizes.ofSlot(fleet.slotOf(3n, 0)), sizes.ofSlot(99)]).toEqual([
      8,
      8,
      null,
    ]);
  });

  it('hold until whoever said so is gone, removed or restarted', () => {
    const fleet = new Fleet();
    const sizes = new BlockSizes(fleet, () => null);
    fleet.add(spec(1n, 'm'), advertising(16));
    fleet.add(spec(2n, 'm'), advertising(64));
    expect(sizes.ofModel('m')).toBe(16);
    fleet.setCapabilities(2n, { ...advertising(128), epoch: 'b' });
    expect(sizes.ofModel('m')).toBe(16);
    fleet.setCapabilities(1n, { ...advertising(32), epoch: 'b' });
    expect(sizes.ofModel('m')).toBe(32);
    fleet.setState(1n, 'gone');
    expect(sizes.ofModel('m')).toBe(128);
    fleet.remove(2n);
    expect(sizes.ofModel('m')).toBeNull();
    const slot = fleet.slotOf(1n, 0);
    fleet.setState(1n, 'ready');
    fleet.setCapabilities(1n, null);
    sizes.learn(slot, 8);
    sizes.restarted(99);
    expect(sizes.ofModel('m')).toBe(8);
    sizes.restarted(slot);
    sizes.learn(slot, 4);
    expect(sizes.ofModel('m')).toBe(4);
  });
});

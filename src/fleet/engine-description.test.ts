import { describe, expect, it } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { BlockSizes } from './block-sizes.ts';
import {
  type EngineDescription,
  kvEventsOf,
  maxNumBatchedTokensOf,
  saidBlockSize,
  totalKvBlocksOf,
} from './engine-description.ts';
import { Fleet } from './fleet.ts';

const endpoint = (port: number) => ({
  address: `tcp://127.0.0.1:${port}`,
  binds: false,
  replay: null,
  topic: '',
});
const SAID: EngineDescription = {
  version: '1',
  models: null,
  blockSize: 32,
  totalKvBlocks: 100,
  maxNumBatchedTokens: 2048,
  maxModelLength: null,
  ranks: null,
  prefixCaching: true,
  kvEvents: new Map([[0, endpoint(1)]]),
  chatTemplate: null,
};
const capabilities = {
  epoch: 'e',
  model: 'm',
  workerType: 'aggregated',
  blockSize: 64,
  hashScheme: 'x',
  reportsOutcomes: false,
  totalKvBlocks: 50,
  maxNumBatchedTokens: 512,
  ranks: new Map([
    [0, { routerHint: false, actions: null, sourceControlEndpoint: null, kvEvents: endpoint(2) }],
  ]),
};

describe('what is known of a worker', () => {
  const described = { ...workerFixture(), engine: { dialect: 'd', description: SAID } };

  it('is what its engine says of itself where nobody else says anything', () => {
    expect(saidBlockSize(described)).toBe(32);
    expect(totalKvBlocksOf(described)).toBe(100);
    expect(maxNumBatchedTokensOf(described)).toBe(2048);
    expect(kvEventsOf(described, 0)?.address).toBe('tcp://127.0.0.1:1');
    expect(kvEventsOf(described, 1)).toBeNull();
    expect(totalKvBlocksOf(workerFixture())).toBeNull();
  });

  it('is rather what it advertises, and above all what configuration says', () => {
    const advertised = { ...described, capabilities };
    expect(saidBlockSize(advertised)).toBe(64);
    expect(totalKvBlocksOf(advertised)).toBe(50);
    expect(maxNumBatchedTokensOf(advertised)).toBe(512);
    expect(kvEventsOf(advertised, 0)?.address).toBe('tcp://127.0.0.1:2');
    const configured = {
      ...advertised,
      spec: {
        ...described.spec,
        totalKvBlocks: 7,
        maxNumBatchedTokens: 8,
        kvEvents: new Map([[0, endpoint(3)]]),
      },
    };
    expect(totalKvBlocksOf(configured)).toBe(7);
    expect(maxNumBatchedTokensOf(configured)).toBe(8);
    expect(kvEventsOf(configured, 0)?.address).toBe('tcp://127.0.0.1:3');
  });
});

describe('a fleet', () => {
  it('tells of a description once, and learns the block size of a model from it', () => {
    const fleet = new Fleet();
    const sizes = new BlockSizes(fleet, () => null);
    const { spec } = workerFixture();
    fleet.add(spec, null);
    const heard: (string | null)[] = [];
    fleet.listen({ capabilitiesChanged: ({ engine }) => heard.push(engine?.dialect ?? null) });
    expect(sizes.ofModel(spec.model)).toBeNull();
    const before = fleet.version;
    fleet.setEngine(spec.id, { dialect: 'd', description: SAID });
    fleet.setEngine(spec.id, {
      dialect: 'd',
      description: { ...SAID, kvEvents: new Map([[0, endpoint(1)]]) },
    });
    expect(fleet.version).toBe(before + 1);
    expect(sizes.ofModel(spec.model)).toBe(32);
    fleet.setEngine(spec.id, {
      dialect: 'd',
      description: { ...SAID, kvEvents: new Map([[0, endpoint(9)]]) },
    });
    fleet.setEngine(spec.id, null);
    expect(heard).toEqual(['d', 'd', null]);
  });
});

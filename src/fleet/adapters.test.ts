import { describe, expect, it } from 'vitest';
import { AdapterModels, holdsAdapter } from './adapters.ts';
import type { RecognizedEngine } from './engine-description.ts';
import { Fleet } from './fleet.ts';
import { topologyTaints } from './topology-taints.ts';
import type { WorkerCapabilities, WorkerSpec } from './types.ts';

const worker = (id: bigint, changes: Partial<WorkerSpec> = {}): WorkerSpec => ({
  id,
  model: 'tiny',
  url: `http://127.0.0.1:${9000 + Number(id)}`,
  dialect: 'sim',
  role: 'aggregated',
  ranks: { first: 0, count: 1 },
  kvEvents: new Map(),
  maxNumBatchedTokens: null,
  totalKvBlocks: null,
  taints: [],
  topology: {},
  ...changes,
});

const advertising = (adapters: readonly string[] | null): WorkerCapabilities => ({
  epoch: 'e1',
  model: 'tiny',
  workerType: 'aggregated',
  blockSize: 16,
  hashScheme: 'sim',
  reportsOutcomes: true,
  adapters,
  ranks: new Map(),
});

const NOTHING_SAID = {
  ...{ version: null, blockSize: null, totalKvBlocks: null, maxNumBatchedTokens: null, maxModelLength: null },
  ...{ ranks: null, prefixCaching: null, kvEvents: null, chatTemplate: null },
} as const;

describe('LoRA adapters', () => {
  it('are held by the record of a worker and by what its engine advertises', () => {
    const fleet = new Fleet();
    const configured = fleet.add(worker(1n, { adapters: ['law'] }));
    const advertised = fleet.add(worker(2n), advertising(['code']));
    const neither = fleet.add(worker(3n), advertising(null));
    const holders = (adapter: string) =>
      [configured, advertised, neither]
        .filter((one) => holdsAdapter(one, adapter))
        .map(({ spec }) => spec.id);
    expect(holders('law')).toEqual([1n]);
    expect(holders('code')).toEqual([2n]);
    expect(holders('tiny')).toEqual([]);
  });

  it('are held by a worker whose engine lists them, until it lists them no more', () => {
    const fleet = new Fleet();
    const adapters = new AdapterModels(fleet);
    const stock = fleet.add(worker(1n, { dialect: 'vllm' }));
    const listing = (...names: string[]): RecognizedEngine => ({
      dialect: 'vllm',
      description: { ...NOTHING_SAID, models: ['tiny', ...names], adapters: names },
    });
    expect([holdsAdapter(stock, 'law'), adapters.modelsOf('law')]).toEqual([false, []]);
    fleet.setEngine(1n, listing('law'));
    expect([holdsAdapter(stock, 'law'), adapters.modelsOf('law')]).toEqual([true, ['tiny']]);
    fleet.setEngine(1n, listing());
    expect([holdsAdapter(stock, 'law'), adapters.modelsOf('law')]).toEqual([false, []]);
  });

  it('name the models of their workers, as the fleet and its advertisements change', () => {
    const fleet = new Fleet();
    const adapters = new AdapterModels(fleet);
    expect(adapters.modelsOf('law')).toEqual([]);
    fleet.add(worker(1n, { model: 'small', adapters: ['law'] }));
    fleet.add(worker(2n, { model: 'big' }));
    expect(adapters.modelsOf('law')).toEqual(['small']);
    fleet.setCapabilities(2n, advertising(['law', 'code']));
    expect(adapters.modelsOf('law')).toEqual(['big', 'small']);
    expect(adapters.modelsOf('code')).toEqual(['big']);
    fleet.setState(1n, 'gone');
    expect(adapters.modelsOf('law')).toEqual(['big', 'small']);
    fleet.remove(1n);
    fleet.setCapabilities(2n, null);
    expect([...adapters.all()]).toEqual([]);
  });
});

describe('topology', () => {
  it('becomes a taint per domain, beside those of the record', () => {
    expect(topologyTaints({ zone: 'a', rack: 'r7' })).toEqual([
      'dynamo.topology/zone=a',
      'dynamo.topology/rack=r7',
    ]);
    const fleet = new Fleet();
    const added = fleet.add(worker(1n, { taints: ['h100'], topology: { zone: 'a' } }));
    expect(added.taints).toEqual(['h100', 'dynamo.topology/zone=a']);
    expect(added.spec.taints).toEqual(['h100']);
  });
});

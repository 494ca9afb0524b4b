// Values that several tests of the HTTP road start from.
import type { EngineRequest } from '../src/engines/index.ts';
import type { Worker, WorkerSpec } from '../src/fleet/index.ts';

/** A ready worker of dialect `sim` with one rank. */
export function workerFixture(spec: Partial<WorkerSpec> = {}): Worker {
  return {
    spec: {
      id: 1n,
      model: 'tiny',
      url: 'http://127.0.0.1:1',
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: new Map(),
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
      ...spec,
    },
    state: 'ready',
    capabilities: null,
    slots: [0],
  };
}

/** A completion request with exact tokens, not streaming. */
export function engineRequestFixture(over: Partial<EngineRequest> = {}): EngineRequest {
  return {
    requestId: 'req-1',
    partition: { model: 'tiny', routingGroup: 'default' },
    role: 'aggregated',
    worker: workerFixture(),
    rank: 0,
    servedAs: 'tiny-sim',
    api: 'completions',
    body: { model: 'tiny', prompt: 'hello', max_tokens: 4 },
    stream: false,
    tokens: Uint32Array.of(1, 4294967295),
    maxOutputTokens: 16,
    session: null,
    hint: null,
    ...over,
  };
}

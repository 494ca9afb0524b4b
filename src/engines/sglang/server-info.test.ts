import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EngineQuestion } from '../engine-description.ts';
import { readLoads } from './loads.ts';
import { describeSglang, readServerInfo } from './server-info.ts';

const INFO = {
  model_path: 'org/model',
  served_model_name: 'model',
  version: '0.5.17',
  page_size: 16,
  dp_size: 2,
  chunked_prefill_size: 8192,
  max_prefill_tokens: 16384,
  context_length: 32768,
  max_total_num_tokens: 20490,
  disable_radix_cache: false,
  kv_events_config:
    '{"publisher":"zmq","endpoint":"tcp://*:35000","replay_endpoint":"tcp://*:36000","topic":"kv"}',
};
const described = (over: object) => readServerInfo(JSON.stringify({ ...INFO, ...over }));

describe('readServerInfo', () => {
  it('reads what routing rests on, and where each rank publishes', () => {
    expect(described({})).toEqual({
      version: '0.5.17',
      models: ['model'],
      blockSize: 16,
      totalKvBlocks: 1280,
      maxNumBatchedTokens: 8192,
      maxModelLength: 32768,
      ranks: 2,
      prefixCaching: true,
      kvEvents: new Map([
        [0, { address: 'tcp://*:35000', binds: false, replay: 'tcp://*:36000', topic: 'kv' }],
        [1, { address: 'tcp://*:35001', binds: false, replay: 'tcp://*:36001', topic: 'kv' }],
      ]),
      chatTemplate: null,
    });
  });

  it('tells an engine that connects, one that publishes nothing, and one that does not say', () => {
    const events = (config: unknown) => described({ kv_events_config: config, dp_size: 1 })?.kvEvents;
    expect(events('{"publisher":"zmq","endpoint":"tcp://10.0.0.1:5557"}')?.get(0)).toMatchObject({
      binds: true,
    });
    expect([events(null), events(''), events('{"publisher":"null"}'), events({})]).toEqual([
      new Map(),
      new Map(),
      new Map(),
      new Map(),
    ]);
    expect([events(undefined), events('no json'), events(5)]).toEqual([null, null, null]);
  });

  it('takes the size of the cache from the state of a rank, and the size of a pass where prompts are not cut', () => {
    expect(
      described({
        max_total_num_tokens: undefined,
        internal_states: [{ memory_usage: { token_capacity: 320 } }],
      }),
    ).toMatchObject({ totalKvBlocks: 20 });
    expect(described({ chunked_prefill_size: -1 })).toMatchObject({ maxNumBatchedTokens: 16384 });
    expect(described({ disable_radix_cache: true })).toMatchObject({ prefixCaching: false });
  });

  it('knows other servers by what they do not say', () => {
    expect([
      readServerInfo('{}'),
      readServerInfo('[]'),
      readServerInfo('no'),
      readServerInfo('{"page_size":1}'),
    ]).toEqual([null, null, null, null]);
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        readServerInfo(text);
        readLoads(text);
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...Object.keys(INFO)), fc.jsonValue()), (over) => {
        const ranks = described(over)?.kvEvents?.size ?? 0;
        expect(ranks).toBeLessThanOrEqual(4096);
      }),
    );
  });
});

it('asks by the newer name, then by the older', async () => {
  const ask = async (names: readonly string[]) => {
    const paths: string[] = [];
    const found = await describeSglang(async ({ path }: EngineQuestion) => {
      paths.push(path);
      return names.includes(path) ? { status: 200, text: JSON.stringify(INFO) } : { status: 404, text: '' };
    });
    return [paths, found?.blockSize];
  };
  expect(await ask(['/server_info'])).toEqual([['/server_info'], 16]);
  expect(await ask(['/get_server_info'])).toEqual([['/server_info', '/get_server_info'], 16]);
  expect(await ask([])).toEqual([['/server_info', '/get_server_info'], undefined]);
});

it('reads the load of all ranks', () => {
  const rank = (running: number, waiting: number, usage: number) => ({
    num_running_reqs: running,
    num_waiting_reqs: waiting,
    token_usage: usage,
  });
  expect(readLoads(JSON.stringify({ loads: [rank(2, 1, 0.25), rank(3, 0, 0.5)] }))).toEqual({
    running: 5,
    waiting: 1,
    kvUsage: 0.5,
  });
  expect([readLoads('{"loads":[]}'), readLoads('{}'), readLoads('x')]).toEqual([null, null, null]);
});

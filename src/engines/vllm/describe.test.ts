import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AskEngine } from '../engine-description.ts';
import { describeVllm, readCacheConfig, readModels, readVersion } from './describe.ts';

const METRICS = [
  '# HELP vllm:num_requests_running Number of requests in model execution batches.',
  '# TYPE vllm:num_requests_running gauge',
  'vllm:num_requests_running{engine="0",model_name="m"} 1.0',
  'vllm:num_requests_running{engine="1",model_name="m"} 0.0',
  'vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="900"} 1.0',
  'vllm:cache_config_info{block_size="16",cache_dtype="a\\"},b",enable_prefix_caching="True",engine="1",num_gpu_blocks="880"} 1.0',
].join('\n');
const MODELS = JSON.stringify({
  object: 'list',
  data: [
    { id: 'm', object: 'model', owned_by: 'vllm', root: 'm', parent: null, max_model_len: 4096 },
    { id: 'adapter', object: 'model', owned_by: 'vllm', root: '/lora', parent: 'm', max_model_len: null },
  ],
});

function engine(answers: Readonly<Record<string, string>>): AskEngine {
  return ({ path }) =>
    Promise.resolve({ status: answers[path] === undefined ? 404 : 200, text: answers[path] ?? '' });
}

describe('describeVllm', () => {
  it('puts together what a server says at three places', async () => {
    const ask = engine({ '/version': '{"version":"0.20.1"}', '/v1/models': MODELS, '/metrics': METRICS });
    expect(await describeVllm(ask)).toEqual({
      version: '0.20.1',
      models: ['m', 'adapter'],
      adapters: ['adapter'],
      blockSize: 16,
      totalKvBlocks: 880,
      maxNumBatchedTokens: null,
      maxModelLength: 4096,
      ranks: 2,
      prefixCaching: true,
      kvEvents: null,
      chatTemplate: null,
    });
  });

  it('knows a server that keeps its models to who has a key, by its metrics', async () => {
    const ask = engine({ '/version': '{"version":"1"}', '/metrics': METRICS });
    expect(await describeVllm(ask)).toMatchObject({ models: null, blockSize: 16 });
    const unmeasured = engine({ '/version': '{"version":"1"}', '/v1/models': MODELS });
    expect(await describeVllm(unmeasured)).toMatchObject({ models: ['m', 'adapter'], blockSize: null });
  });

  it.each<[string, Readonly<Record<string, string>>]>([
    ['has no version', { '/v1/models': MODELS, '/metrics': METRICS }],
    ['only has a version', { '/version': '{"version":"1"}' }],
    [
      'belongs to somebody else',
      {
        '/version': '{"version":"1"}',
        '/v1/models': '{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}',
        '/metrics': 'sglang:num_running_reqs{engine="0"} 1',
      },
    ],
  ])('is null for a server that %s', async (_, answers) => {
    expect(await describeVllm(engine(answers))).toBeNull();
  });
});

describe('the readers of its answers', () => {
  it('take what is not said as not said', () => {
    expect(readCacheConfig('vllm:cache_config_info{block_size="None",num_gpu_blocks="None"} 1')).toEqual({
      blockSize: null,
      totalKvBlocks: null,
      prefixCaching: null,
      ranks: null,
    });
    expect(readCacheConfig('vllm:cache_config_info{enable_prefix_caching="False"} 1')).toMatchObject({
      prefixCaching: false,
    });
    expect(readCacheConfig('')).toBeNull();
    expect([readVersion('{"version":1}'), readVersion('[]'), readVersion('')]).toEqual([null, null, null]);
    expect([readModels('{"data":[]}'), readModels('{"data":[{"id":5}]}'), readModels('null')]).toEqual([
      null,
      null,
      null,
    ]);
  });

  it('never throw, whatever a server sends', () => {
    const broken = fc.oneof(
      fc.string(),
      fc.json(),
      fc
        .tuple(fc.nat(METRICS.length), fc.string())
        .map(([at, text]) => METRICS.slice(0, at) + text + METRICS.slice(at)),
      fc
        .tuple(fc.nat(MODELS.length), fc.string())
        .map(([at, text]) => MODELS.slice(0, at) + text + MODELS.slice(at)),
      fc.nat(METRICS.length).map((at) => METRICS.slice(0, at)),
      fc.nat(MODELS.length).map((at) => MODELS.slice(0, at)),
    );
    fc.assert(
      fc.property(broken, (text) => {
        readVersion(text);
        const models = readModels(text);
        if (models !== null) expect(models.names.length).toBeGreaterThan(0);
        const config = readCacheConfig(text);
        for (const count of [config?.blockSize, config?.totalKvBlocks, models?.maxModelLength]) {
          if (count !== undefined && count !== null)
            expect(Number.isSafeInteger(count) && count > 0).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('take time in proportion to the text', () => {
    const long = `vllm:cache_config_info{${'a="'.repeat(200_000)}`;
    const started = performance.now();
    readCacheConfig(long);
    readCacheConfig(`vllm:cache_config_info{${'\\'.repeat(600_000)}} 1`);
    readCacheConfig(`vllm:cache_config_info{${'a'.repeat(600_000)}} 1`);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

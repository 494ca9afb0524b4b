// `pointsman doctor` against doubles of SGLang and of llama.cpp, in their dialects.
import { afterEach, expect, test } from 'vitest';
import { diagnose } from '../src/cli/doctor.ts';
import { systemClock } from '../src/cli/system-clock.ts';
import { parseConfig } from '../src/config/index.ts';
import type { Finding } from '../src/parity/index.ts';
import { type LlamaServerDouble, type SglangDouble, startLlamaServer } from '../src/simulator/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER } from '../src/tokens/index.ts';
import { startDouble, stopDoubles } from './support/sglang-servers.ts';

const llamas: LlamaServerDouble[] = [];
afterEach(async () => {
  await stopDoubles();
  for (const double of llamas.splice(0)) await double.close();
});

const TOKENS = `{ source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }`;

async function examined(workers: readonly string[], blockSize = 16): Promise<readonly Finding[]> {
  const yaml = `models:
  tiny:
    served_as: tiny-sim
    block_size: ${blockSize}
    tokens: ${TOKENS}
workers:
${workers.join('\n')}
`;
  const { findings } = await diagnose(parseConfig(yaml, 'router.yaml').config);
  return findings;
}

/** Where SGLang publishes it says itself. */
const sglangWorker = ({ url }: SglangDouble, id = 1): string =>
  `  - { id: ${id}, model: tiny, url: "${url}", dialect: sglang }`;

const EVENTS = { topic: '', base: 0, replayBase: 0 } as const;

test('has nothing to say of healthy SGLang servers', async () => {
  const doubles = [
    await startDouble({ blockSize: 16 }, { events: EVENTS, reportsCache: true }),
    await startDouble({ blockSize: 16 }, { events: EVENTS, reportsCache: true }),
  ];
  expect(await examined(doubles.map((double, at) => sglangWorker(double, at + 1)))).toEqual([]);
});

test('names faults of SGLang servers in the words of SGLang', async () => {
  const more = { events: EVENTS, reportsCache: true };
  const doubles = [
    await startDouble({ blockSize: 16 }, more),
    await startDouble({ blockSize: 1 }, more),
    await startDouble({ blockSize: 24 }, more),
    await startDouble({ blockSize: 16 }, { ...more, faults: { prefixCachingOff: true } }),
    await startDouble({ blockSize: 16 }, { ...more, events: null }),
    await startDouble({ blockSize: 16 }, { ...more, faults: { duplicateStores: true } }),
  ];
  const findings = await examined(doubles.map((double, at) => sglangWorker(double, at + 1)));
  expect(findings.map(({ code, worker }) => [worker, code])).toEqual([
    [2n, 'page_size_1'],
    [3n, 'block_size'],
    [4n, 'prefix_caching_off'],
    [5n, 'events_off'],
    [6n, 'duplicate_stores'],
  ]);
  expect(findings.map(({ remedy }) => remedy)).toEqual([
    '--page-size 16 on the engine (its default is 1 on many backends)',
    '--page-size 16 on the engine, or models.tiny.block_size: 24',
    'start the engine without --disable-radix-cache',
    '--kv-events-config \'{"publisher":"zmq","endpoint":"tcp://*:5557"}\'',
    'one publisher per rank: a single --kv-events-config, no second event bridge on the same stream, and an engine version that announces a block once',
  ]);
});

async function llama(slots: number): Promise<LlamaServerDouble> {
  const double = await startLlamaServer({
    ...{ alias: 'tiny-sim', slots, slotContext: 4096, metrics: true, showsSlots: true, detailsUsage: true },
    ...{ tokenMs: 1, clock: systemClock() },
    tokenizer: loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template),
  });
  llamas.push(double);
  return double;
}

const llamaWorker = ({ url }: LlamaServerDouble, count: number): string =>
  `  - { id: 1, model: tiny, url: "${url}", dialect: llamacpp, ranks: { count: ${count} } }`;

test('has nothing to say of a healthy llama.cpp server, which has no KV events', async () => {
  expect(await examined([llamaWorker(await llama(2), 2)])).toEqual([]);
});

test('counts the slots of a llama.cpp server', async () => {
  expect(await examined([llamaWorker(await llama(4), 2)])).toMatchObject([
    {
      code: 'ranks',
      remedy:
        'workers[].ranks.count: 4 (vLLM: --data-parallel-size, SGLang: --dp-size, llama.cpp: --parallel)',
    },
  ]);
});

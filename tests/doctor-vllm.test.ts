// `pointsman doctor` against doubles of vLLM, in vLLM's dialect and event wire.
import { afterEach, expect, test } from 'vitest';
import { diagnose } from '../src/cli/doctor.ts';
import { parseConfig } from '../src/config/index.ts';
import type { Finding, FindingCode } from '../src/parity/index.ts';
import { type DoubleFaults, readDoubleFault, type VllmDouble } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { freePort } from './support/faulty-engine.ts';
import { EVENTS, stopDoubles, vllm } from './support/vllm-doubles.ts';

afterEach(stopDoubles);

const ARGS = [
  ...['--served-model-name', 'tiny-sim', '--block-size', '16', '--enable-prompt-tokens-details'],
  ...['--kv-events-config', EVENTS],
];

/** The adapter that every double has. */
const ADAPTER = 'law';

const start = (faults: DoubleFaults = {}, ...more: string[]): Promise<VllmDouble> =>
  vllm([...ARGS, '--enable-lora', '--lora-modules', `${ADAPTER}=/adapters/law`, ...more], { faults });

const startWith = (fault: string, ...more: string[]): Promise<VllmDouble> =>
  start(readDoubleFault(fault) ?? expect.fail(`there is no fault ${fault}`), ...more);

async function examined(
  doubles: readonly VllmDouble[],
  topic = 'kv',
  count?: number,
): Promise<readonly Finding[]> {
  const workers = doubles.map(({ kvEvents, url }, at) => {
    const events = kvEvents.map(({ address, replay }, rank) => {
      return `"${rank}": { connect: "${address}", topic: ${topic}${replay === null ? '' : `, replay: "${replay}"`} }`;
    });
    const ranks = count ?? Math.max(1, kvEvents.length);
    return `  - { id: ${at + 1}, model: tiny, url: "${url}", dialect: vllm, adapters: [${ADAPTER}], ranks: { count: ${ranks} }, kv_events: { ${events.slice(0, ranks).join(', ')} } }`;
  });
  const yaml = `models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
${workers.join('\n')}
`;
  const { findings } = await diagnose(parseConfig(yaml, 'router.yaml').config);
  return findings;
}

async function found(doubles: readonly VllmDouble[]): Promise<(readonly [bigint, number | null, string])[]> {
  return (await examined(doubles)).map(({ code, rank, worker }) => [worker, rank, code] as const);
}

test('has nothing to say of healthy servers, one of them of two ranks', async () => {
  expect(await found([await start(), await start({}, '--data-parallel-size', '2')])).toEqual([]);
});

/** Faults as `pointsman sim --double-fault` spells them, what is found, and a part of the remedy. */
const FAULTS: readonly (readonly [fault: string, FindingCode, remedy: string])[] = [
  ['random-hash-seed', 'hash_seed', 'PYTHONHASHSEED=0'],
  ['other-template', 'template', '--chat-template'],
  ['events-off', 'events_off', '"enable_kv_cache_events":true'],
  ['swapped-ranks', 'swapped_ranks', 'exchange the endpoints of ranks'],
  ['hybrid-groups', 'hybrid_groups', '--disable-hybrid-kv-cache-manager'],
  ['page-size-1', 'page_size_1', '--page-size 16'],
  ['salt-ignored', 'salt_ignored', 'cache_salt'],
  ['old-replay', 'replay_old', '"buffer_steps"'],
  ['no-replay', 'no_replay', '"replay_endpoint"'],
  ['clock-jump', 'event_clock', 'time service'],
  ['duplicate-stores', 'duplicate_stores', 'one publisher per rank'],
  ['lora-mismatch', 'lora_mismatch', `--lora-modules ${ADAPTER}=PATH`],
  ['prefix-caching-off', 'prefix_caching_off', '--enable-prefix-caching'],
];

test('names each of the 15 faults of a fleet at its server with the flag, and nothing else', async () => {
  const doubles: VllmDouble[] = [];
  for (const [fault] of FAULTS) {
    const ranks = fault === 'swapped-ranks' ? ['--data-parallel-size', '2'] : [];
    doubles.push(await startWith(fault, ...ranks));
  }
  doubles.push(await start({}, '--block-size', '24'));
  const port = await freePort();
  const literal = EVENTS.replace('"endpoint":"tcp://*:0"', `"endpoint":"tcp://*:${port}"`);
  doubles.push(await startWith('literal-bind-address', '--kv-events-config', literal));
  doubles.push(await start(), await start());
  const findings = await examined(doubles);
  const all = [
    ...FAULTS,
    ['', 'block_size', '--block-size 16'] as const,
    ['', 'literal_bind_address', `"endpoint":"tcp://*:${port}"`] as const,
  ];
  const seen = doubles.map((_, at) => [
    ...new Set(findings.filter(({ worker }) => worker === BigInt(at + 1)).map(({ code }) => code)),
  ]);
  expect(seen).toEqual([...all.map(([, code]) => [code]), [], []]);
  for (const [at, [, , remedy]] of all.entries())
    expect(findings.find(({ worker }) => worker === BigInt(at + 1))?.remedy).toContain(remedy);
});

test('names the topic that a server publishes under, where another one is listened to', async () => {
  const findings = await examined([await start()], 'kv-of-another');
  expect(findings).toMatchObject([
    {
      code: 'topic',
      sentence: 'worker 1 rank 0: publishes under another topic than "kv-of-another"',
      remedy: 'workers[].kv_events.0.topic: "kv", or "topic":"kv-of-another" in --kv-events-config',
    },
  ]);
});

test('counts ranks as the server does', async () => {
  const findings = await examined([await start({}, '--data-parallel-size', '2')], 'kv', 1);
  expect(findings).toMatchObject([
    {
      code: 'ranks',
      sentence: 'worker 1 rank 0: has 2 ranks, and 1 are configured: it says so itself',
      remedy: expect.stringContaining('workers[].ranks.count: 2, or --data-parallel-size 1 on the engine'),
    },
  ]);
});

test('says where tokens of a chat part, and why, without any of them', async () => {
  const [finding] = await examined([await startWith('other-template')]);
  expect(finding?.sentence).toMatch(
    /^worker 1 rank 0: sees other tokens than the router hashes: .+ \(first at token 0 of \d+ here, \d+ there\)$/,
  );
  expect(finding?.sentence).not.toMatch(/other two|check /);
});

test('asks for the flag without which predictions are not checked', async () => {
  const args = ARGS.filter((word) => word !== '--enable-prompt-tokens-details');
  expect(await examined([await vllm(args)])).toMatchObject([
    { code: 'cached_not_reported', remedy: '--enable-prompt-tokens-details on the engine' },
  ]);
});

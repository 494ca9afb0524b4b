// `pointsman doctor` against doubles of vLLM, in vLLM's dialect and event wire.
import { afterEach, expect, test } from 'vitest';
import { diagnose } from '../src/cli/doctor.ts';
import { parseConfig } from '../src/config/index.ts';
import type { DoubleFaults, VllmDouble } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { EVENTS, stopDoubles, vllm } from './support/vllm-doubles.ts';

afterEach(stopDoubles);

const ARGS = [
  ...['--served-model-name', 'tiny-sim', '--block-size', '16', '--enable-prompt-tokens-details'],
  ...['--kv-events-config', EVENTS],
];

const start = (faults: DoubleFaults = {}, ...more: string[]): Promise<VllmDouble> =>
  vllm([...ARGS, ...more], { faults });

async function found(doubles: readonly VllmDouble[]): Promise<(readonly [bigint, number | null, string])[]> {
  const workers = doubles.map(({ kvEvents, url }, at) => {
    const events = kvEvents.map(({ address, replay }, rank) => {
      return `"${rank}": { connect: "${address}", topic: kv${replay === null ? '' : `, replay: "${replay}"`} }`;
    });
    return `  - { id: ${at + 1}, model: tiny, url: "${url}", dialect: vllm, ranks: { count: ${Math.max(1, kvEvents.length)} }, kv_events: { ${events.join(', ')} } }`;
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
  return findings.map(({ code, rank, worker }) => [worker, rank, code] as const);
}

test('has nothing to say of healthy servers, one of them of two ranks', async () => {
  expect(await found([await start(), await start({}, '--data-parallel-size', '2')])).toEqual([]);
});

test('names what is wrong with others', async () => {
  const doubles = [
    await start(),
    await start(),
    await start({ randomHashSeed: true }),
    await start({ prefixCachingOff: true }),
  ];
  doubles.push(await start({}, '--block-size', '24'));
  expect(await found(doubles)).toEqual([
    [3n, 0, 'hash_seed'],
    [4n, 0, 'prefix_caching_off'],
    [5n, 0, 'block_size'],
  ]);
});

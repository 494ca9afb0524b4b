// The quick starts for SGLang and llama.cpp's server, as they stand: the flags go to the double, the configuration to a router, and both
// must agree. Those for vLLM have a file of their own.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { startDouble } from '../src/cli/sim-doubles.ts';
import { readLlamaServe, readSglangServe } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { router, until, words } from './live-support.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const page = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

/** The words behind a command in a shell block, with quotes and continued lines; null = it has no such command. */
function argumentsOf(block: string, command: string): string[] | null {
  const joined = block.replaceAll('\\\n', ' ');
  const line = joined.split('\n').find((one) => one.startsWith(command));
  if (line === undefined) return null;
  return [...line.slice(command.length).matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? '',
  );
}

/** Every use of a command on a page, with the YAML block behind it; '' = another kind of block is. */
function uses(path: string, command: string): { readonly flags: string[]; readonly yaml: string }[] {
  const blocks = [...page(path).matchAll(/```(\w*)\n([\s\S]*?)```/g)];
  return blocks.flatMap(([, language, block = ''], at) => {
    const flags = language === 'yaml' ? null : argumentsOf(block, command);
    const next = blocks[at + 1];
    return flags === null ? [] : [{ flags, yaml: next?.[1] === 'yaml' ? (next[2] ?? '') : '' }];
  });
}

const SGLANG = 'python -m sglang.launch_server ';
const LLAMA = 'llama-server ';

/**
 * Starts a double by the flags and a router by the configuration, on any free ports: the one of the flags is replaced in both texts, so
 * that another one in the configuration leads nowhere.
 */
async function run(shape: 'sglang' | 'llamacpp', flags: readonly string[], yaml: string) {
  const at = flags.indexOf('--port') + 1;
  const free = flags.with(at, '0').map((word) => word.replace(/(tcp:\/\/\*):\d+/g, '$1:0'));
  const { close, engines } = await startDouble(shape, free, {
    ...{ hints: 'none', eventWire: 'map', hashSeed: 0, seed: 0, speed: 1000, bodyBytes: 1_000_000 },
    warn: () => undefined,
  });
  const url = engines[0]?.url ?? '';
  const text = yaml
    .replaceAll(`:${flags[at]}`, `:${new URL(url).port}`)
    .replace(
      /tokenizer: \.[^\s}]+/,
      `tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}"`,
    );
  const running = await router(
    `listen: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\n${text}`,
  );
  // Before the router's own closing, which comes first.
  closers.push(() => close(0));
  const ask = async (prompt: string): Promise<[predicted: number, reported: number | null]> => {
    const answer = await fetch(`${running.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: [...running.config().models.keys()][0], prompt, max_tokens: 1 }),
    });
    expect(answer.status).toBe(200);
    const { usage } = (await answer.json()) as {
      usage: { prompt_tokens_details: { cached_tokens: number } | null };
    };
    const [record] = running.core.decisions?.list(1, {}) ?? [];
    return [record?.prediction?.cached_tokens ?? 0, usage.prompt_tokens_details?.cached_tokens ?? null];
  };
  return { running, ask };
}

describe('the quick start of the README for SGLang', () => {
  const [start] = uses('README.md', SGLANG);

  it('makes a second request a hit that the router predicted', async () => {
    const { ask, running } = await run('sglang', start?.flags ?? [], start?.yaml ?? '');
    const [worker] = running.core.fleet.workers();
    expect(worker?.engine?.dialect).toBe('sglang');
    const prompt = words(64, 3);
    expect(await ask(prompt)).toEqual([0, 0]);
    const slot = worker?.slots[0] ?? -1;
    await until('the router hears of its four blocks', () => running.core.index?.blocksOf(slot)[0] === 4);
    expect(await ask(prompt)).toEqual([48, 48]);
    expect(running.core.fleet.workers()[0]?.approximate?.size ?? 0).toBe(0);
    expect(running.readiness().warnings).toEqual([]);
  });

  it.each([
    ['another page size', /^16$/, '32', 'advertises blocks of 32 tokens, but model Qwen/Qwen3-8B has 16'],
  ])('is noticed to disagree with %s', async (_, from, to, warning) => {
    const flags = (start?.flags ?? []).map((flag) => flag.replace(from, to));
    const { running } = await run('sglang', flags, start?.yaml ?? '');
    expect(running.readiness().warnings.join()).toContain(warning);
  });
});

describe("the quick start of the README for llama.cpp's server", () => {
  const [start] = uses('README.md', LLAMA);

  it('makes a second request a hit that the router predicted, in the slot of the first', async () => {
    const { ask, running } = await run('llamacpp', start?.flags ?? [], start?.yaml ?? '');
    const [worker] = running.core.fleet.workers();
    expect([worker?.engine?.dialect, worker?.engine?.description.ranks]).toEqual([
      'llamacpp',
      worker?.slots.length,
    ]);
    const prompt = words(64, 3);
    expect(await ask(prompt)).toEqual([0, 0]);
    expect(await ask(prompt)).toEqual([48, 63]);
    // The server publishes no events, which the router says of each slot, and nothing else.
    const { warnings } = running.readiness();
    expect(warnings).toHaveLength(4);
    for (const warning of warnings) expect(warning).toContain('announces no KV events');
  });
});

it.each([
  ['README.md', 'python -m sglang.launch_server '],
  ['docs/engines/sglang.md', 'python -m sglang.launch_server '],
  ['docs/engines/sglang.md', 'pointsman sim --shape sglang -- '],
])('every command of %s is one that SGLang takes: %s', (path, command) => {
  const found = uses(path, command);
  expect(found).not.toEqual([]);
  for (const { flags } of found) expect(readSglangServe(flags).settings.blockSize).toBe(16);
});

it.each([
  ['README.md', 'llama-server '],
  ['docs/engines/llamacpp.md', 'llama-server '],
  ['docs/engines/llamacpp.md', 'pointsman sim --shape llamacpp -- '],
])('every command of %s is one that llama-server takes: %s', (path, command) => {
  const found = uses(path, command);
  expect(found).not.toEqual([]);
  for (const { flags } of found)
    expect(readLlamaServe(flags)).toEqual({
      ...{ alias: 'my-model', port: 8080, slots: 4, slotContext: 16_384, metrics: true, showsSlots: true },
    });
});

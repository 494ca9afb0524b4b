// The quick starts for vLLM, as they stand: the flags go to the double, the configuration to a router, and both must agree.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { readVllmServe } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { router, until, words } from './live-support.ts';
import { stopDoubles, vllmOf } from './support/vllm-doubles.ts';

afterEach(stopDoubles);

const page = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const MANUAL = page('docs/engines/vllm.md');
const README = page('README.md');

const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(
    ([, block = '']) => block,
  );

/** The words behind `vllm serve` in a shell block; null = it has no such command. */
function serveArguments(block: string): string[] | null {
  const [, command] = /\bvllm serve ([\s\S]*)/.exec(block.replaceAll('\\\n', ' ')) ?? [];
  if (command === undefined) return null;
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}

/** A pair of flags and configuration, in the order of the page. */
function pairs(text: string): { flags: string[]; yaml: string }[] {
  const found: { flags: string[]; yaml: string }[] = [];
  const all = [...text.matchAll(/```(bash|yaml)\n([\s\S]*?)```/g)];
  all.forEach(([, language, block = ''], at) => {
    const flags = language === 'bash' ? serveArguments(block) : null;
    const next = all[at + 1];
    if (flags !== null && next?.[1] === 'yaml') found.push({ flags, yaml: next[2] ?? '' });
  });
  return found;
}

/**
 * Starts a double by the flags and a router by the configuration. Ports are any free ones: those of the flags are replaced in both texts,
 * so that a port that only the configuration names leads nowhere.
 */
async function run({ flags, yaml }: { flags: readonly string[]; yaml: string }) {
  const free = flags.map((flag) => flag.replaceAll(/tcp:\/\/\*:\d+/g, 'tcp://*:0'));
  const at = free.indexOf('--port');
  const double = await vllmOf(free.with(at + 1, '0'));
  const { kvEvents, port } = readVllmServe(flags);
  const [first] = double.kvEvents;
  const portOf = (address: string | null | undefined) => /:(\d+)$/.exec(address ?? '')?.[1] ?? '';
  let text = yaml.replace(
    /tokenizer: \S+/,
    `tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}"`,
  );
  for (const [documented, actual] of [
    [String(port), portOf(double.url)],
    [portOf(kvEvents?.endpoint), portOf(first?.address)],
    [portOf(kvEvents?.replayEndpoint), portOf(first?.replay)],
  ]) {
    if (documented !== '') text = text.replaceAll(`:${documented}`, `:${actual}`);
  }
  const running = await router(
    `listen: { host: 127.0.0.1, port: 0 }\nadmin: { host: 127.0.0.1, port: 0 }\n${text}`,
  );
  const ask = async (prompt: string): Promise<number | null> => {
    const answer = await fetch(`${running.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'Qwen/Qwen3-8B', prompt, max_tokens: 1 }),
    });
    expect(answer.status).toBe(200);
    const { usage } = (await answer.json()) as {
      usage: { prompt_tokens_details: { cached_tokens: number } | null };
    };
    return usage.prompt_tokens_details?.cached_tokens ?? null;
  };
  const blocksOf = (rank: number): number =>
    running.core.index?.blocksOf(running.core.fleet.workers()[0]?.slots[rank] ?? -1)[0] ?? 0;
  return { running, double, ask, blocksOf };
}

const quickStarts = [
  ['the README', README],
  ['the manual', MANUAL],
] as const;

describe.each(quickStarts)('the quick start of %s', (_, text) => {
  const [pair] = pairs(text);

  it('makes a second request a hit that the router knew of', async () => {
    expect(pair).toBeDefined();
    if (pair === undefined) return;
    const { ask, blocksOf, running } = await run(pair);
    expect(running.core.fleet.workers()[0]?.engine?.dialect).toBe('vllm');
    const prompt = words(64, 3);
    expect(await ask(prompt)).toBe(0);
    await until('the router hears of its four blocks', () => blocksOf(0) === 4);
    expect(await ask(prompt)).toBe(48);
    expect(running.core.fleet.workers()[0]?.approximate?.size ?? 0).toBe(0);
    expect(running.readiness().warnings).toEqual([]);
  });
});

describe('flags and configuration that disagree', () => {
  const [pair] = pairs(MANUAL);
  const changed = (from: RegExp, to: string) => ({
    flags: (pair?.flags ?? []).map((flag) => flag.replace(from, to)),
    yaml: pair?.yaml ?? '',
  });

  it('are noticed: another port of the events', async () => {
    const { ask, running } = await run(changed(/5557/, '5577'));
    await ask(words(64, 3));
    expect(running.readiness().warnings.join()).toContain('tcp://127.0.0.1:5557 are not connected');
  });

  it('are noticed: another block size', async () => {
    const { running } = await run(changed(/^16$/, '32'));
    expect(running.readiness().warnings.join()).toContain(
      'advertises blocks of 32 tokens, but model Qwen/Qwen3-8B has 16',
    );
  });

  it('are noticed: no cached tokens', async () => {
    const { ask } = await run({
      flags: (pair?.flags ?? []).filter((flag) => !flag.includes('details')),
      yaml: pair?.yaml ?? '',
    });
    expect(await ask(words(64, 3))).toBeNull();
  });
});

it('every command of the manual is one that the server takes', () => {
  const commands = [...blocks(MANUAL, 'bash'), ...blocks(README, 'bash')].flatMap(
    (block) => serveArguments(block) ?? [],
  );
  expect(commands).not.toEqual([]);
  for (const block of blocks(MANUAL, 'bash')) {
    const flags = serveArguments(block);
    if (flags !== null) expect(readVllmServe(flags).models).toEqual(['Qwen/Qwen3-8B']);
  }
});

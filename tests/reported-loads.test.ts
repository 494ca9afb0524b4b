// What `/workers` shows as reported load in front of the doubles of stock servers: their own names, at their own places.
import { afterEach, expect, it } from 'vitest';
import { startDouble } from '../src/cli/sim-doubles.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { client, router, words } from './live-support.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

it.each([
  ['vllm', ['tiny-sim', '--max-num-seqs', '1'], true],
  ['sglang', ['--model-path', 'tiny-sim', '--page-size', '16', '--max-running-requests', '1'], true],
  ['llamacpp', ['-m', 'm.gguf', '--alias', 'tiny-sim', '-c', '8192', '--metrics'], false],
] as const)('of %s: one request runs, one waits', async (dialect, args, tellsUsage) => {
  const { close, engines } = await startDouble(dialect, [...args, '--port', '0'], {
    ...{ hints: 'none', eventWire: 'map', hashSeed: 0, seed: 0, speed: 1, bodyBytes: 1_000_000 },
    warn: () => undefined,
  });
  closers.push(() => close(0));
  const running = await router(
    `
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
observe: { engine_load: true }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
  - { url: "${engines[0]?.url}", dialect: ${dialect} }
`,
    50,
  );
  const long = { model: 'tiny', max_tokens: 4000, stream: true } as const;
  const controllers = [1, 2].map(() => new AbortController());
  const asked = controllers.map(({ signal }, seed) =>
    client(running.url)
      .completions.create({ ...long, prompt: words(64, seed) }, { signal })
      .then(
        () => undefined,
        () => undefined,
      ),
  );
  let shown: Record<string, unknown> | null = null;
  while (shown?.requests_running !== 1 || shown.requests_waiting !== 1) {
    const answer = await fetch(`${running.adminUrl}/workers`);
    [{ reported_load: shown }] = (await answer.json()) as [{ reported_load: Record<string, unknown> | null }];
  }
  if (tellsUsage) expect(shown.kv_usage).toBeGreaterThan(0);
  else expect(shown.kv_usage).toBeNull();
  for (const controller of controllers) controller.abort();
  await Promise.all(asked);
});

// A router in this process on real sockets, in front of simulated engines in processes of their own.
import OpenAI from 'openai';
import { onTestFinished } from 'vitest';
import { type RunningRouter, startRouter } from '../src/cli/running-router.ts';
import { type SpawnedSimulators, spawnSimulators } from '../src/cli/spawn-simulators.ts';
import { systemClock } from '../src/cli/system-clock.ts';
import { parseConfig } from '../src/config/index.ts';
import { NO_LOG } from '../src/plugin/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';

/** Starts engines in one child process; it is stopped after the test. */
export async function engines(count: number, ...args: string[]): Promise<SpawnedSimulators> {
  const spawned = await spawnSimulators({ count, args, logs: 'ignore' });
  onTestFinished(() => spawned.stop());
  return spawned;
}

/** `router.yaml` for a model `tiny` on the given engines, ids from 1; `extra` goes before. */
export function routerYaml(urls: readonly string[], extra = ''): string {
  const workers = urls.map(
    (url, index) => `  - { id: ${index + 1}, model: tiny, url: "${url}", dialect: sim }`,
  );
  return `${extra}
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
${workers.join('\n')}
`;
}

/** Starts a router on a configuration, with a pause between checks of healthy workers; it is stopped after the test. */
export async function router(yaml: string, intervalMs = 200): Promise<RunningRouter> {
  const { config, source } = parseConfig(yaml, 'router.yaml');
  const running = await startRouter({
    config,
    source,
    clock: systemClock(),
    log: NO_LOG,
    healthChecks: { intervalMs, troubledIntervalMs: 50 },
  });
  onTestFinished(() => running.stop(0));
  return running;
}

/** The official client, without retries: a test must see the first answer. */
export function client(url: string): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
}

/** Waits for a condition that other processes bring about; gives up after thirty seconds. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Text of `count` words that the tiny tokenizer knows as one token each, the same for the same seed. */
export function words(count: number, seed: number): string {
  const known = [' on', ' town', ' and', ' goods', ' click', ' looks', ' pulls', ' what'];
  let state = seed;
  let text = '';
  for (let at = 0; at < count; at += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    text += known[state >>> 29];
  }
  return text;
}

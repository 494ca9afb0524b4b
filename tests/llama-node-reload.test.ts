// An engine in the router's process that comes and goes with the configuration.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { startRouter } from '../src/cli/running-router.ts';
import { systemClock } from '../src/cli/system-clock.ts';
import { parseConfig } from '../src/config/index.ts';
import { NO_LOG } from '../src/plugin/index.ts';
import { client, until } from './live-support.ts';
import { writeTinyGguf } from './support/tiny-gguf.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-reload-'));
const gguf = join(folder, 'tiny.gguf');
writeTinyGguf(gguf);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const yaml = (ids: readonly number[]): string => `
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models: { tiny: { block_size: 16 } }
workers:
${ids.map((id) => `  - { id: ${id}, dialect: llamacpp-node, gguf: "${gguf}", context_tokens: 4096 }`).join('\n')}
`;

it('a worker that a reload adds answers and announces blocks, and one that it takes out is gone with them', async () => {
  let ids: readonly number[] = [1];
  const read = () => ({ ...parseConfig(yaml(ids), join(folder, 'router.yaml')), files: [] });
  const { config, source } = read();
  const running = await startRouter({
    config,
    source,
    clock: systemClock(),
    log: NO_LOG,
    healthChecks: { intervalMs: 50, troubledIntervalMs: 20 },
    reread: { files: [], read },
  });
  try {
    const { fleet, index } = running.core;
    const sdk = client(running.url);
    const ask = async (word: string): Promise<void> => {
      const content = `${word}: ${'what pulls the train on the track? '.repeat(4)}`;
      const answer = await sdk.chat.completions.create({
        ...{ model: 'tiny', messages: [{ role: 'user', content }], max_tokens: 2, temperature: 0 },
      });
      expect(answer.usage?.completion_tokens).toBe(2);
    };
    await ask('first');

    ids = [1, 2];
    expect((await running.reload('command')).result).toBe('applied');
    const added = fleet.worker(2n)?.slots[0] ?? -1;
    // Its model is read meanwhile, for as long as that takes, and the first engine answers.
    const deadline = performance.now() + 30_000;
    for (let asked = 1; (index?.blocksOf(added)[0] ?? 0) === 0; asked += 1) {
      expect(performance.now()).toBeLessThan(deadline);
      await ask(`new ${asked}`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }

    ids = [2];
    expect((await running.reload('command')).result).toBe('applied');
    await until('the first has left', () => fleet.worker(1n) === null);
    expect(fleet.workers().map(({ spec }) => spec.id)).toEqual([2n]);
    await ask('again');
    await ask('again');
    expect(running.core.decisions?.list(1, {})[0]?.prediction?.cached_tokens).toBeGreaterThan(0);
  } finally {
    await running.stop(0);
  }
});

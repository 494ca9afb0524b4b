// Engines in this process while configurations come and go: real ones, on a model that the test writes.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyGguf } from '../../tests/support/tiny-gguf.ts';
import { parseConfig, type RouterConfig } from '../config/index.ts';
import { startLocalWorker } from '../local-engine/index.ts';
import { NO_LOG, seededRng } from '../plugin/index.ts';
import { LocalEngines } from './local-engines.ts';
import { systemClock } from './system-clock.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pointsman-gguf-'));
  writeTinyGguf(join(folder, 'tiny.gguf'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NONE = { workers: [] };

function config(...workers: readonly string[]): RouterConfig {
  const gguf = join(folder, 'tiny.gguf');
  const lines = workers.map(
    (more, at) =>
      `  - { id: ${at + 1}, dialect: llamacpp-node, gguf: "${gguf}", context_tokens: 512${more} }`,
  );
  return parseConfig(`models: { tiny: { block_size: 16 } }\nworkers:\n${lines.join('\n')}\n`, 'router.yaml')
    .config;
}

/** Engines of which is known how many were asked for, came up, and are still there. */
function counted(): {
  readonly engines: LocalEngines;
  readonly counts: { opened: number; cameUp: number; open: number };
} {
  const counts = { opened: 0, cameUp: 0, open: 0 };
  const engines = new LocalEngines({
    clock: systemClock(),
    rng: seededRng(1),
    log: NO_LOG,
    async open(...parts) {
      counts.opened += 1;
      const worker = await startLocalWorker(...parts);
      counts.cameUp += 1;
      counts.open += 1;
      return {
        ...worker,
        async close() {
          await worker.close();
          counts.open -= 1;
        },
      };
    },
  });
  return { engines, counts };
}

/** Whether a worker of a configuration has an engine. */
function isUp(engines: LocalEngines, { workers }: RouterConfig, at = 0): boolean {
  return engines.replayOf(`llamacpp-node-events:${workers[at]?.url ?? ''}`) !== null;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('engines of this process', () => {
  it('are opened once, however often their configuration is followed meanwhile', async () => {
    const { counts, engines } = counted();
    const two = config('', '');
    // As when a reload brings two workers: each is told when it joins.
    engines.follow(two);
    engines.follow(two);
    await until(() => isUp(engines, two, 0) && isUp(engines, two, 1));
    engines.follow(two);
    await engines.close();
    expect(counts).toMatchObject({ opened: 2, open: 0 });
  });

  it('are not left behind by a worker that leaves while they are opened', async () => {
    const { counts, engines } = counted();
    const one = config('');
    const url = one.workers[0]?.url ?? '';
    engines.follow(one);
    engines.forget(url);
    engines.follow({ ...one, ...NONE });
    // It may be up for less than a look.
    await until(() => counts.cameUp === 1 && counts.open === 0);
    expect(isUp(engines, one)).toBe(false);
    await engines.close();
    expect(counts).toMatchObject({ opened: 1, open: 0 });
  });

  it('are opened anew for a worker that comes back while its former one is opened', async () => {
    const { counts, engines } = counted();
    const one = config('');
    engines.follow(one);
    engines.forget(one.workers[0]?.url ?? '');
    engines.follow(one);
    await until(() => counts.opened === 2 && counts.open === 1 && isUp(engines, one));
    await engines.close();
    expect(counts.open).toBe(0);
  });

  it('end with the process while they are opened', async () => {
    const { counts, engines } = counted();
    const one = config('');
    engines.follow(one);
    await engines.close();
    expect(counts).toMatchObject({ opened: 1, open: 0 });
    expect(isUp(engines, one)).toBe(false);
  });

  it('log an end that fails, and stop all the same', async () => {
    const errors: string[] = [];
    const engines = new LocalEngines({
      clock: systemClock(),
      rng: seededRng(1),
      log: { ...NO_LOG, error: (message) => errors.push(message) },
      async open(...parts) {
        const worker = await startLocalWorker(...parts);
        return {
          ...worker,
          async close() {
            await worker.close();
            throw new Error('no memory to give back');
          },
        };
      },
    });
    expect(await engines.start(config(''))).toEqual([]);
    await engines.close();
    expect(errors).toEqual(['an engine in this process did not end well']);
  });
});

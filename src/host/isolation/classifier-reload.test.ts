// A request classifier in a thread across a reload: whose answer a request gets that waits, and when the older thread ends.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parseConfig } from '../../config/index.ts';
import { ManualClock } from '../../plugin/index.ts';
import type { ClassifierOutcome } from '../classifier-types.ts';
import { hintFleet } from '../hint.fixtures.ts';
import { createReloadableHost, type ReloadableHost } from '../index.ts';
import { openPorts, PARTITION, PORTS_PER_THREAD } from './isolation.fixtures.ts';

const folder = mkdtempSync(join(tmpdir(), 'classifier-reload-'));
let host: ReloadableHost | null = null;
afterEach(async () => {
  await host?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** A classifier whose requests named `waits` wait for the event of another one. */
const plugin = (cost: number): string => `import { defineRequestClassifier } from 'pointsman/plugin';
export default defineRequestClassifier({
  type: 'versioned',
  isolation: 'thread',
  create: ({ log }) => {
    let go = () => {};
    return {
      classify: ({ requestId }) =>
        requestId === 'waits'
          ? new Promise((resolve) => { go = () => resolve({ schedulingCostTokens: ${cost} }); })
          : { schedulingCostTokens: ${cost} },
      onEvent({ kind, requestId }) {
        log.info('heard', { text: '${cost} ' + kind + ' ' + requestId });
        if (requestId === 'opens') go();
      },
      dispose: () => log.info('heard', { text: '${cost} disposed' }),
    };
  },
});
`;

async function until(done: () => boolean): Promise<void> {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 2));
}

it('a request that waits in a thread is answered by its own version, which hears its end and then goes', async () => {
  const idle = openPorts();
  const threads = () => (openPorts() - idle) / PORTS_PER_THREAD;
  const write = (cost: number): void => writeFileSync(join(folder, 'p.ts'), plugin(cost));
  write(1);
  const clock = new ManualClock(1_000_000);
  const heard: unknown[] = [];
  const log = {
    debug: () => undefined,
    info: (message: string, fields?: { readonly text?: unknown }) => {
      if (message === 'heard') heard.push(fields?.text);
    },
    warn: () => undefined,
    error: () => undefined,
  };
  const yaml = `plugins: [./p.ts]
models: { tiny: {} }
request_classifier: { type: versioned, deadline: 1m, max_wait: 1h }`;
  const parsed = () => parseConfig(yaml, join(folder, 'router.yaml'));
  const made = await createReloadableHost({
    ...parsed(),
    clock,
    log,
    fleet: hintFleet(),
    threads: { modules: {} },
  });
  host = made;
  const reload = (): Promise<boolean> =>
    made.reload({ ...parsed(), modules: {}, packages: true, refuse: () => [], switched: () => undefined });
  const begin = (requestId: string) => {
    const lifecycle = made.classifierFor(PARTITION)?.begin({
      requestId,
      session: null,
      promptTokens: 10,
      policyClass: null,
      arrivedAt: clock.now(),
      pinnedWorker: null,
    });
    if (lifecycle === undefined) throw new Error('nobody classifies');
    const outcome = new Promise<ClassifierOutcome>((resolve) => lifecycle.classify(resolve));
    return { lifecycle, outcome };
  };
  const costs = (cost: number) => ({
    kind: 'classified',
    classification: { asked: true, overrides: { schedulingCostTokens: cost } },
  });

  const waits = begin('waits');
  const opens = begin('opens');
  expect(await opens.outcome).toMatchObject(costs(1));
  write(2);
  expect(await reload()).toBe(true);
  expect(threads()).toBe(2);
  const later = begin('later');
  expect(await later.outcome).toMatchObject(costs(2));

  // A third version ends the probation of the second, and waits for what the first still serves.
  write(3);
  const third = reload();
  opens.lifecycle.completed(null);
  expect(await waits.outcome).toMatchObject(costs(1));
  waits.lifecycle.completed(null);
  expect(await third).toBe(true);
  const of = (cost: number) => heard.filter((text) => String(text).startsWith(`${cost} `));
  await until(() => of(1).at(-1) === '1 disposed' && threads() === 2);
  expect(of(1).filter((text) => text !== '1 disposed')).toEqual(['1 completed opens', '1 completed waits']);
  later.lifecycle.completed(null);
  await until(() => heard.includes('2 completed later'));
});

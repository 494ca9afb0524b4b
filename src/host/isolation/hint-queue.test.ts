// More calls at once than the thread of a hint policy gets done within their deadline: it is not the plugin that hangs.
import { afterAll, afterEach, expect, it } from 'vitest';
import { IsolationBench, outcomes } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterEach(() => bench.disposeHosts());
afterAll(() => bench.close());

/** A policy whose calls with a prompt below 10 tokens end when a file named after its length is there. */
const waitsForFile = (folder: string): string => `import { existsSync } from 'node:fs';
import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'told',
  isolation: 'thread',
  create: () => ({
    buildHints({ promptTokens }) {
      while (promptTokens < 10 && !existsSync(${JSON.stringify(folder)} + promptTokens));
      return [{ type: 'acme.mark', version: '1.0', payload: {} }];
    },
  }),
});
`;

const lost = 'pointsman_plugin_threads_lost_total{';

it('costs the call that came behind, not the thread, and then the policy is skipped until it is through', async () => {
  const go = bench.path('go-');
  bench.write('told.ts', waitsForFile(go));
  const { start, clock, metrics, host } = await bench.host(
    'plugins: [./told.ts]\nworker_selection: { aggregated: { hints: [{ type: told, deadline: 20ms }] } }',
  );
  const first = start({ promptTokens: 1 });
  clock.advanceTo(clock.now() + 15);
  const second = start({ promptTokens: 2 });
  clock.advanceTo(clock.now() + 4);
  bench.write('go-1', '');
  expect(outcomes(await first.result)).toEqual(['told sent']);
  // The second has its deadline 16 ms after the first was answered: the thread had less than 20 ms for it.
  clock.advanceTo(clock.now() + 16);
  expect(outcomes(await second.result)).toEqual(['told dropped timed_out']);
  const meanwhile = start({ promptTokens: 3 }).started;
  if ('pending' in meanwhile) throw new Error('it waited behind a call that nobody waits for');
  expect(outcomes(meanwhile)).toEqual(['told skipped restarting']);
  bench.write('go-2', '');
  // The clock stands still: nothing but the late answer makes it ready.
  while (!('pending' in start().started)) await new Promise((resolve) => setImmediate(resolve));
  expect(outcomes(await start().result)).toEqual(['told sent']);
  expect(await metrics.text()).not.toContain(lost);
  expect(host.containment()).toMatchObject([{ plugin: 'told', state: 'ok', failures: 0 }]);
});

it('ends the thread where the call that was given up turns out to hang', async () => {
  const go = bench.path('more-');
  bench.write('told.ts', waitsForFile(go));
  const { start, clock, metrics, untilReady } = await bench.host(
    'plugins: [./told.ts]\nworker_selection: { aggregated: { hints: [{ type: told, deadline: 20ms }] } }',
  );
  const first = start({ promptTokens: 1 });
  clock.advanceTo(clock.now() + 15);
  const second = start({ promptTokens: 2 });
  bench.write('more-1', '');
  expect(outcomes(await first.result)).toEqual(['told sent']);
  clock.advanceTo(clock.now() + 4);
  // Since the first was answered the thread had its 20 ms for the second.
  clock.advanceTo(clock.now() + 16);
  expect(outcomes(await second.result)).toEqual(['told dropped timed_out']);
  expect(await metrics.text()).toContain(lost);
  await untilReady();
  expect(outcomes(await start().result)).toEqual(['told sent']);
});

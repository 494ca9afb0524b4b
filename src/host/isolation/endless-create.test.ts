// A `create` that never ends, in a thread: the start ends with an error all the same.
import { existsSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../../config/index.ts';
import { ManualClock, NO_LOG } from '../../plugin/index.ts';
import { createPluginHost } from '../index.ts';
import { LOAD_LIMIT_MS } from '../time-limit.ts';
import { IsolationBench } from './isolation.fixtures.ts';

const bench = new IsolationBench();
afterAll(() => bench.close());

it('fails the start once the limit has passed, and leaves no thread behind', async () => {
  const entered = bench.path('entered');
  bench.write(
    'endless.ts',
    `import { writeFileSync } from 'node:fs';
import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'endless',
  isolation: 'thread',
  create() {
    writeFileSync(${JSON.stringify(entered)}, '');
    for (;;);
  },
});`,
  );
  const { config, source } = parseConfig(
    'plugins: [./endless.ts]\nworker_selection: { aggregated: { hints: [{ type: endless }] } }',
    bench.path('router.yaml'),
  );
  const clock = new ManualClock();
  const failed = createPluginHost({ config, source, clock, log: NO_LOG, threads: { modules: {} } }).then(
    () => 'started',
    (thrown: unknown) => (thrown instanceof ConfigError ? thrown.report() : String(thrown)),
  );
  while (!existsSync(entered)) await new Promise((resolve) => setTimeout(resolve, 5));
  clock.advanceTo(clock.now() + LOAD_LIMIT_MS);
  const report = await failed;
  expect(report).toContain(
    'create of hint policy endless threw for role aggregated: it did not end within 30 s',
  );
  await bench.untilNoThread();
});

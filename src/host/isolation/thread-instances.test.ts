import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { NO_METRICS } from '../../observe/index.ts';
import { ManualClock, NO_LOG } from '../../plugin/index.ts';
import { PluginLoader } from '../plugin-loader.ts';
import { ThreadInstances } from './thread-instances.ts';

const folder = mkdtempSync(join(tmpdir(), 'instances-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

writeFileSync(
  join(folder, 'shared.ts'),
  `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({ type: 'mine', create: () => ({ buildHints: () => [] }) });`,
);

test('an instance has one thread however often it is started, and there is a most', async () => {
  const clock = new ManualClock();
  const { files } = await new PluginLoader(folder, clock).load('./shared.ts');
  const threads = new ThreadInstances({ folder, modules: {}, clock, log: NO_LOG, metrics: NO_METRICS }, 1);
  const plan = (key: string) =>
    ({
      kind: 'hint',
      key,
      name: key,
      specifier: './shared.ts',
      files,
      type: 'mine',
      parameters: {},
      deadlineMs: 50,
    }) as const;
  await threads.start(plan('one'));
  await threads.start(plan('one'));
  await expect(threads.start(plan('two'))).rejects.toThrow(
    'at most 1 plugins run in threads of their own; let some run in process',
  );
  const site = { seed: 1, place: null };
  const shared = {};
  const policy = threads.create(plan('one'), site, shared);
  expect(threads.create(plan('one'), site, shared)).toBe(policy);
  expect(threads.create(plan('one'), site, null)).not.toBe(policy);
  expect(() => threads.create(plan('two'), site, null)).toThrow('two has no thread');
  expect(policy.ready).toBe(true);
  await threads.close();
  expect(policy.ready).toBe(false);
});

// A plugin that nothing uses is named once, with what it defines and where that goes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { createPluginHost } from './index.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'unused-'));
  writeFileSync(
    join(folder, 'both.ts'),
    `import { defineHintPolicy, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
export const a = defineHintPolicy({ type: 'mine', create: () => ({ buildHints: () => [] }) });
export const b = defineWorkerSelectionPolicy({
  type: 'first',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});
`,
  );
  writeFileSync(
    join(folder, 'default.ts'),
    `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({
  type: 'always',
  defaultHosts: ['any-worker-selection'],
  create: () => ({ buildHints: () => [] }),
});
`,
  );
  writeFileSync(
    join(folder, 'classifier.ts'),
    `import { defineRequestClassifier } from 'pointsman/plugin';
export default defineRequestClassifier({ type: 'asks', create: () => ({ classify: () => ({}) }) });
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function warnings(yaml: string): Promise<readonly string[]> {
  const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
  const host = await createPluginHost({ config, source, clock: new ManualClock(), log: NO_LOG });
  await host.dispose();
  return host.warnings.map((warning) => source.render(warning).replaceAll(`${folder}/`, ''));
}

it('a plugin of which nothing is used is a warning', async () => {
  expect(await warnings('plugins: [./both.ts, ./classifier.ts]\n')).toEqual([
    'router.yaml:1:11: plugins[0]: nothing uses what ./both.ts defines: hint policy mine, for the hints of a role; worker-selection policy first, for worker_selection',
    'router.yaml:1:22: plugins[1]: nothing uses what ./classifier.ts defines: request classifier asks, for request_classifier',
  ]);
});

it.each([
  'plugins: [./both.ts]\nworker_selection: { decode: { hints: [{ type: mine, name: other }] } }\n',
  'plugins: [./both.ts]\nworker_selection: { aggregated: one, instances: [{ name: one, type: first }] }\n',
  'plugins: [./classifier.ts]\nrequest_classifier: asks\n',
  'plugins: [./default.ts]\n',
  'plugins: [./default.ts]\nrouter: { mode: round-robin }\n',
])('one of which something is used is none: %j', async (yaml) => {
  expect(await warnings(yaml)).toEqual([]);
});

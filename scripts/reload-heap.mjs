// What reloads leave behind: reloads a plugin of about 3 kB, one of whose imports changes each time, and prints the heap after a
// collection. Needs a build. Usage: node --expose-gc scripts/reload-heap.mjs [--reloads 1000] [--state-kib 8] [--json]
// Exit 1 when the heap at the end is more than 32 MiB above that after 10 reloads.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseConfig } from '../dist/config/index.js';
import { createReloadableHost } from '../dist/host/index.js';
import { ManualClock, NO_LOG } from '../dist/plugin/index.js';

const MOST_GROWTH = 32 * 2 ** 20;
const FIRST = 10;

const { values } = parseArgs({
  options: { reloads: { type: 'string' }, 'state-kib': { type: 'string' }, json: { type: 'boolean' } },
});
const reloads = Number(values.reloads ?? 1000);
/** What the module of each generation keeps in its own variables. */
const stateNumbers = Number(values['state-kib'] ?? 8) * 128;
if (typeof globalThis.gc !== 'function') throw new Error('start it with node --expose-gc');

const folder = mkdtempSync(join(tmpdir(), 'reload-heap-'));
const plugin = `import { defineHintPolicy } from 'pointsman/plugin';
import { LEVEL, table } from './level.ts';
export default defineHintPolicy({
  type: 'level',
  create: () => {
    const seen = new Float64Array(1024);
    return {
      buildHints({ promptTokens }) {
        seen[promptTokens % 1024] = LEVEL + table.length;
        return [];
      },
      dispose: () => seen.fill(0),
    };
  },
});
`;
const filler = Array.from(
  { length: 40 },
  (_, n) => `export const step${n} = (value: number): number => value * ${n} + ${n};`,
);
const level = (n) =>
  [
    `export const LEVEL: number = ${n};`,
    `export const table: readonly number[] = new Array(${stateNumbers}).fill(LEVEL + 0.5);`,
    ...filler,
  ].join('\n');
writeFileSync(join(folder, 'level-hint.ts'), plugin);
writeFileSync(join(folder, 'level.ts'), level(0));
const yaml = 'plugins: [./level-hint.ts]\nworker_selection: { aggregated: { hints: [{ type: level }] } }\n';
const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
const clock = new ManualClock();
const host = await createReloadableHost({ config, source, clock, log: NO_LOG });
const partition = { model: 'tiny', routingGroup: 'default' };
host.roleRuntime(partition, 'aggregated', 16);

const heap = async () => {
  // Disposal ends in a later turn, and the engine lets go of compiled scripts only after several collections.
  for (let turn = 0; turn < 8; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.gc();
  }
  return process.memoryUsage().heapUsed;
};
const startedAt = performance.now();
let after10 = 0;
for (let n = 1; n <= reloads; n += 1) {
  writeFileSync(join(folder, 'level.ts'), level(n));
  const switched = await host.reload({
    config,
    source,
    modules: {},
    packages: false,
    refuse: () => [],
    switched: () => undefined,
  });
  if (!switched) throw new Error(`reload ${n} changed nothing`);
  host.roleRuntime(partition, 'aggregated', 16);
  if (n === FIRST) after10 = await heap();
}
const seconds = (performance.now() - startedAt) / 1000;
const { generation } = host.status();
const atEnd = await heap();
await host.dispose();
rmSync(folder, { recursive: true });

const growth = atEnd - after10;
const kib = (bytes) => Math.round(bytes / 1024);
const figures = {
  reloads,
  generation,
  plugin_bytes: plugin.length + level(0).length,
  heap_after_10_kib: kib(after10),
  heap_at_end_kib: kib(atEnd),
  growth_kib: kib(growth),
  growth_per_reload_bytes: Math.round(growth / (reloads - FIRST)),
  ms_per_reload: Math.round((seconds * 1000) / reloads),
};
process.stdout.write(
  values.json
    ? `${JSON.stringify(figures)}\n`
    : `${Object.entries(figures)
        .map(([name, value]) => `${name.padEnd(24)} ${value}`)
        .join('\n')}\n`,
);
process.exitCode = growth > MOST_GROWTH ? 1 : 0;

// How fast an edit takes effect under load: a router with two simulated workers and 50 concurrent clients, a policy that always picks
// one row, which stands in a file it imports. Edits that file, then the policy itself, over and over, and prints how long it took from
// the edit to the first answer of the new version and to the last of the old one, and what failed. Needs a build.
// Usage: node scripts/reload-under-load.mjs [--edits 10] [--clients 50]. Exit 1 when a request failed or an edit took over a second.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { spawnSimulators } from '../dist/cli/spawn-simulators.js';

const MOST_MS = 1000;
/** The program is given this long to follow an edit before the measurement gives up, in ms. */
const GIVE_UP_MS = 30_000;

const { values } = parseArgs({ options: { edits: { type: 'string' }, clients: { type: 'string' } } });
const edits = Number(values.edits ?? 10);
const clients = Number(values.clients ?? 50);

const folder = mkdtempSync(join(tmpdir(), 'reload-under-load-'));
const write = (name, text) => {
  writeFileSync(join(folder, `${name}.new`), text);
  renameSync(join(folder, `${name}.new`), join(folder, name));
};
const row = (value) => `export const ROW = ${value};\n`;
const policy = (pick) => `import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
import { ROW } from './row.ts';
export default defineWorkerSelectionPolicy({
  type: 'fixed',
  create: () => ({ picker: pickWorker({ pick: () => ${pick} }) }),
});
`;
const simulators = await spawnSimulators({ count: 2, args: ['--speed', '1000'], logs: 'ignore' });
write('row.ts', row(0));
write('fixed.ts', policy('ROW'));
write(
  'router.yaml',
  `models: { tiny: { served_as: tiny-sim, block_size: 16, tokens: { source: estimate } } }
workers: [${simulators.engines.map(({ url }, at) => `{ id: ${at + 1}, url: "${url}", dialect: sim }`).join(', ')}]
plugins: [./fixed.ts]
worker_selection: { aggregated: fixed }
`,
);
const main = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const args = ['serve', '--config', join(folder, 'router.yaml'), '--port', '0', '--admin-port', '0', '--json'];
const router = spawn(process.execPath, [main, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
const ended = once(router, 'close');
const [line] = await once(createInterface({ input: router.stdout }), 'line');
const { url } = JSON.parse(line);

let stopped = false;
let failed = 0;
let answered = 0;
/** When an answer of each worker was last heard, and first since the last edit. */
const heard = new Map();
const ask = async () => {
  while (!stopped) {
    try {
      const answer = await fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'tiny', prompt: 'Hello town', max_tokens: 4 }),
      });
      await answer.text();
      const worker = answer.headers.get('x-pointsman-worker');
      const times = heard.get(worker) ?? { first: null, last: 0 };
      times.last = performance.now();
      times.first ??= times.last;
      heard.set(worker, times);
      answered += 1;
      if (answer.status !== 200) failed += 1;
    } catch {
      failed += 1;
    }
  }
};
const running = Array.from({ length: clients }, ask);
/** Waits until a worker answers alone: for twice as many answers as there are clients. */
const alone = async (worker) => {
  const startedAt = performance.now();
  for (;;) {
    const before = answered;
    const others = [...heard]
      .filter(([name]) => name !== worker)
      .reduce((last, [, one]) => Math.max(last, one.last), 0);
    while (answered < before + 2 * clients) await new Promise((resolve) => setTimeout(resolve, 2));
    const latest = [...heard]
      .filter(([name]) => name !== worker)
      .reduce((last, [, one]) => Math.max(last, one.last), 0);
    if (latest === others && heard.has(worker)) return latest;
    if (performance.now() - startedAt > GIVE_UP_MS) throw new Error('the edit had no effect');
  }
};

const results = [];
try {
  await alone('1:0');
  let chosen = 0;
  let swapped = false;
  for (let n = 0; n < edits; n += 1) {
    chosen = 1 - chosen;
    const imported = n % 2 === 0;
    heard.clear();
    const editedAt = performance.now();
    if (imported) write('row.ts', row(swapped ? 1 - chosen : chosen));
    else {
      swapped = !swapped;
      write('fixed.ts', policy(swapped ? '1 - ROW' : 'ROW'));
    }
    const worker = `${chosen + 1}:0`;
    const lastOld = await alone(worker);
    results.push({ imported, first: heard.get(worker).first - editedAt, last: lastOld - editedAt });
  }
} finally {
  stopped = true;
  await Promise.all(running);
  router.kill('SIGTERM');
  await ended;
  await simulators.stop();
  rmSync(folder, { recursive: true });
}
for (const { imported, first, last } of results) {
  const what = imported ? 'file it imports' : 'policy file';
  process.stdout.write(
    `${what.padEnd(16)} first new answer ${Math.round(first)} ms, last old answer ${Math.round(last)} ms after the edit\n`,
  );
}
process.stdout.write(`${answered} answers, ${failed} failed\n`);
process.exitCode = failed > 0 || results.some(({ last, first }) => Math.max(first, last) > MOST_MS) ? 1 : 0;

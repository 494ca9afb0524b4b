// Soak test of the prefix index: random stores, removes, clears and lost workers of up to 70 owners, every answer compared with a
// model of another build. Usage: node scripts/soak-index.mjs [--operations 1e8] [--seed 1]
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values } = parseArgs({
  options: {
    index: { type: 'boolean' },
    operations: { type: 'string', default: '1e8' },
    seed: { type: 'string', default: '1' },
  },
});
const operations = Number(values.operations);
const seed = Number(values.seed);
if (!(operations >= 1) || !Number.isSafeInteger(seed)) {
  process.stderr.write('--operations must be a number from 1, --seed an integer\n');
  process.exit(2);
}
const out = join(root, '.bench');
rmSync(out, { recursive: true, force: true });
const compiler = join(root, 'node_modules/typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [compiler, '-p', 'bench/tsconfig.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (status !== 0) process.exit(1);
const { soakIndex } = await import(pathToFileURL(join(out, 'bench/index-soak.js')).href);
const started = performance.now();
const print = (line) => process.stdout.write(`${line}\n`);
const elapsed = () => `${((performance.now() - started) / 1000).toFixed(0)} s`;
try {
  const done = soakIndex(operations, seed, (so) => {
    if (so % 1_000_000 === 0) print(`${elapsed().padStart(8)}  ${so.toLocaleString('en-US')} operations`);
  });
  print(`\nok: ${done.toLocaleString('en-US')} operations in ${elapsed()}, seed ${seed}`);
} catch (error) {
  print(`FAULT: ${error.message}`);
  process.exitCode = 1;
}

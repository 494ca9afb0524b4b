// Soak test of the prefix index: random stores, removes, tier moves, clears, lost workers, stores that wait for their parent and
// snapshots of up to 70 owners, every answer compared with a model of another build. With --churn: hours of sessions on 16 workers under
// a cap of 64 MiB; exit 1 when the index grew or finds less than one built anew.
// Usage: node scripts/soak-index.mjs [--operations 1e8] [--threads 1] [--churn [--events 5e7]] [--seed 1]
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values } = parseArgs({
  options: {
    index: { type: 'boolean' },
    churn: { type: 'boolean' },
    operations: { type: 'string', default: '1e8' },
    events: { type: 'string', default: '5e7' },
    seed: { type: 'string', default: '1' },
    threads: { type: 'string', default: '1' },
  },
});
const operations = Number(values.operations);
const events = Number(values.events);
const seed = Number(values.seed);
const threads = Number(values.threads);
const areWhole = [operations, events, seed, threads].every(Number.isSafeInteger);
if (!areWhole || operations < 1 || events < 1 || threads < 1) {
  process.stderr.write(
    '--operations, --events and --threads must be whole numbers from 1, --seed an integer\n',
  );
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
const { soakChurn, soakIndex, tallyNames } = await import(
  pathToFileURL(join(out, 'bench/index-soak.js')).href
);
const started = performance.now();
const print = (line) => process.stdout.write(`${line}\n`);
const elapsed = () => `${((performance.now() - started) / 1000).toFixed(0)} s`;
try {
  if (values.churn) {
    const faults = soakChurn(events, seed, print);
    for (const fault of faults) print(`FAULT: ${fault}`);
    if (faults.length > 0) process.exitCode = 1;
    else print(`\nok: ${events.toLocaleString('en-US')} block events in ${elapsed()}, seed ${seed}`);
  } else {
    let shown = 0;
    const { tally, fault } = await soakIndex(operations, seed, threads, (done) => {
      const millions = Math.floor(done / 1_000_000);
      if (millions > shown) print(`${elapsed().padStart(8)}  ${millions},000,000 operations`);
      shown = Math.max(shown, millions);
    });
    print('');
    for (const name of tallyNames(tally)) {
      const words = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
      print(`${words.padEnd(16)} ${tally[name].toLocaleString('en-US').padStart(13)}`);
    }
    if (fault !== null) throw new Error(fault);
    print(`\nok: ${operations.toLocaleString('en-US')} operations, seed ${seed}, in ${elapsed()}`);
  }
} catch (error) {
  print(`FAULT: ${error.message}`);
  process.exitCode = 1;
}

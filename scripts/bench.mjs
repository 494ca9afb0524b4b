// Runs the benchmarks: each file of bench/ that default-exports { name, run }. Usage: node scripts/bench.mjs --help
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { readMooncakeArguments } from './mooncake-options.mjs';
import { PUBLISHED_TITLE, publishedSection } from './published-table.mjs';

const script = fileURLToPath(import.meta.url);
const root = dirname(dirname(script));
const results = join(root, 'bench/results');
/** Of benchmarks with options of their own: how these are read. */
const READ_ARGUMENTS = { mooncake: (args) => readMooncakeArguments(args, join(root, '../shared/data')) };
const USAGE = 2;
const HELP = `Usage: npm run bench -- [NAME…] [--write] [--json]

Compiles bench/ into .bench, runs each benchmark in a process of its own, prints its table, and keeps its figures in
bench/results/NAME.json. They want a machine that does nothing else.

  NAME      one of ${namesOf(join(root, 'bench')).join(', ')}
            (default: all)
  --write   also put the figures into docs/benchmarks.md, whose other sections stay as they are
  --json    print them as one JSON array instead of tables
  --help

Examples:
  npm run bench -- selection
  npm run bench -- hashing prefix-index --write
  npm run bench -- mooncake --help   # the options of that benchmark alone
`;
const [first, ...rest] = process.argv.slice(2);

if (first === '--child') await runChild(...rest);
else await main(process.argv.slice(2));

/** Names of the benchmarks, as their files say them. */
function namesOf(folder) {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.ts'))
    .flatMap(
      (file) => /\{ name: '([a-z-]+)', run \}/.exec(readFileSync(join(folder, file), 'utf8'))?.[1] ?? [],
    );
}

async function main(args) {
  if (args[0] === '--help' || args[0] === '-h') {
    process.stdout.write(HELP);
    return;
  }
  const write = args.includes('--write');
  const json = args.includes('--json');
  const others = args.filter((arg) => arg !== '--write' && arg !== '--json');
  const firstOption = others.findIndex((arg) => arg.startsWith('-'));
  const wanted = firstOption < 0 ? others : others.slice(0, firstOption);
  const options = optionsOf(wanted, firstOption < 0 ? [] : others.slice(firstOption));
  rmSync(join(root, '.bench'), { recursive: true, force: true });
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'bench/tsconfig.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) fail('the benchmarks do not compile');

  mkdirSync(results, { recursive: true });
  const compiled = join(root, '.bench/bench');
  const names = new Set();
  const measured = [];
  let failed = 0;
  for (const file of readdirSync(compiled)
    .filter((name) => name.endsWith('.js'))
    .sort()) {
    const { default: benchmark } = await import(pathToFileURL(join(compiled, file)).href);
    if (typeof benchmark?.run !== 'function' || typeof benchmark.name !== 'string') continue;
    names.add(benchmark.name);
    if (wanted.length > 0 && !wanted.includes(benchmark.name)) continue;
    if (!json) process.stdout.write(`\n== ${benchmark.name}\n`);
    const output = join(results, `${benchmark.name}.json`);
    // A process of its own: what one benchmark made the engine compile does not help or hurt the next.
    const child = ['--expose-gc', script, '--child', join(compiled, file), output];
    const own = options.get(benchmark.name);
    if (own !== undefined) child.push(JSON.stringify(own));
    const run = spawnSync(process.execPath, child, { cwd: root, stdio: 'inherit' });
    if (run.status === USAGE) process.exit(USAGE);
    if (run.status !== 0) {
      failed += 1;
      continue;
    }
    const result = JSON.parse(readFileSync(output, 'utf8'));
    if (json) measured.push(result);
    else process.stdout.write(`${tableOf(result)}\n`);
  }
  if (json) process.stdout.write(`${JSON.stringify(measured, null, 2)}\n`);
  const unknown = wanted.filter((name) => !names.has(name));
  if (unknown.length > 0)
    fail(`no benchmark is named ${unknown.join(', ')}; known: ${[...names].join(', ')}`);
  if (failed > 0) fail(`${failed} benchmarks failed`);
  if (write) writePage(wanted.length > 0 ? wanted : [...names]);
}

/** Options by benchmark, of each that has some; those given are of the only one named. */
function optionsOf(wanted, given) {
  if (given.length > 0 && !(wanted.length === 1 && Object.hasOwn(READ_ARGUMENTS, wanted[0]))) {
    const known = Object.keys(READ_ARGUMENTS).join(', ');
    fail(
      `${given[0]}: only a benchmark named alone takes options of its own; those that do: ${known}`,
      USAGE,
    );
  }
  const entries = Object.entries(READ_ARGUMENTS).map(([name, read]) => {
    const { help, options, problem } = read(given);
    if (problem !== undefined) fail(problem, USAGE);
    if (help === undefined) return [name, options];
    process.stdout.write(help);
    return process.exit(0);
  });
  return new Map(entries);
}

async function runChild(file, output, options) {
  const { default: benchmark } = await import(pathToFileURL(file).href);
  let result;
  try {
    result = await benchmark.run(...(options === undefined ? [] : [JSON.parse(options)]));
  } catch (thrown) {
    // What was given cannot be run, said in words; of anything else it matters where it was thrown.
    if (!['BENCH_OPTION', 'PM_REPLAY_TRACE'].includes(thrown?.code)) throw thrown;
    fail(thrown.message, USAGE);
  }
  const machine = {
    node: process.version,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory: totalmem(),
    commit: commitOf(root),
  };
  writeFileSync(output, `${JSON.stringify({ ...result, machine }, null, 2)}\n`);
}

/** What was measured; null outside a clone. */
function commitOf(folder) {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: folder, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}

/** Cases with aligned figures, notes below. */
function tableOf({ rows, notes }) {
  const cells = rows.map(({ against, case: name, ratio, unit, value }) => {
    return [name, figure(value), unit, ratio === null ? '' : `${figure(ratio)}x`, against ?? ''];
  });
  const lines = [['case', 'value', 'unit', 'ratio', 'against'], ...cells];
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const text = lines.map((line) =>
    line
      .map((cell, column) =>
        column === 1 || column === 3 ? cell.padStart(widths[column]) : cell.padEnd(widths[column]),
      )
      .join('  ')
      .trimEnd(),
  );
  return [...text, ...notes.map((note) => `  ${note}`)].join('\n');
}

function writePage(measured) {
  const page = join(root, 'docs/benchmarks.md');
  const written = existsSync(page)
    ? readFileSync(page, 'utf8')
        .trimEnd()
        .split(/\n\n(?=## )/)
    : [];
  const sections = new Map(written.slice(1).map((text) => [text.slice(3, text.indexOf('\n')), text]));
  const parts = measured.map((name) => JSON.parse(readFileSync(join(results, `${name}.json`), 'utf8')));
  for (const { machine, name, notes, rows } of parts) {
    // Times are of one machine and one minute: the page has only what they amount to beside each other, sizes, and pauses.
    const lines = rows.flatMap(({ against, case: label, ratio, unit, value }) => {
      const size = unit.startsWith('bytes') || unit === 'ms' ? `${figure(value)} ${unit}` : '–';
      if (ratio === null && size === '–') return [];
      return [`| ${label} | ${ratio === null ? '–' : `${figure(ratio)}×`} | ${against ?? '–'} | ${size} |`];
    });
    const section = [
      `## ${name}`,
      '',
      '| case | times as fast or small | as | size or pause |',
      '| --- | ---: | --- | ---: |',
      ...lines,
      '',
      ...notes.map((note) => `- ${note}`),
      `- Node ${machine.node}.`,
    ].join('\n');
    sections.set(name, section);
  }
  // The two benchmarks it is made of may have been run one after the other.
  const published = publishedSection(keptResults());
  if (published !== null && parts.some(({ name }) => name.startsWith('selection'))) {
    sections.set(PUBLISHED_TITLE, published);
  }
  const intro = [
    '# Benchmarks',
    '',
    '<!-- Generated by node scripts/bench.mjs --write; run it instead of editing this page. -->',
    '',
    'Ratios of one run on one machine: variants take turns within a round, so that what else the machine does falls on all of them, and',
    'the medians are compared. Above 1 is better than what it stands beside. The command prints the times as well.',
    '',
    'To run them again: `npm run bench` (all), `npm run bench -- hashing selection` (by name), with `--write` to put what was measured into',
    'this page as well. It compiles `bench/`, runs each file in a process of its own and keeps the figures in `bench/results/`, which git',
    'ignores. With `gcc` present the hashing table has rows of native C, with `rustc` the selection table rows of Rust.',
    '`npm run bench:mooncake -- --help` tells how to run the Mooncake table with other traces, workers, block sizes and rates.',
  ].join('\n');
  const inOrder = [...sections].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
  writeFileSync(page, `${[intro, ...inOrder].join('\n\n')}\n`);
  process.stderr.write('\nwrote docs/benchmarks.md\n');
}

/** What the last run of each benchmark measured. */
function keptResults() {
  const files = readdirSync(results).filter((name) => name.endsWith('.json'));
  const read = files.map((name) => JSON.parse(readFileSync(join(results, name), 'utf8')));
  return new Map(read.map((result) => [result.name, result]));
}

/** Three significant digits below a thousand, whole numbers with separators above. */
function figure(value) {
  if (!Number.isFinite(value)) return String(value);
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(3)));
}

function fail(message, code = 1) {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

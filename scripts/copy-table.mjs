// Prints what copies between workers buy on the two public traces, in virtual time, and checks that commits add up and that credited
// blocks arrive. Usage: node scripts/copy-table.mjs --help
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { copyProblems, copyTable } from './copy-table-rules.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/copy-table.mjs [FOLDER] [OPTIONS]

Replays both Mooncake traces of FOLDER (default: ../shared/data beside the repository) under kv, kv + kv_fetch and kvcr + kv_fetch, and
prints one table. Exits 1 when copies made are not copies sent + degraded + released, when too few were made or sent, or when
engines found the credited blocks of less than 95 % of the sent copies cached. Takes about two minutes on two cores.

  --seeds LIST      seeds, separated by commas (default 1,2,3,4,5)
  --workers N       simulated workers (default 8)
  --kv-blocks N     blocks per worker (default 5000)
  --limit N         only the first N requests of each trace
  --more-than N     copies each run of kvcr must exceed, made and sent (default 100)
  --write           also write docs/copy-table.md
  --help
`;
const TRACES = ['conversation', 'synthetic'];
const POLICIES = [
  { policy: 'kv', choice: 'kv', commits: false },
  { policy: 'kv + kv_fetch', choice: 'examples/kv-fetch.yaml', commits: false },
  { policy: 'kvcr + kv_fetch', choice: 'examples/kvcr.yaml', commits: true },
];

const { values, positionals } = argumentsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const folder = positionals[0] ?? join(root, '..', 'shared', 'data');
const seeds = values.seeds.split(',').map(wholeNumber('--seeds'));
const moreThan = wholeNumber('--more-than')(values['more-than']);
const options = ['workers', 'kv-blocks', 'limit'].flatMap((name) =>
  values[name] === undefined ? [] : [`--${name}`, String(wholeNumber(`--${name}`)(values[name]))],
);
if (!existsSync(join(root, 'dist/cli/main.js'))) fail('nothing is built; run node scripts/build.mjs first');
const files = new Map(TRACES.map((trace) => [trace, traceFile(trace)]));

const jobs = TRACES.flatMap((trace) => seeds.map((seed) => ({ trace, seed })));
const runs = await replayAll(jobs);
const problems = copyProblems(runs, moreThan);
const table = copyTable(runs);
process.stdout.write(`${table}\n`);
for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length > 0) process.exit(1);
if (values.write) writePage();

function argumentsOf(args) {
  const text = { type: 'string' };
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        seeds: { ...text, default: '1,2,3,4,5' },
        workers: { ...text, default: '8' },
        'kv-blocks': { ...text, default: '5000' },
        limit: text,
        'more-than': { ...text, default: '100' },
        write: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (thrown) {
    return fail(`${thrown.message}\n\n${HELP}`);
  }
}

function wholeNumber(option) {
  return (value) => {
    if (!/^\d{1,9}$/.test(value)) fail(`${option}: ${value} is not a whole number`);
    return Number(value);
  };
}

function traceFile(trace) {
  const pattern = new RegExp(`^mooncake_${trace}_\\w+\\.jsonl(?:\\.gz)?$`);
  const name = existsSync(folder) ? readdirSync(folder).find((file) => pattern.test(file)) : undefined;
  if (name !== undefined) return join(folder, name);
  return fail(
    `${folder} holds no mooncake_${trace}_trace.jsonl.gz; the traces come from kvcache-ai/Mooncake, FAST25-release/traces`,
  );
}

/** As many at once as there are cores; in the order of `jobs`, trace by trace and policy by policy. */
async function replayAll(jobs) {
  const done = new Map();
  const waiting = [...jobs];
  progress(0);
  const lanes = Array.from({ length: Math.min(availableParallelism(), jobs.length) }, async () => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      done.set(job, await replay(job));
      progress(done.size);
    }
  });
  await Promise.all(lanes);
  return TRACES.flatMap((trace) =>
    POLICIES.flatMap(({ policy, commits }, at) =>
      jobs
        .filter((job) => job.trace === trace)
        .map((job) => ({ trace, policy, seed: job.seed, commits, report: done.get(job)[at] })),
    ),
  );
}

async function replay({ trace, seed }) {
  const choices = POLICIES.map(({ choice }) => choice).join(',');
  const fixed = ['--block-size', '512', '--compare', choices, '--seed', String(seed), '--json'];
  const args = ['dist/cli/main.js', 'replay', files.get(trace), ...options, ...fixed];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
  }).catch((failure) => fail(failure.stderr || failure.message));
  return JSON.parse(stdout).runs;
}

/** On terminals only. */
function progress(count) {
  if (!process.stderr.isTTY) return;
  const text = count < jobs.length ? `${count} of ${jobs.length} replays done` : '';
  process.stderr.write(`\r\u001b[K${text}`);
}

function writePage() {
  const page = [
    '# Copies on the public traces',
    '',
    '<!-- Generated by node scripts/copy-table.mjs --write; run it instead of editing this page. -->',
    '',
    `Both Mooncake traces, replayed in virtual time: ${values.workers} workers, ${Number(values['kv-blocks']).toLocaleString('en-US')} blocks of 512 tokens each, seeds ${seeds.join(', ')}${values.limit === undefined ? '' : `, the first ${values.limit} requests`}. Figures are`,
    'means over the seeds, commits are sums. `kv + kv_fetch` is `examples/kv-fetch.yaml`, `kvcr + kv_fetch` is `examples/kvcr.yaml`.',
    '',
    table,
    '',
    'A commit is covered when the engine, by its own report, found the credited prefix cached. The command fails when in any run copies',
    `made are not copies sent + degraded + released, when not more than ${moreThan} were made and sent, or when less than 95 % are covered. The engine`,
    'is simulated (its timing model and limits: [Simulated engine](simulated-engine.md)), so read ratios, not milliseconds.',
    '',
  ];
  writeFileSync(join(root, 'docs/copy-table.md'), page.join('\n'));
  process.stdout.write('\nwrote docs/copy-table.md\n');
}

function fail(message) {
  process.stderr.write(`${message.trimEnd()}\n`);
  process.exit(2);
}

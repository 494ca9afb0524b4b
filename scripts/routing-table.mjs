// Prints the routing table of the README: what KV routing and fetching buy over round robin on the two public traces, in
// virtual time. Usage: node scripts/routing-table.mjs --help
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/routing-table.mjs [FOLDER]

Replays both Mooncake traces of FOLDER (default: ../shared/data beside the repository) on 8 simulated workers with five seeds, and prints the
routing table of the README as Markdown. Takes about two minutes; what is built is replayed.

Examples:
  node scripts/build.mjs && node scripts/routing-table.mjs
  node scripts/routing-table.mjs ~/traces
`;
const [given] = process.argv.slice(2);
if (given?.startsWith('-')) {
  const asked = given === '--help' || given === '-h';
  process[asked ? 'stdout' : 'stderr'].write(
    asked ? HELP : `${given} is no option; --help says what there is\n`,
  );
  process.exit(asked ? 0 : 2);
}
const folder = given ?? join(root, '..', 'shared', 'data');
const traces = {
  conversation: 'mooncake_conversation_trace.jsonl.gz',
  synthetic: 'mooncake_synthetic_trace.jsonl.gz',
};
for (const file of Object.values(traces)) {
  if (existsSync(join(folder, file))) continue;
  process.stderr.write(
    `${join(folder, file)} is not there; the traces come from kvcache-ai/Mooncake, FAST25-release/traces\n`,
  );
  process.exit(2);
}
const seeds = [1, 2, 3, 4, 5];

function replay(trace, options) {
  const output = execFileSync(
    process.execPath,
    [
      'dist/cli/main.js',
      'replay',
      join(folder, traces[trace]),
      '--workers',
      '8',
      '--block-size',
      '512',
      ...options,
      '--json',
    ],
    { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
  );
  return JSON.parse(output).runs;
}

const busiest = (run) => {
  const loads = run.workers.map((worker) => worker.input_tokens);
  return Math.max(...loads) / (loads.reduce((sum, load) => sum + load, 0) / loads.length);
};
const worst = (values) => Math.max(...values);
const least = (values) => Math.min(...values);
const fixed = (value, digits = 3) => value.toFixed(digits);

const rows = [];
for (const trace of Object.keys(traces)) {
  const runs = seeds.map((seed) => replay(trace, ['--compare', 'round-robin,kv', '--seed', String(seed)]));
  rows.push([
    `${trace}, hit rate`,
    fixed(runs[0][0].prefix_hit_rate_tokens),
    fixed(least(runs.map(([, kv]) => kv.prefix_hit_rate_tokens))),
    `${fixed(least(runs.map(([roundRobin, kv]) => kv.prefix_hit_rate_tokens / roundRobin.prefix_hit_rate_tokens)), 2)}×`,
  ]);
  rows.push([
    `${trace}, input tokens of the busiest worker over the mean`,
    fixed(worst(runs.map(([roundRobin]) => busiest(roundRobin))), 2),
    fixed(worst(runs.map(([, kv]) => busiest(kv))), 2),
    '',
  ]);
}
const loaded = seeds.map((seed) =>
  replay('conversation', [
    '--compare',
    'round-robin,kv',
    '--speedup',
    '8',
    '--kv-blocks',
    '5000',
    '--seed',
    String(seed),
  ]),
);
for (const figure of ['mean', 'p99']) {
  rows.push([
    `conversation at 8× speed, 5,000 blocks, TTFT ${figure} (s)`,
    fixed(loaded[0][0].ttft_ms[figure] / 1000, 1),
    fixed(worst(loaded.map(([, kv]) => kv.ttft_ms[figure])) / 1000, 1),
    `${fixed(worst(loaded.map(([roundRobin, kv]) => kv.ttft_ms[figure] / roundRobin.ttft_ms[figure])), 2)}×`,
  ]);
}
process.stdout.write(
  '| trace and figure | round-robin | kv, worst of seeds 1–5 | kv ÷ round-robin, worst |\n|---|---|---|---|\n',
);
for (const row of rows) process.stdout.write(`| ${row.join(' | ')} |\n`);

const fetching = replay('conversation', [
  '--compare',
  'kv,examples/kv-fetch.yaml',
  '--kv-blocks',
  '5000',
  '--seed',
  '1',
]);
process.stdout.write('\n| conversation, 5,000 blocks, seed 1 | hit rate | blocks fetched |\n|---|---|---|\n');
for (const run of fetching) {
  process.stdout.write(
    `| ${run.name} | ${fixed(run.prefix_hit_rate_tokens)} | ${run.hints.fetched_blocks} |\n`,
  );
}

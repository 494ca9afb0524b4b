// Prints what host memory behind the device's KV blocks buys on a trace, in virtual time.
// Usage: node scripts/host-tier-table.mjs [TRACE] [OPTIONS]
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/host-tier-table.mjs [TRACE] [OPTIONS]

Replays TRACE (default: the conversation trace in ../shared/data beside the repository) once per size of host memory, and prints one
table in Markdown.

  --host-kv-blocks LIST   sizes, separated by commas (default 0,5000,20000)
  --workers N             simulated workers (default 8)
  --kv-blocks N           device blocks per worker (default 5000)
  --limit N               only the first N requests
  --help
`;
const MAX_REPORT_BYTES = 64 * 1024 * 1024;
const text = { type: 'string' };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'host-kv-blocks': { ...text, default: '0,5000,20000' },
    workers: { ...text, default: '8' },
    'kv-blocks': { ...text, default: '5000' },
    limit: text,
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const program = join(root, 'dist/cli/main.js');
const trace = positionals[0] ?? join(root, '..', 'shared', 'data', 'mooncake_conversation_trace.jsonl.gz');
if (!existsSync(program)) fail('nothing is built; run node scripts/build.mjs first');
if (!existsSync(trace)) fail(`there is no trace ${trace}; name one`);

const shared = ['workers', 'kv-blocks', 'limit'].flatMap((name) =>
  values[name] === undefined ? [] : [`--${name}`, values[name]],
);
const lines = [
  '| host blocks per worker | hit rate (tokens) | predicted | copied back (blocks) | TTFT mean (ms) | TTFT p99 (ms) |',
  '|---|---|---|---|---|---|',
];
for (const blocks of values['host-kv-blocks'].split(',')) {
  const options = [
    program,
    'replay',
    trace,
    ...shared,
    '--host-kv-blocks',
    blocks,
    '--compare',
    'kv',
    '--json',
  ];
  const { stdout } = await promisify(execFile)(process.execPath, options, { maxBuffer: MAX_REPORT_BYTES });
  const [run] = JSON.parse(stdout).runs;
  const onboarded = run.workers.reduce((sum, worker) => sum + (worker.onboarded_blocks ?? 0), 0);
  const cells = [
    blocks,
    percent(run.prefix_hit_rate_tokens),
    percent(run.predicted_hit_rate_tokens),
    onboarded,
    run.ttft_ms.mean.toFixed(1),
    run.ttft_ms.p99.toFixed(1),
  ];
  lines.push(`| ${cells.join(' | ')} |`);
}
process.stdout.write(`${lines.join('\n')}\n`);

function percent(rate) {
  return rate === null ? '–' : `${(rate * 100).toFixed(2)} %`;
}

function fail(problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

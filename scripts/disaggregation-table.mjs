// Prints what dividing workers into prefill and decode workers does on a trace, with and without conditional disaggregation, in
// virtual time. Usage: node scripts/disaggregation-table.mjs [TRACE] [OPTIONS]
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/disaggregation-table.mjs [TRACE] [OPTIONS]

Replays TRACE (default: the conversation trace in ../shared/data beside the repository) on workers of one kind, and on as many that are
divided into prefill and decode workers, without bypass and with each rule of it. Prints one table in Markdown.

  --prefill-workers N   (default 4)
  --decode-workers N    (default 4)
  --handoff LIST        kinds of handoff, separated by commas (default nixl)
  --kv-blocks N         blocks of 512 tokens per worker (default 5000)
  --limit N             only the first N requests
  --help
`;
const MAX_REPORT_BYTES = 64 * 1024 * 1024;
const text = { type: 'string' };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'prefill-workers': { ...text, default: '4' },
    'decode-workers': { ...text, default: '4' },
    handoff: { ...text, default: 'nixl' },
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

/** Bypass rules by the name in the table; null = none. */
const RULES = {
  off: null,
  isl_bounding: 'conditional_disagg_policy: isl_bounding',
  'isl_bounding, guarded':
    'conditional_disagg_policy: isl_bounding, conditional_disagg_decode_busy_threshold: 0.3',
  'prefill_load 1.0':
    'conditional_disagg_policy: prefill_load, conditional_disagg_prefill_busy_threshold: 1.0',
  'isl_or_load 1.0': 'conditional_disagg_policy: isl_or_load, conditional_disagg_prefill_busy_threshold: 1.0',
};

const folder = mkdtempSync(join(tmpdir(), 'pointsman-disaggregation-'));
try {
  const files = Object.entries(RULES).map(([name, keys], index) => {
    const file = join(folder, `${index}.yaml`);
    const router = keys === null ? '{ mode: kv }' : `{ mode: kv, conditional_disagg: true, ${keys} }`;
    writeFileSync(file, `router: ${router}\n`);
    return { name, file };
  });
  const rows = [];
  const { 'decode-workers': decode, 'prefill-workers': prefill } = values;
  const [alike] = await runs(['--workers', String(Number(prefill) + Number(decode)), '--compare', 'kv']);
  rows.push(row('none: all alike', '–', alike));
  for (const kind of values.handoff.split(',')) {
    const divided = ['--prefill-workers', prefill, '--decode-workers', decode, '--handoff', kind];
    const reports = await runs([...divided, '--compare', files.map(({ file }) => file).join(',')]);
    reports.forEach((report, index) => {
      rows.push(row(kind, files[index].name, report));
    });
  }
  const header = [
    'handoff',
    'bypass',
    'remote prefills',
    'hit rate (tokens)',
    'TTFT mean (ms)',
    'TTFT p99 (ms)',
    'ITL mean (ms)',
    'ITL p99 (ms)',
  ];
  const lines = [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  process.stdout.write(`${lines.join('\n')}\n`);
} finally {
  rmSync(folder, { recursive: true });
}

async function runs(options) {
  const limit = values.limit === undefined ? [] : ['--limit', values.limit];
  const args = [program, 'replay', trace, '--kv-blocks', values['kv-blocks'], ...limit, ...options, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: MAX_REPORT_BYTES });
  return JSON.parse(stdout).runs;
}

function row(kind, bypass, run) {
  const { disaggregation, itl_ms: itl, prefix_hit_rate_tokens: rate, requests, ttft_ms: ttft } = run;
  const remote = disaggregation === undefined ? '–' : `${disaggregation.remote_prefills} of ${requests}`;
  const ms = [ttft.mean, ttft.p99, itl.mean, itl.p99].map((value) => value.toFixed(1));
  return [kind, bypass, remote, `${(rate * 100).toFixed(2)} %`, ...ms];
}

function fail(problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

// Prints what session policies buy on the Claude Code traces, in virtual time. Usage: node scripts/session-table.mjs --help
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import {
  isSelected,
  ratioTable,
  sessionCells,
  sessionProblems,
  sessionTable,
} from './session-table-rules.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: node scripts/session-table.mjs [FOLDER] [OPTIONS]

Replays the session traces of FOLDER (default: ../shared/data beside the repository) in a closed loop, for each memory, seed and policy of
bench/sessions/*.yaml, without host memory and with it, and prints two Markdown tables: the figures of resumed turns, and geometric means
of their TTFT against default. A policy file that this version refuses is left out, and why is said. Cells that are done are kept in a
file with the build and the policy they are of, so that the command can be stopped and goes on where it was.

  --policies LIST      policy files without .yaml (default: all)
  --memory LIST        KV memory in peak live working sets (default 1/4,1/3,1/2,1,2)
  --host LIST          no, yes or both (default no,yes)
  --host-memory R      host memory in working sets, where there is any (default 4)
  --seeds LIST         default 1,2,3,4,5
  --only WORDS         a part, for example trace=agentic,memory=1/4|1/2,policy=default|release,host=no,seed=1
  --workers N          default 4
  --copies N           copies of each session: of the trace with few sessions four times as many (default 3)
  --max-context N      leave out sessions with a longer prompt (default 260000)
  --block-size N       tokens per block (default 64)
  --selection TYPE     worker selection instead of dynamo-default-cost-fn in every policy file
  --limit N            only the first N sessions of each trace
  --jobs N             replays at a time (default: one per core)
  --cache FILE         default .bench/session-table.jsonl
  --any-build          take cells of other builds too
  --help
`;
const TRACES = { agentic: 1, subagent: 4 };
/** Replays run one per core and make much short-lived memory: threads that collect it beside them would only take the others' time. */
const ONE_THREAD = ['--single-threaded-gc', '--no-incremental-marking'];
const DEFAULT_SELECTION = 'dynamo-default-cost-fn';
const program = join(root, 'dist/cli/main.js');
const policyFolder = join(root, 'bench/sessions');
const run = promisify(execFile);

const { positionals, values } = argumentsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
if (!existsSync(program)) fail('nothing is built; run node scripts/build.mjs first');
const folder = positionals[0] ?? join(root, '..', 'shared', 'data');
const traces = new Map(Object.keys(TRACES).map((trace) => [trace, traceFile(trace)]));
const build = digest(
  readdirSync(join(root, 'dist'), { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && /\.(js|wasm)$/.test(file.name))
    .map((file) => join(file.parentPath, file.name))
    .sort()
    .map((file) => readFileSync(file)),
);
const cacheFile = values.cache;
const cache = readCache();
const policies = await acceptedPolicies();
const cells = selectedCells();
const finished = await finishAll();
process.stdout.write(
  `${sessionTable(finished)}\n\nGeometric mean of mean resumed TTFT against default (least–most):\n\n`,
);
process.stdout.write(`${ratioTable(finished)}\n`);
const problems = sessionProblems(finished);
for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length > 0) process.exitCode = 1;

function argumentsOf(args) {
  const text = { type: 'string' };
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        policies: text,
        memory: { ...text, default: '1/4,1/3,1/2,1,2' },
        host: { ...text, default: 'no,yes' },
        'host-memory': { ...text, default: '4' },
        seeds: { ...text, default: '1,2,3,4,5' },
        only: text,
        workers: { ...text, default: '4' },
        copies: { ...text, default: '3' },
        'max-context': { ...text, default: '260000' },
        'block-size': { ...text, default: '64' },
        selection: { ...text, default: DEFAULT_SELECTION },
        limit: text,
        jobs: { ...text, default: String(availableParallelism()) },
        cache: { ...text, default: join(root, '.bench/session-table.jsonl') },
        'any-build': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (thrown) {
    return fail(`${thrown.message}\n\n${HELP}`);
  }
}

function selectedCells() {
  try {
    return sessionCells({
      traces: [...traces.keys()],
      memories: values.memory.split(','),
      hosts: values.host
        .split(',')
        .map((word) => (word === 'yes' || word === 'no' ? word === 'yes' : fail('--host takes no and yes'))),
      policies: [...policies.keys()],
      seeds: values.seeds.split(',').map((seed) => wholeNumber('--seeds', seed)),
    }).filter((cell) => isSelected(cell, values.only));
  } catch (thrown) {
    return fail(thrown.message);
  }
}

function traceFile(trace) {
  const name = existsSync(folder)
    ? readdirSync(folder).find((file) => new RegExp(`_${trace}_\\w*\\.jsonl(?:\\.gz)?$`).test(file))
    : undefined;
  return name === undefined
    ? fail(`${folder} holds no trace *_${trace}_*.jsonl.gz of sessions`)
    : join(folder, name);
}

/** Text of every policy file that this build takes, in a fixed order. */
async function acceptedPolicies() {
  const order = ['default', 'host-blind', 'hard-affinity', 'soft-affinity', 'release'];
  const placeOf = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const all = readdirSync(policyFolder)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
    .sort((a, b) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));
  const wanted = values.policies?.split(',') ?? all;
  const accepted = new Map();
  for (const name of wanted) {
    if (!all.includes(name)) fail(`--policies: ${name} is none of ${all.join(', ')}`);
    const text = readFileSync(join(policyFolder, `${name}.yaml`), 'utf8').replace(
      DEFAULT_SELECTION,
      values.selection,
    );
    const file = policyFile(name, text);
    try {
      await run(process.execPath, [program, 'check', file], { cwd: root });
      accepted.set(name, { file, digest: digest([text]) });
    } catch (thrown) {
      // The list of known keys is long.
      const reason = (wordsOf(thrown).split('\n')[0] ?? '').split('; known: mode')[0];
      process.stderr.write(`left out: ${name}, which this build refuses: ${reason}\n`);
    }
  }
  return accepted;
}

/** The file itself, or a copy with another selection. */
function policyFile(name, text) {
  if (values.selection === DEFAULT_SELECTION) return join(policyFolder, `${name}.yaml`);
  const copies = join(root, '.bench/sessions');
  mkdirSync(copies, { recursive: true });
  const file = join(copies, `${name}.${digest([text])}.yaml`);
  writeFileSync(file, text);
  return file;
}

function optionsOf({ host, memory, seed, trace }) {
  const copies = TRACES[trace] * wholeNumber('--copies', values.copies);
  return [
    ...['--workers', values.workers, '--copies', String(copies), '--max-context', values['max-context']],
    ...['--block-size', values['block-size'], '--memory', memory, '--seed', String(seed)],
    ...(host ? ['--host-memory', values['host-memory']] : []),
    ...(values.limit === undefined ? [] : ['--limit', values.limit]),
    '--fast-events',
  ];
}

function keyOf(cell) {
  const { digest: policy } = policies.get(cell.policy);
  return JSON.stringify([
    basename(traces.get(cell.trace)),
    optionsOf(cell),
    policy,
    ...(values['any-build'] ? [] : [build]),
  ]);
}

function readCache() {
  if (!existsSync(cacheFile)) return new Map();
  const entries = readFileSync(cacheFile, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        const { build: of, key, run: done } = JSON.parse(line);
        return [[JSON.stringify(values['any-build'] ? key : [...key, of]), done]];
      } catch {
        // The command was stopped while it wrote this line.
        return [];
      }
    });
  return new Map(entries);
}

async function finishAll() {
  const done = new Map();
  const waiting = cells.filter((cell) => {
    const known = cache.get(keyOf(cell));
    if (known !== undefined) done.set(cell, known);
    return known === undefined;
  });
  const lanes = Array.from(
    { length: Math.min(wholeNumber('--jobs', values.jobs), waiting.length) },
    async () => {
      for (let cell = waiting.shift(); cell !== undefined; cell = waiting.shift()) {
        done.set(cell, await replayed(cell));
        process.stderr.write(`${done.size}/${cells.length}\n`);
      }
    },
  );
  await Promise.all(lanes);
  return cells.map((cell) => ({ cell, run: done.get(cell) }));
}

async function replayed(cell) {
  const { digest: policy, file } = policies.get(cell.policy);
  const options = optionsOf(cell);
  const args = [
    ...ONE_THREAD,
    program,
    'replay',
    traces.get(cell.trace),
    ...options,
    '--compare',
    file,
    '--json',
  ];
  const { stdout } = await run(process.execPath, args, { cwd: root, maxBuffer: 64 * 1024 * 1024 }).catch(
    (thrown) => fail(`${JSON.stringify(cell)}: ${wordsOf(thrown)}`),
  );
  const [{ completed, policy_faults, requests, sessions }] = JSON.parse(stdout).runs;
  const figures = { completed, requests, policy_faults, sessions };
  mkdirSync(dirname(cacheFile), { recursive: true });
  const key = [basename(traces.get(cell.trace)), options, policy];
  appendFileSync(cacheFile, `${JSON.stringify({ key, build, cell, run: figures })}\n`);
  return figures;
}

/** What a command that failed had to say. */
function wordsOf({ message, stderr = '', stdout = '' }) {
  return `${stderr}${stdout}`.trim() || message;
}

function digest(parts) {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 16);
}

function wholeNumber(option, text) {
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : fail(`${option}: ${text} is not a whole number from 1`);
}

function fail(problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

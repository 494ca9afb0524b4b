// Prints what session policies buy on the Claude Code traces, in virtual time. Usage: node scripts/session-table.mjs --help
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  acceptedPolicies,
  buildDigest,
  CellCache,
  digest,
  inLanes,
  policyNames,
  replayReport,
  wholeNumber,
  wordsOf,
} from './cell-runner.mjs';
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
const DEFAULT_SELECTION = 'dynamo-default-cost-fn';
const program = join(root, 'dist/cli/main.js');
const policyFolder = join(root, 'bench/sessions');

const { positionals, values } = argumentsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
if (!existsSync(program)) fail('nothing is built; run node scripts/build.mjs first');
const folder = positionals[0] ?? join(root, '..', 'shared', 'data');
const traces = new Map(Object.keys(TRACES).map((trace) => [trace, traceFile(trace)]));
const cache = new CellCache(values.cache, { build: buildDigest(root), anyBuild: values['any-build'] });
const policies = await knownPolicies();
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
      seeds: values.seeds.split(',').map((seed) => numberOf('--seeds', seed)),
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

/** The policy files that are wanted and that this build takes, in a fixed order. */
async function knownPolicies() {
  const all = policyNames(policyFolder, [
    'default',
    'host-blind',
    'hard-affinity',
    'soft-affinity',
    'release',
  ]);
  const names = values.policies?.split(',') ?? all;
  const unknown = names.find((name) => !all.includes(name));
  if (unknown !== undefined) fail(`--policies: ${unknown} is none of ${all.join(', ')}`);
  return acceptedPolicies({ root, program, names, fileOf: policyFile });
}

/** The file itself, or a copy with another selection. */
function policyFile(name) {
  const original = join(policyFolder, `${name}.yaml`);
  if (values.selection === DEFAULT_SELECTION) return original;
  const text = readFileSync(original, 'utf8').replace(DEFAULT_SELECTION, values.selection);
  const copies = join(root, '.bench/sessions');
  mkdirSync(copies, { recursive: true });
  const file = join(copies, `${name}.${digest([text])}.yaml`);
  writeFileSync(file, text);
  return file;
}

function optionsOf({ host, memory, seed, trace }) {
  const copies = TRACES[trace] * numberOf('--copies', values.copies);
  return [
    ...['--workers', values.workers, '--copies', String(copies), '--max-context', values['max-context']],
    ...['--block-size', values['block-size'], '--memory', memory, '--seed', String(seed)],
    ...(host ? ['--host-memory', values['host-memory']] : []),
    ...(values.limit === undefined ? [] : ['--limit', values.limit]),
    '--fast-events',
  ];
}

function keyOf(cell) {
  return [basename(traces.get(cell.trace)), optionsOf(cell), policies.get(cell.policy).digest];
}

async function finishAll() {
  const done = new Map(cells.map((cell) => [cell, cache.get(keyOf(cell))]));
  const waiting = cells.filter((cell) => done.get(cell) === undefined);
  let left = waiting.length;
  await inLanes(waiting, numberOf('--jobs', values.jobs), async (cell) => {
    done.set(cell, await replayed(cell));
    left -= 1;
    process.stderr.write(`${cells.length - left}/${cells.length}\n`);
  });
  return cells.map((cell) => ({ cell, run: done.get(cell) }));
}

async function replayed(cell) {
  const args = [traces.get(cell.trace), ...optionsOf(cell), '--compare', policies.get(cell.policy).file];
  const { runs } = await replayReport({ args, program, root }).catch((thrown) =>
    fail(`${JSON.stringify(cell)}: ${wordsOf(thrown)}`),
  );
  const [{ completed, policy_faults, requests, sessions }] = runs;
  const figures = { completed, requests, policy_faults, sessions };
  cache.add(keyOf(cell), cell, figures);
  return figures;
}

function numberOf(option, text) {
  try {
    return wholeNumber(option, text);
  } catch (thrown) {
    return fail(thrown.message);
  }
}

function fail(problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

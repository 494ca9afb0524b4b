// Compares the built-in policies on public traces, in virtual time, and writes docs/findings.md. Usage: node scripts/lab.mjs --help
import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createGunzip } from 'node:zlib';
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
  conditionOf,
  isSelected,
  keptFigures,
  LAB_TRACES,
  labCells,
  labStudies,
  replayOptions,
  TUNING_POLICIES,
  tuningStudy,
  USUAL_NIC,
} from './lab-grid.mjs';
import { findings, labProblems } from './lab-report.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const HELP = `Usage: npm run lab -- [FOLDER] [OPTIONS]

Replays the public traces of FOLDER (default: ../shared/data beside the repository) under the built-in policies, over numbers of workers,
memories, loads and seeds, and writes docs/findings.md: ratios to dynamo-default-cost-fn, worst cells, capacity, sessions, and which aims
are met. Replays that are done are kept in a file with the build and the policy they are of, so that the command can be stopped (Ctrl-C)
and goes on where it was. The page is made of all that are kept, and says how many those are.

Studies: main (requests over workers, memory and load), sessions (closed loop), held-out (the same with seeds on which nothing was chosen),
bound (the same, nothing evicted and copies in no time), capacity (loads in steps of 0.1), delay (events 200 ms late), routers (two that
share nothing), timing (policies that are told times 3 times too long or short), fetch (copies between workers).

  --only WORDS       a part, for example study=main,trace=synthetic,workers=8|16,ratio=2,load=0.5|1.6,policy=default,seed=1;
                     others are timing, delay, routers, nic. It limits what is replayed, not what is reported
  --seeds LIST       default 1,2,3,4,5; the first is for the whole grid, the others for a part of it
  --tune             instead of that, settings of the built-ins on the first half of the conversation, which no other study uses
  --full             everything with every seed, policy and timing: many hours of processor time
  --jobs N           processes at a time (default: one per core)
  --requests N       only so many requests of each trace, or lines of sessions: a quick look, not to be quoted
  --cache FILE       default .bench/lab.jsonl
  --any-build        take what other builds measured too, and do not measure it again
  --remeasure WORDS  with --any-build: but not for these replays, as policy=expected-time
  --output FILE      default docs/findings.md when every replay but those of --tune is done, until then .bench/findings.md; - is stdout
  --report           replay nothing, only write the page
  --list             only say what there is to replay, and how much of it is done
  --help

Examples:
  npm run lab                                                   # the default grid: hours of one core, a third of it with the
                                                                # baselines that are kept (docs/findings-tuning.md)
  npm run lab -- --list
  npm run lab -- --only study=main,seed=1,workers=8 --jobs 1
  npm run lab -- --requests 500 --cache look.jsonl --output -   # a first look within minutes
  npm run lab -- --any-build --report                           # the page anew from what is there
`;
const program = join(root, 'dist/cli/main.js');
const policyFolder = join(root, 'bench/lab');
/** Router modes that stand for a policy without parameters. */
const MODES = ['round-robin', 'least-loaded'];
const ORDER = ['default', 'agentic', 'tuned-cost', 'expected-time'];
/** Policies of one process: they share the reading of the trace. */
const MOST_TOGETHER = 4;

const { positionals, values } = argumentsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
if (!existsSync(program)) fail('nothing is built; run node scripts/build.mjs first');
const folder = positionals[0] ?? join(root, '..', 'shared', 'data');
const settings = settingsOf();
const files = new Map();
const forLinks = new Map();
const build = buildDigest(root);
const cache = new CellCache(values.cache, { build, anyBuild: values['any-build'] });
const policies = knownPolicies();
const tuning = labCells([tuningStudy(settings.seeds)], (policy) => policies.has(policy));
const grid = labCells(
  labStudies({ full: values.full, seeds: settings.seeds }),
  (policy) => MODES.includes(policy) || policies.has(policy),
);
const cells = [...grid, ...tuning];
for (const trace of new Set(cells.map((cell) => cell.trace))) files.set(trace, await traceFile(trace));
const selected = chosenCells();
const waiting = selected.filter((cell) => runOf(cell) === undefined);
if (values.list) {
  list();
  process.exit(0);
}
const interrupt = new AbortController();
const failures = [];
if (!values.report) await replayAll();
report();

function argumentsOf(args) {
  const text = { type: 'string' };
  const flag = { type: 'boolean', default: false };
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        only: text,
        seeds: { ...text, default: '1,2,3,4,5' },
        full: flag,
        tune: flag,
        jobs: { ...text, default: String(availableParallelism()) },
        requests: text,
        cache: { ...text, default: join(root, '.bench/lab.jsonl') },
        'any-build': flag,
        remeasure: text,
        output: text,
        report: flag,
        list: flag,
        help: flag,
      },
    });
  } catch (thrown) {
    return fail(`${thrown.message}\n\n${HELP}`);
  }
}

function settingsOf() {
  try {
    return {
      seeds: values.seeds.split(',').map((seed) => wholeNumber('--seeds', seed)),
      jobs: wholeNumber('--jobs', values.jobs),
      requests: values.requests === undefined ? undefined : wholeNumber('--requests', values.requests),
    };
  } catch (thrown) {
    return fail(thrown.message);
  }
}

function chosenCells() {
  return (values.tune ? tuning : grid).filter((cell) => chosen(cell, values.only));
}

function chosen(cell, words) {
  try {
    return isSelected(cell, words);
  } catch (thrown) {
    return fail(thrown.message);
  }
}

/** Every policy file, whether this build takes it or not. */
function knownPolicies() {
  const known = new Map();
  for (const name of policyNames(policyFolder, ORDER)) {
    const text = readFileSync(fileOf(name), 'utf8');
    known.set(name, { file: fileOf(name), digest: digest([text]) });
  }
  for (const { name, yaml } of TUNING_POLICIES) known.set(name, written(name, yaml));
  return known;
}

/** A policy file that is made here. */
function written(name, yaml) {
  const made = join(root, '.bench/lab-policies');
  mkdirSync(made, { recursive: true });
  const file = join(made, `${name.replaceAll(' ', '_')}.yaml`);
  writeFileSync(file, yaml);
  return { file, digest: digest([yaml]) };
}

/** What a cell runs with: a policy that is told how fast links are is told those of the cell. Undefined = a router mode. */
function policyOf({ nic, policy }) {
  const known = policies.get(policy);
  const name = `${policy} ${nic}`;
  if (known === undefined || nic === USUAL_NIC) return known;
  if (!forLinks.has(name)) {
    const text = readFileSync(known.file, 'utf8');
    const told = text.replace(/(link|peer)_gbps: \d+/g, `$1_gbps: ${nic}`);
    forLinks.set(name, told === text ? known : written(name, told));
  }
  return forLinks.get(name);
}

function fileOf(name) {
  return join(policyFolder, `${name}.yaml`);
}

/** What is to be replayed with policies that this build takes; why others are left out goes to stderr. */
async function replayable() {
  const names = [...new Set(waiting.map((cell) => cell.policy))].filter((name) => existsSync(fileOf(name)));
  const accepted = await acceptedPolicies({ root, program, names, fileOf });
  return waiting.filter(({ policy }) => !names.includes(policy) || accepted.has(policy));
}

/** A trace's file and its lines. */
async function traceFile(trace) {
  const { file: start } = LAB_TRACES[trace];
  const name = existsSync(folder)
    ? readdirSync(folder).find((file) => file.startsWith(start) && /\.jsonl(?:\.gz)?$/.test(file))
    : undefined;
  if (name === undefined) return fail(`${folder} holds no trace ${start}*.jsonl.gz`);
  const file = join(folder, name);
  let rows = 0;
  const bytes = createReadStream(file);
  for await (const chunk of name.endsWith('.gz') ? bytes.pipe(createGunzip()) : bytes) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) rows += 1;
  }
  return { file, rows };
}

function optionsOf(cell) {
  return replayOptions(cell, files.get(cell.trace).rows, settings.requests);
}

function keyOf(cell) {
  return [basename(files.get(cell.trace).file), optionsOf(cell), policyOf(cell)?.digest ?? cell.policy];
}

/** What is known of a cell; undefined = nothing. */
function runOf(cell) {
  const key = keyOf(cell);
  const isOld = cache.buildOf(key) !== build;
  return isOld && values.remeasure !== undefined && chosen(cell, values.remeasure)
    ? undefined
    : cache.get(key);
}

/** Cells of one condition that are to be replayed in one process. */
function batches(todo) {
  const byCondition = new Map();
  // Mixed within a study, so that a run that is stopped has seen some of everything.
  const studies = [...new Set(todo.map((cell) => cell.study))];
  const placeOf = new Map(todo.map((cell) => [cell, digest([conditionOf(cell)])]));
  const mixed = todo.toSorted(
    (a, b) =>
      studies.indexOf(a.study) - studies.indexOf(b.study) || placeOf.get(a).localeCompare(placeOf.get(b)),
  );
  for (const cell of mixed) {
    const key = conditionOf(cell);
    byCondition.set(key, [...(byCondition.get(key) ?? []), cell]);
  }
  return [...byCondition.values()].flatMap((all) =>
    Array.from({ length: Math.ceil(all.length / MOST_TOGETHER) }, (_, part) =>
      all.slice(part * MOST_TOGETHER, (part + 1) * MOST_TOGETHER),
    ),
  );
}

async function replayAll() {
  const todo = await replayable();
  const stop = () => {
    process.stderr.write('\nstopping; what is done is kept\n');
    interrupt.abort();
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  const startedAt = Date.now();
  let done = 0;
  const expected = todo.reduce((sum, cell) => sum + weightOf(cell), 0);
  let spent = 0;
  await inLanes(
    batches(todo),
    settings.jobs,
    async (batch) => {
      await replayBatch(batch);
      if (interrupt.signal.aborted) return;
      done += batch.length;
      spent += batch.reduce((sum, cell) => sum + weightOf(cell), 0);
      const left = ((Date.now() - startedAt) * (expected - spent)) / spent / 60_000;
      const { load, policy: _, ...at } = batch[0];
      process.stderr.write(
        `${done}/${todo.length} replays, about ${left < 1 ? 'a minute' : `${Math.ceil(left)} min`} left; last: ${at.study} ${at.trace}, ${at.workers} workers, ratio ${at.ratio}, load ${load ?? 'closed loop'}, seed ${at.seed}\n`,
      );
    },
    interrupt.signal,
  );
  process.off('SIGINT', stop);
  process.off('SIGTERM', stop);
}

/** How long a replay takes next to others, roughly. */
function weightOf({ load, trace }) {
  const requests = Math.min(files.get(trace).rows, settings.requests ?? Number.POSITIVE_INFINITY);
  return load === null ? 60 * requests : requests * (1 + load);
}

async function replayBatch(batch) {
  const [first] = batch;
  const names = batch.map((cell) => policyOf(cell)?.file ?? cell.policy);
  const args = [files.get(first.trace).file, ...optionsOf(first), '--compare', names.join(',')];
  try {
    const { runs } = await replayReport({ args, program, root, signal: interrupt.signal });
    for (const [index, cell] of batch.entries()) {
      cache.add(keyOf(cell), cell, keptFigures(runs[index]));
    }
  } catch (thrown) {
    if (interrupt.signal.aborted) return;
    const words = wordsOf(thrown);
    failures.push(words);
    process.stderr.write(`${JSON.stringify(first)}: ${words}\n`);
  }
}

function list() {
  for (const study of new Set(selected.map((cell) => cell.study))) {
    const all = selected.filter((cell) => cell.study === study);
    const left = waiting.filter((cell) => cell.study === study);
    process.stdout.write(`${study}: ${all.length} replays, ${all.length - left.length} done\n`);
  }
}

function report() {
  const finished = cells.flatMap((cell) => {
    const run = runOf(cell);
    return run === undefined ? [] : [{ cell, run }];
  });
  const builds = new Set(finished.map(({ cell }) => cache.buildOf(keyOf(cell))));
  const page = findings({
    finished,
    planned: grid,
    builds: builds.size,
    requests: settings.requests ?? null,
  });
  // The page that is published is not overwritten by a part of it.
  const isWhole = settings.requests === undefined && grid.every((cell) => runOf(cell) !== undefined);
  const output = values.output ?? join(root, isWhole ? 'docs/findings.md' : '.bench/findings.md');
  if (output === '-') process.stdout.write(page);
  else {
    mkdirSync(dirname(output), { recursive: true });
    writeFileSync(output, page);
    process.stderr.write(`${finished.length} of ${cells.length} replays are in ${output}\n`);
  }
  const problems = labProblems(finished);
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (interrupt.signal.aborted) process.exitCode = 130;
  else if (problems.length > 0 || failures.length > 0) process.exitCode = 1;
}

function fail(problem) {
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

// Breaks each rule of the plugin contract in a copy of the repository and demands that the test named for it fails.
// Usage: node scripts/planted-faults.mjs [--only ID,ID…] [--json]; an ID that ends in `*` stands for all that begin so.
// --json writes a report in the form of vitest's to stdout, one test per rule. Exit 1: a rule is not held; 2: a fault or test is not there.
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { contractProblems, readContract } from './contract-rules.mjs';
import { root } from './docs-tables.mjs';
import { FaultLane } from './fault-lane.mjs';

/** Each copy keeps a processor busy for two thirds of the time. */
const LANES = 1 + Math.max(1, Math.min(2, availableParallelism()));
/** Rules that are tried in one process at most. */
const MOST_OF_GROUP = 12;
/** How vitest says that a test was given up. */
const TIMED_OUT = /timed out in \d+ms/;

const { values } = parseArgs({ options: { only: { type: 'string' }, json: { type: 'boolean' } } });
const say = (text) => process.stderr.write(`${text}\n`);

const all = (await readContract()).flatMap(({ rules }) => rules);
const rules = wanted(all, values.only?.split(',') ?? null);
const problems = contractProblems(root, rules);
if (rules.length === 0) problems.push('there is no rule to try');
for (const problem of problems) say(problem);
if (problems.length > 0) process.exit(2);

const startedAt = performance.now();
const lanes = [];
const end = () => {
  for (const lane of lanes.splice(0)) lane.close();
};
process.on('exit', end);
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
])
  process.once(signal, () => process.exit(code));

const verdicts = new Map();
for (let count = Math.min(LANES, rules.length); count > 0; count -= 1) lanes.push(new FaultLane(root));
say(`trying ${rules.length} rules`);
const groups = groupsOf(rules);
const built = groups.some(({ by }) => by === 'process') ? build() : Promise.resolve();
await Promise.all(lanes.map(work));
end();

const failed = rules.filter(({ id }) => verdicts.get(id) !== null);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
say(`${rules.length - failed.length} of ${rules.length} rules are held by their tests (${seconds} s)`);
for (const { id, test } of failed) say(`  ${id} (${test.file}: ${test.name}): ${verdicts.get(id)}`);
if (values.json) {
  const assertionResults = rules.map(({ id, rule }) => ({
    fullName: `contract rule ${id}: ${rule}`,
    status: verdicts.get(id) === null ? 'passed' : 'failed',
    failureMessages: verdicts.get(id) === null ? [] : [verdicts.get(id)],
  }));
  const counts = { numPassedTests: rules.length - failed.length, numFailedTests: failed.length };
  process.stdout.write(`${JSON.stringify({ ...counts, testResults: [{ assertionResults }] })}\n`);
}
process.exitCode = failed.length === 0 ? 0 : 1;

/** Rules whose tests stand in one file, a few at a time; those that take long first, so that no copy waits for another at the end. */
function groupsOf(rules) {
  const byFile = new Map();
  for (const rule of rules) {
    const { file, by = 'run' } = rule.test;
    const key = `${by} ${file}`;
    byFile.set(key, [...(byFile.get(key) ?? []), rule]);
  }
  const order = ['run', 'compiler', 'process'];
  const found = [...byFile.values()].flatMap((ofFile) => {
    const by = ofFile[0].test.by ?? 'run';
    const most = by === 'compiler' ? ofFile.length : MOST_OF_GROUP;
    const parts = Math.ceil(ofFile.length / most);
    return Array.from({ length: parts }, (_, part) => ({
      by,
      rules: ofFile.slice(part * most, (part + 1) * most),
    }));
  });
  return found.sort((a, b) => order.indexOf(a.by) - order.indexOf(b.by) || a.rules.length - b.rules.length);
}

/** Builds the program once; the other copies take it over. */
async function build() {
  const [first, ...others] = lanes;
  const refused = await first.build();
  if (refused !== null) throw new Error(`the program cannot be built: ${refused}`);
  for (const lane of others) lane.takeBuild(first);
}

/** Tries one group of rules after the other in one copy, until none is left. */
async function work(lane) {
  if (lane === lanes[0]) await built;
  for (let group = groups.pop(); group !== undefined; group = groups.pop()) {
    if (group.by === 'process') await built;
    await tryGroup(lane, group.rules);
  }
}

/**
 * Plants one fault after the other and runs its test, in one process; then all tests without a fault, in the same process: so what fails
 * fails because of its fault, and not because of what a test before it left behind.
 */
async function tryGroup(lane, group) {
  let tried = [];
  let fresh = true;
  for (const rule of group) {
    const plantedAt = performance.now();
    let result = await tryFault(lane, rule, fresh);
    // Whoever says otherwise must say so undisturbed.
    if (result.status !== 'failed') result = await tryFault(lane, rule, true);
    tried.push({ rule, result, tookMs: performance.now() - plantedAt });
    // What waits for ever goes on waiting after its test was given up: it gets no company.
    fresh = TIMED_OUT.test(result.reason);
    if (!fresh) continue;
    await judge(lane, tried);
    tried = [];
  }
  if (tried.length > 0) await judge(lane, tried);
}

async function tryFault(lane, { fault, test }, fresh) {
  const restore = lane.plant(fault);
  const results = await lane.run([test], fresh);
  restore();
  return results.values().next().value;
}

/** Judges rules that were tried in a process, by their tests without a fault in that process. */
async function judge(lane, tried) {
  const sound = await lane.run(tried.map(({ rule }) => rule.test));
  for (const { rule, result, tookMs } of tried) {
    let last = result;
    let without = sound.get(`${rule.test.file}: ${rule.test.name}`);
    if (without.status !== 'passed') {
      [without] = (await lane.run([rule.test], true)).values();
      last = await tryFault(lane, rule, true);
    }
    verdicts.set(rule.id, verdictOf(last, without));
    const done = `${verdicts.size}/${rules.length}`.padStart(9);
    const verdict = verdicts.get(rule.id) === null ? 'held    ' : 'NOT HELD';
    say(`${done} ${verdict} ${rule.id} (${(tookMs / 1000).toFixed(1)} s)`);
    if (verdicts.get(rule.id) !== null) say(verdicts.get(rule.id));
  }
}

/** Null = the test passes without the fault and fails with it. */
function verdictOf(planted, without) {
  if (without.status === 'failed') return `its test fails without the fault too: ${without.reason}`;
  if (without.status === 'missing') return `its test did not run: ${without.reason}`;
  if (planted.status === 'passed') return 'its test passes although the fault is planted';
  if (planted.status === 'missing')
    return `its test did not run with the fault, so it says nothing: ${planted.reason}`;
  return null;
}

function wanted(known, ids) {
  if (ids === null) return known;
  const matching = (id) =>
    known.filter((rule) => (id.endsWith('*') ? rule.id.startsWith(id.slice(0, -1)) : rule.id === id));
  const unknown = ids.filter((id) => matching(id).length === 0);
  if (unknown.length > 0) {
    say(`no rule is named ${unknown.join(', ')}; docs/plugin-contract.md lists them`);
    process.exit(2);
  }
  const chosen = new Set(ids.flatMap(matching));
  return known.filter((rule) => chosen.has(rule));
}

// Breaks each rule of the plugin contract in a copy of the repository and demands that the test named for it fails.
// Usage: node scripts/planted-faults.mjs --help
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { contractProblems, readContract } from './contract-rules.mjs';
import { root } from './docs-tables.mjs';
import { FaultLane } from './fault-lane.mjs';
import { passedTests } from './passed-tests.mjs';

/** Each copy keeps a processor busy for two thirds of the time. */
const LANES = 1 + Math.max(1, Math.min(2, availableParallelism()));

const HELP = `Usage: node scripts/planted-faults.mjs [OPTIONS]

Breaks each rule of docs/plugin-contract.md in a copy of the repository and demands that the test named for it fails. All rules take about
half an hour of two cores.

  --only IDS       these rules, with commas; an ID that ends in * stands for all that begin so
  --share K/N      every Nth rule, from the Kth on: the shares 1/3, 2/3 and 3/3 are all of them
  --passed REPORT  a JSON report of vitest about the same sources: tests that passed there are not run without a fault first
  --json           a report in the form of vitest's on stdout, one test per rule
  --help

Exit 1: a rule is not held; 2: a fault or a test is not there, or the options are wrong.

Examples:
  node scripts/planted-faults.mjs --only 'expected-time*'
  node scripts/planted-faults.mjs --share 2/3
`;
const { values } = optionsOf(process.argv.slice(2));
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
const say = (text) => process.stderr.write(`${text}\n`);

const all = (await readContract()).flatMap(({ rules }) => rules);
const rules = shareOf(wanted(all, values.only?.split(',') ?? null), values.share ?? '1/1');
const problems = contractProblems(root, rules);
if (rules.length === 0) problems.push('there is no rule to try');
for (const problem of problems) say(problem);
if (problems.length > 0) process.exit(2);
const passedBefore = values.passed === undefined ? new Set() : reported(values.passed);

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
lanes.push(new FaultLane(root));
// What stands there is compiled anew only as far as it is of other sources.
lanes[0].takeBuild(root);
const known = rules.filter(isKnown);
say(
  `running the tests of ${rules.length - known.length} rules without a fault${known.length > 0 ? `; those of ${known.length} passed before` : ''}`,
);
const sound = await baseline(lanes[0]);
say(`${sound.size} rules pass their tests (${((performance.now() - startedAt) / 1000).toFixed(0)} s)`);
const queue = rules
  .filter((rule) => sound.has(rule))
  // The slow ones first, so that no copy waits for another at the end.
  .sort((a, b) => Number(b.test.by === 'process') - Number(a.test.by === 'process'));
while (lanes.length < Math.min(LANES, queue.length)) {
  const lane = new FaultLane(root);
  lane.takeBuild(lanes[0].folder);
  lanes.push(lane);
}
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

/** Tests that a report names as passed. */
function reported(path) {
  try {
    return passedTests(readFileSync(path, 'utf8'), root);
  } catch (thrown) {
    say(`--passed ${path} is no JSON report of vitest: ${thrown.message}`);
    return process.exit(2);
  }
}

/** What only the compiler says is in no report of tests. */
function isKnown({ test }) {
  return test.by !== 'compiler' && passedBefore.has(`${test.file}: ${test.name.split(' > ').join(' ')}`);
}

/** Rules whose test passes without the fault. */
async function baseline(lane) {
  const unknown = rules.filter((rule) => !isKnown(rule));
  const results = unknown.length === 0 ? new Map() : await lane.run(unknown.map(({ test }) => test));
  const passing = new Set(rules.filter(isKnown));
  for (const rule of unknown) {
    const { status, reason } = results.get(`${rule.test.file}: ${rule.test.name}`);
    if (status === 'passed') passing.add(rule);
    else if (status === 'failed') verdicts.set(rule.id, `its test fails without the fault too: ${reason}`);
    else verdicts.set(rule.id, `its test did not run: ${reason}`);
  }
  return passing;
}

/** Tries one rule after the other in one copy, until none is left. */
async function work(lane) {
  for (let rule = queue.shift(); rule !== undefined; rule = queue.shift()) {
    const plantedAt = performance.now();
    const restore = lane.plant(rule.fault);
    const results = await lane.run([rule.test]);
    restore();
    const [{ status, reason }] = results.values();
    let verdict = null;
    if (status === 'passed') verdict = 'its test passes although the fault is planted';
    else if (status === 'missing')
      verdict = `its test did not run with the fault, so it says nothing: ${reason}`;
    verdicts.set(rule.id, verdict);
    const done = `${verdicts.size}/${rules.length}`.padStart(9);
    const took = ((performance.now() - plantedAt) / 1000).toFixed(1);
    say(`${done} ${verdict === null ? 'held    ' : 'NOT HELD'} ${rule.id} (${took} s)`);
  }
}

function shareOf(known, share) {
  const [, which, of] = /^([1-9]\d{0,3})\/([1-9]\d{0,3})$/.exec(share) ?? [];
  if (which === undefined || Number(which) > Number(of)) {
    say(`--share must be K/N with K from 1 to N, such as 2/3, not "${share}"`);
    process.exit(2);
  }
  return known.filter((_, at) => at % Number(of) === Number(which) - 1);
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

function optionsOf(args) {
  try {
    return parseArgs({
      args,
      options: {
        only: { type: 'string' },
        share: { type: 'string' },
        passed: { type: 'string' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (thrown) {
    process.stderr.write(`${thrown.message}\n`);
    return process.exit(2);
  }
}

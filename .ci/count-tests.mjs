// Counts the tests of vitest's JSON report: prints `passed failed` and names those that failed on stderr; exits 1 when there is no such
// report, when no test ran, or when tests were skipped that need not be. Usage: node .ci/count-tests.mjs REPORT [--data-here]
// [--python-here]; with both nothing may be skipped.
import { readFileSync } from 'node:fs';

/** What the title of a suite says that needs the traces and does not have them. */
const NO_DATA = '(skipped: ../shared/data';
/** What the title of a suite says that needs Python on a machine without any. */
const NO_PYTHON = '(skipped: there is no python3';
const SHOWN = 20;

const [path, ...here] = process.argv.slice(2);
const fail = (text) => {
  process.stderr.write(`${text}\n`);
  process.exitCode = 1;
};

const firstLine = (messages = []) => `${messages[0] ?? 'without a message'}`.split('\n', 1)[0];

let report = null;
try {
  report = JSON.parse(readFileSync(path, 'utf8'));
  if (report === null) throw new Error('it is null');
} catch (error) {
  fail(`the test report ${path} cannot be read: ${error.message}`);
}
if (report !== null) {
  const { numPassedTests: passed, numFailedTests: failed, testResults } = report;
  if (!Number.isInteger(passed) || !Number.isInteger(failed) || !Array.isArray(testResults)) {
    fail(`${path} is not a test report of vitest`);
  } else {
    process.stdout.write(`${passed} ${failed}\n`);
    if (passed + failed === 0) fail('no test ran');
    for (const { assertionResults } of testResults) {
      for (const { failureMessages, fullName, status } of assertionResults) {
        if (status === 'failed') process.stderr.write(`failed: ${fullName}: ${firstLine(failureMessages)}\n`);
      }
    }
    const skipped = testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status !== 'passed' && status !== 'failed')
      .map(({ fullName }) => fullName);
    const excused = (name) =>
      (name.includes(NO_DATA) && !here.includes('--data-here')) ||
      (name.includes(NO_PYTHON) && !here.includes('--python-here'));
    const needless = skipped.filter((name) => !excused(name));
    const tell = (mark, why) => {
      const count = skipped.filter((name) => name.includes(mark) && excused(name)).length;
      if (count > 0) process.stderr.write(`${count} tests were skipped: ${why}\n`);
    };
    tell(NO_DATA, '../shared/data is not there');
    tell(NO_PYTHON, 'there is no python3');
    if (needless.length > 0) {
      fail(`${needless.length} tests were skipped although everything they need is here:`);
      for (const name of needless.slice(0, SHOWN)) fail(`  ${name}`);
    }
  }
}

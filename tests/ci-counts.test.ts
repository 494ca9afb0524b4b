// What a CI run makes of a test report: the counts of its closing line, and the skips it lets pass.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../.ci/count-tests.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-counts-'));
const path = join(folder, 'tests.json');
afterAll(() => rmSync(folder, { recursive: true }));

function count(report: string, ...args: readonly string[]) {
  writeFileSync(path, report);
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, path, ...args], {
    encoding: 'utf8',
  });
  return { status, out: stdout, err: stderr };
}

function report(numPassedTests: number, numFailedTests: number, skipped: readonly string[] = []): string {
  const assertionResults = skipped.map((fullName) => ({ fullName, status: 'skipped' }));
  return JSON.stringify({ numPassedTests, numFailedTests, testResults: [{ assertionResults }] });
}

const WHOLE =
  'the whole traces (skipped: ../shared/data, beside the repository, is not there) give the figures';

describe('the counts of a test report', () => {
  it('are those of the report, failures included', () => {
    expect(count(report(12, 3))).toEqual({ status: 0, out: '12 3\n', err: '' });
  });

  it('name the tests that failed, with the first line of why', () => {
    const assertionResults = [
      { fullName: 'a router is fast', status: 'failed', failureMessages: ['AssertionError: 2 > 1\n  at x'] },
      { fullName: 'a router is there', status: 'passed', failureMessages: [] },
    ];
    const one = JSON.stringify({
      numPassedTests: 1,
      numFailedTests: 1,
      testResults: [{ assertionResults }],
    });
    expect(count(one)).toEqual({
      status: 0,
      out: '1 1\n',
      err: 'failed: a router is fast: AssertionError: 2 > 1\n',
    });
  });

  it('let tests without their traces be skipped, in words, and nothing else', () => {
    expect(count(report(12, 0, [WHOLE]))).toEqual({
      status: 0,
      out: '12 0\n',
      err: '1 tests were skipped: ../shared/data is not there\n',
    });
    expect(count(report(12, 0, [WHOLE]), '--data-here')).toEqual({
      status: 1,
      out: '12 0\n',
      err: `1 tests were skipped although everything they need is here:\n  ${WHOLE}\n`,
    });
    expect(count(report(12, 0, ['a router is fast']))).toEqual({
      status: 1,
      out: '12 0\n',
      err: '1 tests were skipped although everything they need is here:\n  a router is fast\n',
    });
  });

  it('let tests of Python be skipped on a machine without it', () => {
    const name =
      'batches of a Python process (skipped: there is no python3; install it) are the recorded ones';
    expect(count(report(12, 0, [name, WHOLE]))).toEqual({
      status: 0,
      out: '12 0\n',
      err: '1 tests were skipped: ../shared/data is not there\n1 tests were skipped: there is no python3\n',
    });
    expect(count(report(12, 0, [name]), '--data-here', '--python-here').status).toBe(1);
  });

  it('are refused where there is no report, or no test in it', () => {
    expect(count('{"numPassed').status).toBe(1);
    expect(count('{"numPassed').err).toContain(`the test report ${path} cannot be read: `);
    expect(count('null').err).toContain(`the test report ${path} cannot be read: `);
    expect(count('{}')).toEqual({ status: 1, out: '', err: `${path} is not a test report of vitest\n` });
    expect(count(report(0, 0))).toEqual({ status: 1, out: '0 0\n', err: 'no test ran\n' });
    const missing = spawnSync(process.execPath, [SCRIPT, join(folder, 'none.json')], { encoding: 'utf8' });
    expect([missing.status, missing.stdout]).toEqual([1, '']);
    expect(missing.stderr).toContain('none.json cannot be read: ENOENT');
  });
});

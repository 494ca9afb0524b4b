// Which tests a JSON report of vitest names as passed. Pure.
import { relative, sep } from 'node:path';

/** @type {typeof import('./passed-tests.d.mts').passedTests} */
export function passedTests(report, root) {
  const { testResults } = JSON.parse(report);
  const passed = new Set();
  const others = new Set();
  for (const { assertionResults, name } of testResults) {
    const file = relative(root, name).split(sep).join('/');
    for (const { fullName, status } of assertionResults) {
      (status === 'passed' ? passed : others).add(`${file}: ${fullName}`);
    }
  }
  // Of several with one name the one that did not pass counts.
  return new Set([...passed].filter((test) => !others.has(test)));
}

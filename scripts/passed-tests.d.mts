/**
 * Tests that a report of vitest's JSON reporter names as passed, as `file: full name` with files relative to `root`. Of several with one
 * name all must have passed.
 * @throws SyntaxError or TypeError when it is no such report
 */
export function passedTests(report: string, root: string): ReadonlySet<string>;

// The reporter of `pointsman plugins test --json`: one JSON object when all tests have ended.
import type { TestEvent } from 'node:test/reporters';

/** One test or group of tests. */
interface Row {
  readonly name: string;
  /** 0 = at the top of a file. */
  readonly depth: number;
  readonly passed: boolean;
  readonly skipped: boolean;
  /** What it threw; null when it passed. */
  readonly error: string | null;
}

/** Called by node:test with everything that happens. */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const tests: Row[] = [];
  for await (const { data, type } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const passed = type === 'test:pass';
    tests.push({
      name: data.name,
      depth: data.nesting,
      passed,
      skipped: data.skip !== undefined && data.skip !== false,
      error: passed ? null : reason(data.details.error),
    });
  }
  yield `${JSON.stringify({ ok: tests.every((row) => row.passed), tests }, null, 2)}\n`;
}

/** The author's own error rather than the harness's around it. */
function reason(error: Error): string {
  return error.cause instanceof Error ? error.cause.message : String(error.cause ?? error.message);
}

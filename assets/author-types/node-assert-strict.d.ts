// The part of node:assert/strict that tests of plugins use, for folders without @types/node.

/** What an error must be: a pattern of its text, its class, a check, or members it must have. */
export type ErrorMatch =
  | RegExp
  | (new (
      ...parts: never[]
    ) => Error)
  | ((thrown: unknown) => boolean)
  | object;

/** The assertions; `assert(value)` is `assert.ok(value)`. */
export interface Assert {
  (value: unknown, message?: string | Error): asserts value;
  ok(value: unknown, message?: string | Error): asserts value;
  equal(actual: unknown, expected: unknown, message?: string | Error): void;
  notEqual(actual: unknown, expected: unknown, message?: string | Error): void;
  deepEqual(actual: unknown, expected: unknown, message?: string | Error): void;
  notDeepEqual(actual: unknown, expected: unknown, message?: string | Error): void;
  match(value: string, pattern: RegExp, message?: string | Error): void;
  doesNotMatch(value: string, pattern: RegExp, message?: string | Error): void;
  throws(run: () => unknown, expected?: ErrorMatch, message?: string | Error): void;
  doesNotThrow(run: () => unknown, message?: string | Error): void;
  rejects(
    promise: Promise<unknown> | (() => Promise<unknown>),
    expected?: ErrorMatch,
    message?: string | Error,
  ): Promise<void>;
  fail(message?: string | Error): never;
}

declare const assert: Assert;
export default assert;

// The part of node:test that tests of plugins use, for folders without @types/node.

/** What a test is given. */
export interface TestContext {
  readonly name: string;
  readonly signal: AbortSignal;
  diagnostic(message: string): void;
  skip(message?: string): void;
  test(name: string, run: (t: TestContext) => void | Promise<void>): Promise<void>;
}

/** Options of a test. */
export interface TestOptions {
  readonly only?: boolean;
  readonly skip?: boolean | string;
  readonly todo?: boolean | string;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** Declares a test. */
export interface Test {
  (name: string, run: (t: TestContext) => void | Promise<void>): Promise<void>;
  (name: string, options: TestOptions, run: (t: TestContext) => void | Promise<void>): Promise<void>;
  readonly only: Test;
  readonly skip: Test;
  readonly todo: Test;
}

/** Declares a group of tests. */
export interface Suite {
  (name: string, run: () => void): Promise<void>;
  readonly only: Suite;
  readonly skip: Suite;
  readonly todo: Suite;
}

export declare const test: Test;
export declare const it: Test;
export declare const describe: Suite;
export declare const suite: Suite;
export declare function before(run: () => void | Promise<void>): void;
export declare function after(run: () => void | Promise<void>): void;
export declare function beforeEach(run: () => void | Promise<void>): void;
export declare function afterEach(run: () => void | Promise<void>): void;
export default test;

// What a benchmark file hands to the runner. Each file in bench/ that measures something default-exports a `Benchmark`.

/** One measured figure. */
export interface BenchRow {
  readonly case: string;
  /** For example `ns/block`. */
  readonly unit: string;
  readonly value: number;
  /** How many times as fast as `against` in the same run (above 1 = faster); null when this row is compared with nothing. */
  readonly ratio: number | null;
  readonly against: string | null;
}

/** The outcome of one benchmark. */
export interface BenchResult {
  readonly name: string;
  readonly rows: readonly BenchRow[];
  /** What a reader must know to judge the rows: what is inside and outside the timed part, aims missed. */
  readonly notes: readonly string[];
}

/** The default export of a benchmark file. `Options` are read in `scripts/bench.mjs`; most have none. */
export interface Benchmark<Options = undefined> {
  readonly name: string;
  run(options: Options): Promise<BenchResult> | BenchResult;
}

/** What was given cannot be run; the runner prints the text and exits 2. */
export class BenchOptionError extends Error {
  readonly code = 'BENCH_OPTION';
}

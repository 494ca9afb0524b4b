/** What the table reads of a replayed run; `pointsman replay --json` prints more. */
export interface CopyReport {
  readonly prefix_hit_rate_tokens: number | null;
  readonly ttft_ms: { readonly mean: number | null; readonly p99: number | null };
  readonly hints: {
    readonly commits?: {
      readonly made: number;
      readonly sent: number;
      readonly degraded: number;
      readonly released: number;
      readonly sent_and_covered: number;
    };
  };
  readonly policy_faults: readonly {
    readonly policy: string;
    readonly reason: string;
    readonly count: number;
  }[];
}

/** One run of one trace under one choice of policies. */
export interface CopyRun {
  readonly trace: string;
  readonly policy: string;
  readonly seed: number;
  /** Whether its selection commits copies. */
  readonly commits: boolean;
  readonly report: CopyReport;
}

/** What is wrong with the figures of these runs, in words. */
export function copyProblems(runs: readonly CopyRun[], moreThan: number): string[];
/** A Markdown table with one row per trace and policy. */
export function copyTable(runs: readonly CopyRun[]): string;

/** What the table reads of a replayed run; `pointsman replay --json` prints more. */
export interface SessionRun {
  readonly completed: number;
  readonly requests: number;
  readonly policy_faults: readonly {
    readonly policy: string;
    readonly reason: string;
    readonly count: number;
  }[];
  readonly sessions: {
    readonly resumed_ttft_ms: {
      readonly mean: number | null;
      readonly p50: number | null;
      readonly p99: number | null;
    };
    readonly resumed_hit_rate_tokens: number | null;
    readonly live_evictions: number;
    readonly released_blocks: number;
  };
}

/** One replay of the table. */
export interface SessionCell {
  readonly trace: string;
  /** Share of the working set, as it was asked for: `1/4`, `2`. */
  readonly memory: string;
  readonly host: boolean;
  readonly policy: string;
  readonly seed: number;
}

export interface FinishedCell {
  readonly cell: SessionCell;
  readonly run: SessionRun;
}

/** Every combination, in the order of the table; `host-blind` only with a host tier. */
export function sessionCells(axes: {
  readonly traces: readonly string[];
  readonly memories: readonly string[];
  readonly hosts: readonly boolean[];
  readonly policies: readonly string[];
  readonly seeds: readonly number[];
}): SessionCell[];
/** Whether a cell has all the words of a selection, such as `memory=1/4,policy=release`. @throws for a word that is none. */
export function isSelected(cell: SessionCell, only: string | undefined): boolean;
/** What is wrong with the figures, in words. */
export function sessionProblems(cells: readonly FinishedCell[]): string[];
/** A Markdown table: one row per trace, memory, host tier and policy, means over the seeds and ratios to `default`. */
export function sessionTable(cells: readonly FinishedCell[]): string;
/** A Markdown table of geometric means of mean resumed TTFT against `default`, over memories and seeds. */
export function ratioTable(cells: readonly FinishedCell[]): string;

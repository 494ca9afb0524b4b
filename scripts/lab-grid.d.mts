/** A trace of the lab. */
export interface LabTrace {
  /** How its file's name begins. */
  readonly file: string;
  readonly part: 'whole' | 'first half' | 'second half';
  /** Loads of the main study; null = a closed loop, which has none. */
  readonly loads: readonly (number | null)[];
  /** Loads at which capacity is looked for. */
  readonly steps: readonly number[];
  /** Copies of each session; null = requests at their own times. */
  readonly copies: number | null;
}

export type LabTraceName = 'conversation' | 'synthetic' | 'agentic' | 'subagent' | 'tuning';
/** By name; parameters may be chosen on `tuning`, which `tuningStudy` alone replays. */
export const LAB_TRACES: Readonly<Record<LabTraceName, LabTrace>>;
/** Settings of the built-ins that are compared on the part for tuning, each a policy file. */
export const TUNING_POLICIES: readonly { readonly name: string; readonly yaml: string }[];
/** Policies that every study compares. */
export const CORE: readonly string[];
/** What a cell of sessions is changed by where nothing is evicted and copies take next to no time. */
export const BOUND: Pick<LabCell, 'policy' | 'ratio' | 'nic'>;
/** Gbit/s of an engine's link to its peers unless a study says otherwise. */
export const USUAL_NIC: number;

/** One replay with one policy. */
export interface LabCell {
  readonly study: string;
  readonly trace: LabTraceName;
  readonly timing: string;
  readonly workers: number;
  /** Different blocks of what is replayed, of sessions the peak live working set, over the blocks of all workers. */
  readonly ratio: number;
  readonly load: number | null;
  /** Of events, ms. */
  readonly delay: number;
  readonly routers: number;
  readonly nic: number;
  readonly seed: number;
  readonly policy: string;
}

/** Axes of one study. */
export interface LabStudy {
  readonly study: string;
  readonly traces: readonly LabTraceName[];
  readonly timings: readonly string[];
  readonly workers: readonly number[];
  readonly ratios: readonly number[];
  readonly loads: (trace: LabTraceName) => readonly (number | null)[];
  readonly delays: readonly number[];
  readonly routers: readonly number[];
  readonly nics: readonly number[];
  readonly seeds: readonly number[];
  readonly policies: readonly string[];
}

/** What is kept of a replayed run. Times are ms. */
export interface LabRun {
  readonly requests: number;
  readonly completed: number;
  readonly policy_faults: readonly {
    readonly policy: string;
    readonly reason: string;
    readonly count: number;
  }[];
  /** Share of prompt tokens that were cached. */
  readonly hit: number | null;
  readonly ttft: { readonly mean: number | null; readonly p50: number | null; readonly p99: number | null };
  readonly e2e: number | null;
  /** The busiest worker's time of prompt work over the mean. */
  readonly imbalance: number | null;
  readonly fetched: number;
  /** TTFT of resumed turns; null = no sessions. */
  readonly resumed: { readonly mean: number | null; readonly p99: number | null } | null;
}

/** A cell that was run. */
export interface FinishedLabCell {
  readonly cell: LabCell;
  readonly run: LabRun;
}

/** The studies. `full`: every policy, seed and timing on every axis of the main one. */
export function labStudies(options: {
  readonly full: boolean;
  readonly seeds: readonly number[];
}): LabStudy[];
/** Settings of the built-ins on the part for tuning, with the first seed. */
export function tuningStudy(seeds: readonly number[]): LabStudy;
/** Their cells, each once, of the policies that are there. */
export function labCells(studies: readonly LabStudy[], accepts: (policy: string) => boolean): LabCell[];
/** Whether a cell has all the words of a selection, such as `trace=synthetic,load=0.5`. @throws for a word that is none. */
export function isSelected(cell: LabCell, only: string | undefined): boolean;
/** What cells that differ in nothing but the policy share. */
export function conditionOf(cell: LabCell): string;
/**
 * Options of `pointsman replay`.
 * @param rows lines of the trace's file.
 * @param most requests, or lines of sessions; absent = all of the part.
 */
export function replayOptions(cell: LabCell, rows: number, most?: number): string[];
/** Of a run in the report of `pointsman replay --json`. */
export function keptFigures(run: {
  readonly requests: number;
  readonly completed: number;
  readonly policy_faults: LabRun['policy_faults'];
  readonly prefix_hit_rate_tokens: number | null;
  readonly ttft_ms: {
    readonly mean: number | null;
    readonly p50: number | null;
    readonly p99: number | null;
  };
  readonly e2e_ms: { readonly mean: number | null };
  readonly hints: { readonly fetched_blocks: number };
  readonly sessions?: {
    readonly resumed_ttft_ms: { readonly mean: number | null; readonly p99: number | null };
  };
  readonly workers: readonly { readonly prefill_ms?: number }[];
}): LabRun;

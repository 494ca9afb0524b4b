// What plugins may declare to read, and the shape each declaration adds. What is not declared is not on the type, not on the
// object at run time, and not prepared by the host.
import type { SessionLineage } from './session-lineage.ts';

/** One number per candidate. A Float64Array at run time, read-only to the compiler; may be longer than `count`. */
export type Column = ArrayLike<number>;

/** One candidate's values of a group of columns. */
export type Row<Columns> = { readonly [K in keyof Columns]: Columns[K] extends Column ? number : Columns[K] };

/** What is cached where, for this request. Blocks of the request's prompt; a tier or worker without any is 0. */
export interface CacheColumns {
  /** Device blocks + host blocks × host weight + disk blocks × disk weight: the router's own estimate. */
  readonly effectiveOverlapBlocks: Column;
  /** The estimate in tokens, rounded, not clamped to the prompt. */
  readonly cachedTokens: Column;
  /** Leading blocks on the device tier. */
  readonly deviceBlocks: Column;
  /** Further contiguous blocks on the host tier, beyond the device tier. */
  readonly hostBlocks: Column;
  /** Further contiguous blocks on the disk and external tiers, beyond the host tier. */
  readonly diskBlocks: Column;
  /** Whether any tier of any worker matched this request. */
  readonly hasTierMatches: boolean;
}

/** What each candidate is doing, projected for this request. */
export interface LoadColumns {
  /** 1 = observed, 0 = nothing known; then the other columns are 0. */
  readonly available: Column;
  /** Prompt tokens booked and not yet prefilled. */
  readonly activePrefillTokens: Column;
  /** Blocks held by running requests, with what this request would add. */
  readonly decodeCostBlocks: Column;
  readonly activeRequests: Column;
}

/**
 * What each candidate could fetch from a peer. Zero where nobody is eligible, or the candidate takes no hints. The source is the least
 * loaded of those on other workers whose prefix is within 1/16 of the longest.
 */
export interface CopyColumns {
  /** Blocks the source holds beyond the candidate's own device and host blocks. */
  readonly copyableBlocks: Column;
  /** Leading blocks on the device tier of the source. */
  readonly sourcePrefixBlocks: Column;
}

/** What each input of a worker-selection component adds to its candidates. */
export interface WorkerInputs {
  readonly cache: { readonly cache: CacheColumns };
  readonly load: { readonly load: LoadColumns };
  /** Multiplier of the cost from the request's preferred taints; 1 = no preference. */
  readonly 'preferred-taint': { readonly preferredTaintMultiplier: Column };
  /** Requests in flight, counted by the router, without a load model. */
  readonly occupancy: { readonly occupancy: Column };
  /** 1 = the worker says that it runs on a CPU, 0 = on anything else, or it does not say. */
  readonly device: { readonly onCpu: Column };
  /** Copies that a hint could bring from a peer. */
  readonly 'kv-copy-locations': { readonly copies: CopyColumns };
  /** Which blocks sessions have where; null = switched off. */
  readonly 'session-lineage': { readonly lineage: SessionLineage | null };
}

/** Names a worker-selection component may list under `inputs`. */
export type WorkerInput = keyof WorkerInputs;

/** The same for one candidate at a time. */
export interface WorkerRowInputs {
  readonly cache: { readonly cache: Row<CacheColumns> };
  readonly load: { readonly load: Row<LoadColumns> };
  readonly 'preferred-taint': { readonly preferredTaintMultiplier: number };
  readonly occupancy: { readonly occupancy: number };
  readonly device: { readonly onCpu: number };
  readonly 'kv-copy-locations': { readonly copies: Row<CopyColumns> };
  readonly 'session-lineage': { readonly lineage: SessionLineage | null };
}

/** Every worker-selection input, in the order error messages list them. */
export const WORKER_INPUTS: readonly WorkerInput[] = Object.freeze([
  'cache',
  'load',
  'preferred-taint',
  'occupancy',
  'device',
  'kv-copy-locations',
  'session-lineage',
]);

/** The names in a literal list; a list whose length the compiler does not know grants nothing. */
export type Granted<L extends readonly string[]> = number extends L['length'] ? never : L[number];

/** Turns a union of shapes into their intersection. */
export type Merge<U> = (U extends unknown ? (member: U) => void : never) extends (merged: infer M) => void
  ? M
  : never;

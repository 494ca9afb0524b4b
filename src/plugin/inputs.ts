// What plugins may declare to read, and the shape each declaration adds. What is not declared is not on the type, not on the
// object at run time, and not prepared by the host.
import type { MeasuredLink } from './kv-copy.ts';
import type { SessionLineage } from './session-lineage.ts';
import type { TimingColumns, WorkerTiming } from './worker-timing.ts';

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
  /** What copies took lately, whichever workers of the model made them; null = no engine has reported on one. */
  readonly link: MeasuredLink | null;
}

/**
 * What the bookings of each candidate are at, and have still to do. A booking is a request from its selection to its end; it has its
 * first token when the engine sends one, until then its prompt is taken as still to be computed.
 */
export interface PhaseColumns {
  /** Bookings without a first token. */
  readonly prefillRequests: Column;
  /** Prompt tokens these have to compute: n of each, summed; what was cached at its booking is left out. */
  readonly prefillTokens: Column;
  /**
   * What attention adds to that: n × (c + n / 2) of each, summed, where c = its prompt tokens that were cached. A time of
   * n × (a + b × (c + n / 2)) per booking is then a × `prefillTokens` + b × `prefillAttention`, whatever a and b a policy takes.
   */
  readonly prefillAttention: Column;
  /** How long the oldest booking without a first token has been at the front, in ms: since its own booking or the last first token; 0 without one. */
  readonly prefillFrontMs: Column;
  /** Bookings past their first token. */
  readonly decodeRequests: Column;
  /** Prompt tokens of all bookings, cached or not; blocks that several share count for each. */
  readonly promptTokens: Column;
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
  /**
   * Leading blocks of the prompt that bookings of the candidate hold which have not ended: computed, being computed, or about to be.
   * What is resident besides is in `cache`; the longer of the two is what the request will find. 0 where prompts are not hashed.
   */
  readonly 'in-flight-blocks': { readonly inFlightBlocks: Column };
  /** What the candidate's bookings are at. */
  readonly 'request-phases': { readonly phases: PhaseColumns };
  /**
   * Chance, from 0 to 1, that what the candidate's KV pool forgets to make room is asked for again: e^(−pool / working set). Pool: tokens
   * that it holds. Working set: distinct prompt tokens that bookings used lately, each counting e^(−age / 300 s) by the time since one did so
   * last, in steps of 2,048 tokens from the start of each prompt; decode legs behind a prefill worker count nothing. As it was a second ago
   * at most. 0 where neither the engine nor the configuration says how large the pool is, and where prompts are not hashed.
   */
  readonly 'cache-pressure': { readonly cachePressure: Column };
  /** Mean tokens of the partition's finished answers, the last ones weighing most; null = none has finished yet. */
  readonly 'output-length': { readonly averageOutputTokens: number | null };
  /** How long workers take, as learnt from their answers. */
  readonly timing: { readonly timing: TimingColumns };
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
  readonly 'in-flight-blocks': { readonly inFlightBlocks: number };
  readonly 'request-phases': { readonly phases: Row<PhaseColumns> };
  readonly 'cache-pressure': { readonly cachePressure: number };
  readonly 'output-length': { readonly averageOutputTokens: number | null };
  readonly timing: { readonly timing: WorkerTiming };
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
  'in-flight-blocks',
  'request-phases',
  'cache-pressure',
  'output-length',
  'timing',
  'kv-copy-locations',
  'session-lineage',
]);

/** The names in a literal list; a list whose length the compiler does not know grants nothing. */
export type Granted<L extends readonly string[]> = number extends L['length'] ? never : L[number];

/** Turns a union of shapes into their intersection. */
export type Merge<U> = (U extends unknown ? (member: U) => void : never) extends (merged: infer M) => void
  ? M
  : never;

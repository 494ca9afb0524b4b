// What the road hands over when it has booked. The object itself is kept, so that a decision costs no second copy of its facts;
// columns, costs and exclusions are read during the call only, because the road uses them again.
import type { MeasuredLink, TimeCost, WorkerTiming } from '../plugin/index.ts';
import type { AffinityRecord, AgentHintsRecord, HandoffRecord, IneligibleReason } from './decision-record.ts';
import type { TimeColumn } from './time-cost-terms.ts';

/**
 * Eligible candidates as columns; entry r of each is the same candidate. Arrays may be longer than `count`. Those of a cost in time are read
 * where one decided.
 */
export interface DecisionColumns extends Readonly<Partial<Record<TimeColumn, Float64Array>>> {
  readonly count: number;
  /** Worker ids as two u32 words each, low word first. */
  readonly idWords: Uint32Array;
  readonly ranks: Int32Array;
  readonly deviceBlocks: Float64Array;
  readonly hostBlocks: Float64Array;
  readonly diskBlocks: Float64Array;
  readonly activePrefillTokens: Float64Array;
  readonly activeDecodeBlocks: Float64Array;
  readonly additionalBlocks: Float64Array;
  readonly activeRequests: Float64Array;
  readonly preferredTaintMultiplier: Float64Array;
  /** Whether `copyableBlocks` was filled for this decision, and what sources hold. */
  readonly hasCopies?: boolean;
  /** Blocks that a peer could copy to the candidate. */
  readonly copyableBlocks?: Float64Array;
  /** Position in the `timings` of the decision; read where it has those. */
  readonly timingKind?: Float64Array;
}

/** Those who were not candidates. */
export interface DecisionExclusions {
  readonly count: number;
  workerId(index: number): bigint;
  rank(index: number): number;
  reason(index: number): IneligibleReason;
}

/** One decision at the moment of booking. Times in ms of the injected clock, `…Micros` in µs of the wall clock. */
export interface DecisionInput {
  readonly requestId: string;
  /** 1 = the request's first booking. */
  readonly attempt: number;
  /** When it was booked. */
  readonly atMs: number;
  /** When the request arrived, before it was classified or waited for anything; a second try's is that of the first. */
  readonly arrivedMs: number;
  readonly door: string;
  readonly model: string;
  readonly routingGroup: string;
  readonly role: string;
  readonly mode: string;
  readonly policy: { readonly type: string; readonly instance: string | null; readonly version: string };
  readonly session: {
    readonly sessionId: string;
    readonly parentSessionId?: string;
    readonly sessionFinal?: boolean;
    readonly inputTrigger?: string;
  } | null;
  /** Class it was queued in. */
  readonly policyClass: string;
  /** How long it waited for a first worker; null or absent = it did not. */
  readonly queuedMs?: number | null;
  /** How it passed the admission queue; null or absent = its model has none. */
  readonly turn?: {
    /** Bucket of uncached tokens of its class; null = its class has none. */
    readonly bucket: string | null;
    /** What its turn cost; null = nobody counted, as it went on without one. */
    readonly costTokens: number | null;
    /** Null = it went on at once. */
    readonly waitedMs: number | null;
  } | null;
  /** What a request classifier said of it; null or absent = nobody classifies. */
  readonly classification?: {
    readonly classifier: string;
    readonly asked: boolean;
    readonly waitedMs: number;
    readonly overrides: {
      readonly policyClass?: string | null;
      readonly dueAt?: number | null;
      readonly schedulingCostTokens?: number | null;
      readonly workerTarget?: { readonly workerId: bigint; readonly rank: number | null } | null;
    };
  } | null;
  /** What its agent said of it and counts; null or absent = nothing. */
  readonly agentHints?: AgentHintsRecord | null;
  /** Fields that were removed of it, by name; absent = none. */
  readonly stripped?: readonly string[];
  /** Its part in serving a request by two workers, read whenever the record is; null or absent = one worker serves it. */
  readonly handoff?: HandoffRecord | null;
  /** The binding of its session, read whenever the record is; null or absent = it has none. */
  readonly affinity?: AffinityRecord | null;
  readonly promptTokens: number;
  readonly blocks: number;
  readonly blockSize: number;
  readonly tokensSource: string;
  /** Why the prompt has no exact tokens, in one word; null = it has. */
  readonly estimated: string | null;
  /** Sequence hash of the prompt's first block in two halves; null = no block was hashed. */
  readonly headLow: number | null;
  readonly headHigh: number;
  /** Null = no index was asked. */
  readonly indexVersion: number | null;
  /** Ms since each worker's last KV event, for those that are heard; `stale` when batches of its stream are missing. */
  readonly eventAges: readonly {
    readonly workerId: bigint;
    readonly ageMs: number;
    readonly stale: boolean;
  }[];
  /** Codes of what parity checks found of the chosen rank; null or absent = nobody compares. */
  readonly parity?: readonly string[] | null;
  /** Times of kinds of workers that the policy saw; the array must not change. Null or absent = it declared none. */
  readonly timings?: readonly WorkerTiming[] | null;
  readonly columns: DecisionColumns;
  /** Cost per row of `columns`; NaN = none. */
  readonly costs: Float64Array;
  readonly droppedBy: readonly (string | null)[] | null;
  readonly excluded: DecisionExclusions;
  /** Chosen row of `columns`. */
  readonly row: number;
  /** Weights of the default cost when it decided, for recomputing its terms. */
  readonly costWeights: Readonly<Record<string, number>> | null;
  /** The cost in time that decided, for recomputing its terms; null or absent = none did. */
  readonly timeCost?: TimeCost | null;
  /** Tokens of the answer that such a cost reckons with; null or absent = its own default. */
  readonly outputTokens?: number | null;
  /** What copies took lately, as such a cost saw it where it counts on copies; must not change. Null or absent = none was measured. */
  readonly copyLink?: MeasuredLink | null;
  readonly tracksPrefillTokens: boolean;
  readonly by: string;
  readonly ties: number;
  readonly randomDraw: number | null;
  readonly temperature: number;
  readonly attemptId: number;
  readonly prefillTokens: number;
  readonly decodeBlocks: number;
  /** Null = no prediction, for example without an index. */
  readonly predictedTokens: number | null;
  /** Of these, tokens that lie in host memory; the others are on the device. */
  readonly predictedHostTokens: number;
  readonly tokenizeMicros: number;
  readonly hashMicros: number;
  readonly lookupMicros: number;
  readonly selectMicros: number;
}

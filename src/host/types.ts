// What scheduling and the road see of the plugin host: per role a resolved selection and a hint stage.
import type { OwnerSlot, PrefixIndex, PrefixMatch, PromptHashes } from '../kv/index.ts';
import type {
  BlockResidency,
  KvHint,
  MeasuredLink,
  Partition,
  Role,
  SessionContext,
  SessionLineage,
  TimeCost,
  WorkerId,
  WorkerRank,
  WorkerTiming,
} from '../plugin/index.ts';
import type { GenerationHold } from './booking-hold.ts';
import type { CostScan } from './cost-scan.ts';

/** What a resolved role needs prepared, computed from declarations alone. */
export interface RoleNeeds {
  readonly cache: boolean;
  readonly load: boolean;
  readonly preferredTaint: boolean;
  readonly occupancy: boolean;
  /** Which leading blocks of a prompt bookings hold. */
  readonly inFlight: boolean;
  /** What bookings are at. */
  readonly phases: boolean;
  /** How likely it is that what KV pools forget is asked for again. */
  readonly cachePressure: boolean;
  /** How long answers are. */
  readonly outputLength: boolean;
  /** How long workers take. */
  readonly timing: boolean;
  /** Copy sources per candidate, for selection. */
  readonly copies: boolean;
  /** Matched chain kept until the hint stage. */
  readonly copyLocations: boolean;
  /** Which blocks sessions have where. */
  readonly lineage: boolean;
  /** Which tier holds a block on a worker. */
  readonly residency: boolean;
}

/**
 * The candidates of one decision as columns; row r of every column is the same candidate. Arrays may be longer than `count`.
 * Rows are in (worker id, rank) order. Columns that nobody declared hold stale numbers.
 */
export interface CandidateTable {
  count: number;
  slots: Int32Array;
  workerIds: BigUint64Array;
  ranks: Int32Array;
  /** Weighted blocks, see the default cost. */
  effectiveOverlapBlocks: Float64Array;
  cachedTokens: Float64Array;
  deviceBlocks: Float64Array;
  hostBlocks: Float64Array;
  /** Disk and external tiers together. */
  diskBlocks: Float64Array;
  hasTierMatches: boolean;
  /** False = the host and disk columns are 0 throughout, so nobody needs to read them. */
  hasLowerTierMatches: boolean;
  /** False = `loadAvailable` is 1 throughout. */
  hasUnknownLoads: boolean;
  /** False = `preferredTaintMultiplier` is 1 throughout. */
  hasTaintMultipliers: boolean;
  /** 1 = observed, 0 = no observation. */
  loadAvailable: Float64Array;
  activePrefillTokens: Float64Array;
  /** Projected decode footprint in blocks, this request's additional blocks included. */
  decodeCostBlocks: Float64Array;
  activeRequests: Float64Array;
  preferredTaintMultiplier: Float64Array;
  /** Requests in flight, for policies without a load model. */
  occupancy: Float64Array;
  /** 1 = its worker says that it runs on a CPU. */
  onCpu: Float64Array;
  /** Leading blocks of the prompt that bookings of the row hold. */
  inFlightBlocks: Float64Array;
  /** Bookings without a first token. */
  prefillRequests: Float64Array;
  /** `shareBehind` of these, for the scan alone. */
  prefillBehind: Float64Array;
  /** Prompt tokens that these have to compute. */
  prefillTokens: Float64Array;
  /** What attention adds, in tokens squared. */
  prefillAttention: Float64Array;
  /** Ms that the oldest of them has been at the front. */
  prefillFrontMs: Float64Array;
  /** Bookings past their first token. */
  decodeRequests: Float64Array;
  /** Prompt tokens of all bookings. */
  bookedPromptTokens: Float64Array;
  /** e^(−pool / working set), 0 to 1. */
  cachePressure: Float64Array;
  /** No row has more of them. */
  mostBookedPromptTokens: number;
  /** Mean tokens of answers; null = not known. */
  averageOutputTokens: number | null;
  /** Times of the kinds of workers. */
  timings: readonly WorkerTiming[];
  /** Index into `timings`. */
  timingKind: Float64Array;
  /** False = nobody filled the two copy columns for this decision. */
  hasCopies: boolean;
  /** Blocks the chosen source holds beyond the row's own device and host blocks; 0 without a source or for a rank without hints. */
  copyableBlocks: Float64Array;
  /** Leading device blocks of that source, which is on another worker. */
  sourcePrefixBlocks: Float64Array;
  /** What copies took lately; null = not known. */
  copyLink: MeasuredLink | null;
  /** What the default cost made of the rows last. */
  costs: Float64Array;
  /** Evaluates the default cost where its columns lie; null = they lie on the heap. */
  scan: CostScan | null;
}

/** Facts about the request that policies may read. */
export interface SelectionFacts {
  readonly requestId: string;
  readonly promptTokens: number;
  /** ceil(prompt tokens / block size). */
  readonly requestBlocks: number;
  readonly blockSize: number;
  readonly tracksPrefillTokens: boolean;
  readonly session: SessionContext | null;
  readonly affinityTarget: { readonly workerId: WorkerId; readonly rank: number | null } | null;
  readonly pinnedWorker: { readonly workerId: WorkerId; readonly rank: number | null } | null;
  readonly expectedOutputTokens: number | null;
  readonly priority: number;
  readonly strictPriority: number;
  readonly temperatureOverride: number | null;
  /** For policies that declare `session-lineage`; null or absent = switched off. */
  readonly lineage?: SessionLineage | null;
}

/** Outcome of the selection pipeline. */
export interface SelectionPick {
  /** Row of the table handed in. */
  readonly row: number;
  /** Summed cost per row of the surviving rows; NaN for filtered rows. Valid until the next call. */
  readonly costs: Float64Array;
  /** Name of the filter that dropped a row, per row; null = kept. Null when the policy has no filters. */
  readonly droppedBy: readonly (string | null)[] | null;
  /** How it was chosen, for the record. */
  readonly by: 'lowest_cost' | 'sampled' | 'pinned' | 'policy';
  /** Rows that shared the lowest cost. */
  readonly ties: number;
  readonly randomDraw: number | null;
  /** Whether the choice commits a KV copy to the row, which then has a source. Absent = no. */
  readonly commitKvCopy?: boolean;
}

/** How a role deals with copies that its worker-selection policy commits. */
export interface CommitSetting {
  /** What becomes of a booking whose committed copy cannot be sent. */
  readonly onFailure: 'degrade' | 'release';
  /** Actions of the one hint policy that sends them; null = any. */
  readonly senderActions: ReadonlySet<string> | null;
  /** Whether that policy would not be called now: then no copy should be credited, as nobody would send it. */
  senderIsSkipped(): boolean;
}

/** A copy that selection credited to a booking. */
export interface CopyCommit {
  readonly sourceSlot: OwnerSlot;
  /** Leading blocks of the source when it was chosen. */
  readonly prefixBlocks: number;
  /** Those beyond the booked rank's own; ≥ 1. */
  readonly additionalBlocks: number;
}

/** Why a committed copy was not sent. */
export type CommitFailure =
  | 'source_gone'
  | 'no_sender'
  | 'not_capable'
  | 'stage_failed'
  /** Client or worker was gone before the sender answered. */
  | 'request_ended'
  | 'nothing'
  | NonNullable<HintPolicyResult['reason']>;

/** What the hint stage made of a commit. */
export interface CommitOutcome {
  /** The source named to the engine; null when none was left. */
  readonly source: WorkerRank | null;
  readonly prefixBlocks: number;
  readonly additionalBlocks: number;
  /** Null = its actions are in the envelope. */
  readonly failure: CommitFailure | null;
}

/** One role of one partition, resolved: which policy decides, what it needs, which hints follow. */
export interface RoleRuntime {
  readonly policy: { readonly type: string; readonly instance: string | null; readonly version: string };
  readonly needs: RoleNeeds;
  /** Whether its hint policies alone ask who holds a prompt: where no rank takes hints, nobody need be asked. */
  readonly matchForHintsAlone?: boolean;
  /** Cost weights in force when the policy is the default cost (for explaining); null otherwise. */
  readonly costWeights: Readonly<Record<string, number>> | null;
  /** The cost in time that the policy declares (for explaining); null or absent = it declares none. */
  readonly timeCost?: TimeCost | null;
  /** Runs filters, scorers, picker. Throws PointsmanError; never leaves state behind. */
  select(table: CandidateTable, facts: SelectionFacts): SelectionPick;
  readonly hintStage: HintStage | null;
  /** The stage where policies of the role run in threads of their own; then `hintStage` is null. Absent = null. */
  readonly threadedHints?: ThreadedHintStage | null;
  /** Whether a request is refused, rather than placed by the default cost, when `select` throws PM_SELECTION_TRIPPED. */
  readonly refusesWhenTripped?: boolean;
  /** Null or absent = the policy commits nothing. */
  readonly commits?: CommitSetting | null;
  /** What a booking made with it holds until it is released; null or absent = nothing is ever replaced. */
  readonly hold?: GenerationHold | null;
}

/** What the hint stage knows of a booking. */
export interface HintBooking {
  readonly requestId: string;
  /** Message id of the envelope where that of an incoming one is not kept; absent = the request id. */
  readonly messageId?: string;
  readonly slot: OwnerSlot;
  readonly workerId: WorkerId;
  readonly rank: number;
  readonly role: Role;
  readonly partition: Partition;
  readonly promptTokens: number;
  readonly blockSize: number;
  readonly session: SessionContext | null;
  readonly hashes: PromptHashes | null;
  /** What the prompt matched at selection; may be read only during the call. */
  readonly match: PrefixMatch | null;
  readonly index: Pick<PrefixIndex, 'externalHashes'> | null;
  readonly incomingHint: KvHint | null;
  /**
   * The candidates of the selection that made the booking and the booked rank's row in them, for hint policies that declare
   * `cache` or `load`; read only during the call. Absent = nobody selected.
   */
  readonly selected?: { readonly table: CandidateTable; readonly row: number };
  /** For hint policies that declare `session-lineage` and `residency`; null or absent = switched off. */
  readonly lineage?: SessionLineage | null;
  readonly residency?: BlockResidency | null;
  /** Requests in flight on a slot, to choose among near-tied sources of a copy; absent = not known. */
  readonly loadOf?: (slot: OwnerSlot) => number;
  /** What copies from an endpoint to the booked rank took lately; absent = nobody measures. */
  readonly links?: {
    between(target: WorkerRank, controlEndpoint: string): MeasuredLink | null;
  };
  /** The copy that selection committed; `stopOnFailure` = the booking is given up when it cannot be sent, so nothing else need run. */
  readonly commit?: (CopyCommit & { readonly stopOnFailure: boolean }) | null;
}

/** What one listed policy did for one booking. */
export interface HintPolicyResult {
  readonly name: string;
  readonly result: 'sent' | 'nothing' | 'dropped' | 'skipped';
  readonly reason?:
    | 'threw'
    | 'malformed'
    | 'no_room'
    | 'undeclared_action'
    | 'unsupported_action'
    | 'promise'
    /** Its thread did not answer in time. */
    | 'timed_out'
    /** Its thread ended during the call. */
    | 'thread_died'
    /** Skipped by its breaker. */
    | 'tripped'
    /** Skipped as its thread is being replaced. */
    | 'restarting'
    /** Has no actions, and the last copy it asked for was not to be had. */
    | 'no_copy_source';
  readonly error_code?: string;
  readonly actions?: number;
  readonly us: number;
}

/** Result of the stage; `hint` null = nothing to send. */
export interface HintStageResult {
  readonly hint: KvHint | null;
  readonly capable: boolean;
  readonly policies: readonly HintPolicyResult[];
  /** Policy name per action of the envelope; `incoming` for a trusted caller's. */
  readonly actionPolicies: readonly string[];
  /** Null or absent = the booking had no commit. */
  readonly commit?: CommitOutcome | null;
}

/** Runs the hint policies of one role; once per booking, synchronously; never throws. */
export interface HintStage {
  /** Whether no policy is there: then a run without a caller's envelope and a commit only says whether the rank takes hints. */
  readonly idle?: boolean;
  run(booking: HintBooking): HintStageResult;
}

/** Answers of a stage that are waited for. */
export interface PendingHints {
  readonly pending: true;
  /** Nobody waits any more: `hinted` is not called. Idempotent. */
  cancel(): void;
}

/** Runs the hint policies of a role some of which answer from threads of their own; once per booking; never throws. */
export interface ThreadedHintStage {
  /**
   * All that rests on the booking's match is read before this returns.
   * @param hinted called once, later, when the answer is {@link PendingHints}.
   */
  start(booking: HintBooking, hinted: (result: HintStageResult) => void): HintStageResult | PendingHints;
}

/** The host: everything that was loaded and resolved. */
export interface PluginHost {
  /**
   * Builds or returns the runtime of a role in a partition. `blockSize` (tokens) is needed where the model's is not configured;
   * another block size is another runtime.
   * @throws PointsmanError PM_SELECTION_BLOCK_SIZE_UNKNOWN, PM_PARTITION_NOT_READY.
   */
  roleRuntime(partition: Partition, role: Role, blockSize?: number): RoleRuntime;
  dispose(): Promise<void>;
}

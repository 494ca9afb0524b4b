// What a placement asks and answers.
import type {
  CandidateTable,
  CopyCommit,
  RoleRuntime,
  SelectionFacts,
  SelectionPick,
} from '../host/index.ts';
import type { OwnerSlot, PrefixMatch, PromptHashes } from '../kv/index.ts';
import type { IneligibleReason } from '../observe/index.ts';
import type { Partition, Role, SessionContext, SessionLineage, WorkerId } from '../plugin/index.ts';
import type { PlacementOverrides } from './placement-overrides.ts';

/** What a caller asks of routing. */
export interface PlacementConstraints {
  readonly pinnedWorker: { readonly workerId: WorkerId; readonly rank: number | null } | null;
  readonly allowedWorkers: readonly WorkerId[] | null;
  /** Those that failed the request before; the router's own, never a caller's. Absent = none. */
  readonly excludedWorkers?: readonly WorkerId[];
  readonly requiredTaints: readonly string[];
  /** Weight per taint: positive draws the request, negative repels it. */
  readonly preferredTaints: ReadonlyMap<string, number>;
  readonly temperature: number | null;
  readonly priority: number;
  readonly strictPriority: number;
  /** Who computes the prompt where another worker decodes; null or absent = anybody. */
  readonly pinnedPrefill?: { readonly workerId: WorkerId; readonly rank: number | null } | null;
}

/** One request to be placed on a worker. */
export interface PlacementRequest {
  readonly requestId: string;
  readonly partition: Partition;
  readonly role: Role;
  readonly runtime: RoleRuntime;
  /** Prompt length in tokens, ≥ 1. */
  readonly promptTokens: number;
  /** Tokens per block, ≥ 1. */
  readonly blockSize: number;
  /** Null when nobody needs them, or when the block size is not known. */
  readonly hashes: PromptHashes | null;
  /** What the index found; null when no index was asked. */
  readonly match: PrefixMatch | null;
  readonly session: SessionContext | null;
  readonly constraints: PlacementConstraints;
  /** LoRA adapter that it needs; null or absent = none. */
  readonly loraName?: string | null;
  readonly expectedOutputTokens: number | null;
  /** What the role's policies see of sessions; null or absent = nothing. */
  readonly lineage?: SessionLineage | null;
  /** Where the request had better go; advice to policies. Null or absent = nowhere in particular. */
  readonly affinityTarget?: SelectionFacts['affinityTarget'];
  /** False = policies see no copies and none is committed; default true. */
  readonly copyCredit?: boolean;
  /** Whether its prompt counts as load; null or absent = by its role. */
  readonly tracksPrefill?: boolean | null;
  /** Absent = it is placed and booked as its role says. */
  readonly overrides?: PlacementOverrides | undefined;
  /** Whether workers that callers registered are candidates; default no. */
  readonly withRegistered?: boolean;
  /** Where it goes, chosen before; null or absent = the policy chooses. Its constraints must pin it there. */
  readonly target?: PlacementTarget | null;
  /** Weights of the default cost for this request alone; they count where the role runs that cost as it comes. */
  readonly costOverride?: CostOverride | null;
}

/** A place that was chosen before, by this router or by the caller. */
export interface PlacementTarget {
  /** Prompt tokens to book; null = those that are not cached there now. */
  readonly prefillTokens: number | null;
  /** Whether the choice rests on a copy of blocks; it is committed again if there is a source still. */
  readonly commitsCopy: boolean;
}

/** Weights that a caller may set for one request. */
export interface CostOverride {
  readonly overlap_score_credit?: number;
  readonly prefill_load_scale?: number;
  readonly shared_cache_multiplier?: number;
}

/** Why a (worker, rank) was not a candidate. */
export type ExclusionReason = Exclude<IneligibleReason, 'filtered'>;

/** Those of a partition that were not eligible, as columns of `count` rows in (worker id, rank) order. */
export interface ExcludedRows {
  readonly count: number;
  readonly slots: Int32Array;
  /** Index into {@link EXCLUSION_REASONS}. */
  readonly reasons: Uint8Array;
}

/** Reasons by the number that stands for them in {@link ExcludedRows}. */
export const EXCLUSION_REASONS: readonly ExclusionReason[] = [
  'not_allowed',
  'not_pinned',
  'missing_taint',
  'missing_adapter',
  'excluded',
  'suspect',
  'draining',
  'gone',
  'busy',
];

/** Candidate columns with what only the record wants. */
export interface PlacementTable extends CandidateTable {
  /** `workerIds` as two u32 words each, low word first: reading them makes no bigint. */
  idWords: Uint32Array;
  /** Blocks in use before this request. */
  activeDecodeBlocks: Float64Array;
  /** Full prompt blocks that active requests of the slot do not hold. */
  additionalBlocks: Float64Array;
}

/** Where a request was placed. One object reused by every placement: read it before the next. */
export interface Placement {
  readonly attempt: number;
  readonly slot: OwnerSlot;
  readonly workerId: WorkerId;
  readonly rank: number;
  /** Row of the chosen candidate in `table`. */
  readonly row: number;
  readonly pick: SelectionPick;
  readonly table: PlacementTable;
  readonly excluded: ExcludedRows;
  /** Prompt tokens booked for prefill. */
  readonly prefillTokens: number;
  /** Blocks booked that the slot did not hold before. */
  readonly decodeBlocks: number;
  /** Weights of the default cost, when it decided. */
  readonly costWeights: Readonly<Record<string, number>> | null;
  /** Whether this role's bookings count prompt tokens to prefill. */
  readonly tracksPrefillTokens: boolean;
  /** Code of the error for which the policy's choice was replaced by the default cost's; null = the policy chose. */
  readonly fellBackOn: string | null;
  /** The copy that the choice rests on, its source fixed; null = none. */
  readonly commit: CopyCommit | null;
}

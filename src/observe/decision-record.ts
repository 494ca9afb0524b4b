// The decision record as JSON (docs/decision-record.md): the one type that log line, API, explain and replay read.
import type { TimeInputs, TimeTerms } from './time-cost-terms.ts';

/** Why a candidate was not eligible. */
export type IneligibleReason =
  | 'draining'
  | 'suspect'
  | 'gone'
  | 'filtered'
  | 'not_allowed'
  | 'missing_taint'
  | 'missing_adapter'
  | 'excluded'
  | 'not_pinned'
  | 'busy';

/** Terms of the default cost, in blocks. */
export interface CostTerms {
  readonly raw_prefill_blocks: number;
  readonly credit: number;
  readonly decay: number;
  readonly prefill: number;
  readonly decode_blocks: number;
  readonly request_weight: number;
  readonly taint: number;
}

/** Times of one kind of worker as the policy saw them: coefficients in ms, see `WorkerTiming`, and how sure they are. */
export interface TimingRecord {
  readonly prefill: TimingFitRecord & {
    readonly token_ms: number;
    readonly attention_ms: number;
    readonly pass_ms: number;
  };
  readonly decode: TimingFitRecord & { readonly ms: number; readonly fill_ms: number };
}

/** How sure a fit is. */
export interface TimingFitRecord {
  /** 0 = nothing learnt, towards 1. */
  readonly confidence: number;
  readonly observations: number;
  /** Mean |ln(observed / expected)| of late observations. */
  readonly error: number;
}

/** What copies of KV blocks between workers took lately. */
export interface CopyLinkRecord {
  /** Ms of a copy whatever its size. */
  readonly latency_ms: number;
  /** Ms per block. */
  readonly block_ms: number;
  /** 0 = it does not count, to 1 = nothing else does. */
  readonly confidence: number;
}

/** One candidate of a decision. */
export type CandidateRecord =
  | {
      readonly worker_id: bigint;
      readonly dp_rank: number;
      readonly eligible: true;
      readonly overlap_blocks: {
        readonly device: number;
        readonly host: number;
        readonly disk: number;
        readonly shared: number;
      };
      readonly active_prefill_tokens: number;
      readonly active_decode_blocks: number;
      readonly additional_blocks: number;
      readonly active_requests: number;
      /** Null for policies other than the default cost. */
      readonly terms: CostTerms | null;
      readonly cost: number | null;
      readonly rank: number;
      /** Its kind: position in the record's `timing`; absent where that is null. */
      readonly timing?: number;
      /** What else a cost in time read of it; absent where another cost decided. */
      readonly time_inputs?: TimeInputs;
      /** Terms of that cost. */
      readonly time_terms?: TimeTerms;
    }
  | {
      readonly worker_id: bigint;
      readonly dp_rank: number;
      readonly eligible: false;
      readonly reason: IneligibleReason;
      readonly filter?: string;
    };

/** How a booking ended. */
export type ReleaseReason = 'finished' | 'aborted' | 'failed' | 'worker_gone' | 'commit_failed' | 'expired';

/** What became of one hint action, as the engine tells; `unreported` is the router's own word. */
export type HintOutcome = 'accepted' | 'clipped' | 'deferred' | 'rejected' | 'missing' | 'unreported';

/** A copy that selection counted on, and whether the engine was told. */
export interface CommitRecord {
  /** The rank named to the engine; null when no source was left. */
  readonly source: { readonly worker_id: bigint; readonly dp_rank: number } | null;
  readonly prefix_blocks: number;
  /** Those beyond the booked rank's own. */
  readonly additional_blocks: number;
  /** `degraded` = dispatched without it; `released` = the booking was given up and selection asked once more. */
  readonly result: 'sent' | 'degraded' | 'released';
  /** Why it was not sent; null = it was. */
  readonly reason: string | null;
}

/** What the request classifier made of a request. */
export interface ClassificationRecord {
  readonly classifier: string;
  /** `skipped` = it is tripped, and the request passed as it is. */
  readonly result: 'classified' | 'skipped';
  /** From asking to the answer. */
  readonly waited_ms: number;
  /** What it changed: a missing member was left as it is, null = cleared. */
  readonly overrides: {
    readonly policy_class?: string | null;
    readonly due_at_ms?: number | null;
    readonly scheduling_cost_tokens?: number | null;
    readonly worker_target?: { readonly worker_id: bigint; readonly dp_rank: number | null } | null;
  };
}

/** Part of a decision in serving a request by two workers. */
export interface HandoffRecord {
  /** `prefill` computes the prompt, `decode` the answer. */
  readonly leg: 'prefill' | 'decode';
  /** How the KV is handed over; null = it is not. */
  readonly kind: 'nixl' | 'nixl_push' | 'mooncake' | 'bootstrap' | null;
  /** Why the decode worker computes the prompt as well; null = it does not. */
  readonly local: 'short' | 'prefill_busy' | 'no_prefill_worker' | null;
  /** The other leg; null = there is none, or not yet. */
  readonly other: {
    readonly decision_id: string;
    readonly worker_id: bigint;
    readonly dp_rank: number;
  } | null;
}

/** The binding of the request's session to a worker. */
export interface AffinityRecord {
  readonly mode: 'hard' | 'soft';
  /** Where the session was bound when the request was placed; null = nowhere: the request makes the binding. */
  readonly target: { readonly worker_id: bigint; readonly dp_rank: number | null } | null;
  /**
   * `initialised` = the binding is new; `bound` = the request had to go to its worker; `kept` = it went to the preferred worker; `moved` =
   * it went elsewhere, and the binding with it; `invalidated` = its worker failed it, and the binding is dropped.
   */
  readonly outcome: 'initialised' | 'bound' | 'kept' | 'moved' | 'invalidated';
  /** How long it waited until another request of the session was placed; null = it did not. */
  readonly waited_ms: number | null;
}

/** What an agent said of its request, as far as it counts. */
export interface AgentHintsRecord {
  /** As it was sent; negative ones count as 0 in queues. Null = not said. */
  readonly priority: number | null;
  readonly strict_priority: number;
  readonly expected_output_tokens: number | null;
  readonly speculative_prefill: boolean;
}

/** One sent hint action. */
export interface SentHintRecord {
  readonly action_id: string;
  readonly type: string;
  readonly policy: string;
  readonly bytes: number;
  readonly outcome: HintOutcome | null;
  /** The engine's word for why, for example `unsupported`; null = it gave none, or no word of at most 64 letters, digits and `_.:-`. */
  readonly reason: string | null;
  readonly blocks_done: number | null;
}

/** A decision, complete or under way (`outcome` null). Never holds prompt text, header values or a session id in clear. */
export interface DecisionRecord {
  readonly schema: 1;
  readonly id: string;
  readonly request_id: string;
  readonly attempt: number;
  readonly at_ms: number;
  /** Who brought the request: `gateway`, `selection`, `replay`, or `speculative` = the router itself, ahead of a next turn. */
  readonly door: string;
  readonly model: string;
  readonly partition: { readonly model: string; readonly routing_group: string };
  readonly role: string;
  readonly mode: string;
  readonly policy: { readonly type: string; readonly instance: string | null; readonly version: string };
  readonly session: {
    readonly id_hash: string;
    readonly parent_hash: string | null;
    readonly final: boolean;
    readonly trigger: string | null;
  } | null;
  readonly prompt: {
    readonly tokens: number;
    readonly blocks: number;
    readonly block_size: number;
    readonly tokens_source: string;
    /** Why the tokens are an estimate, so that no block was hashed: `content`, `template` or `source`; null = they are exact. */
    readonly estimated: string | null;
    readonly head_hash: bigint | null;
  };
  /** Null = none were sent, or none count: then they are among what was stripped. */
  readonly agent_hints: AgentHintsRecord | null;
  /** Router-only fields and headers that the caller is not trusted with and that were removed, by their names in the router's table, 32 at most. */
  readonly stripped: readonly string[];
  /** Null = no request classifier is configured. */
  readonly classification: ClassificationRecord | null;
  /** Null = one worker serves the whole request, and the fleet is not divided into roles. */
  readonly handoff: HandoffRecord | null;
  /** Null = the request has no session, or sessions are not bound to workers. */
  readonly affinity: AffinityRecord | null;
  readonly queue: {
    readonly class: string;
    readonly waited_ms: number;
    readonly outcome: 'direct' | 'queued' | 'held';
    /** What its turn cost; null = it went on without one and nobody counted; absent = its model has no queue. */
    readonly cost_tokens?: number | null;
    /** Bucket of uncached tokens of its class; null = its class has none; absent = its model has no queue. */
    readonly bucket?: string | null;
  };
  readonly index: {
    readonly kind: 'events' | 'none';
    readonly version: number;
    readonly per_worker_age_ms: Readonly<Record<string, number>>;
    /** Workers whose stream of events lacks batches, so that the index may be wrong about them. */
    readonly stale_workers: readonly bigint[];
  };
  /** Codes of docs/parity.md that had been found of the chosen rank; null = nobody compares. */
  readonly parity: { readonly findings: readonly string[] } | null;
  /** Times of the kinds of workers, where the policy declared them; null = it did not. */
  readonly timing: readonly TimingRecord[] | null;
  /** As a cost in time saw it; null = no copy was measured; absent = the cost counts on none. */
  readonly copy_link?: CopyLinkRecord | null;
  readonly candidates_total: number;
  readonly candidates: readonly CandidateRecord[];
  readonly pick: {
    readonly worker_id: bigint;
    readonly dp_rank: number;
    readonly by: string;
    readonly ties: number;
    readonly random_draw: number | null;
    readonly temperature: number;
  };
  readonly booking: {
    readonly attempt_id: number;
    readonly prefill_tokens: number;
    readonly decode_blocks: number;
    readonly released: ReleaseReason | null;
    readonly held_ms: number | null;
  };
  readonly hints: {
    readonly message_id: string;
    readonly capable: boolean;
    readonly sent: readonly SentHintRecord[];
    readonly policies: readonly {
      readonly name: string;
      readonly result: string;
      readonly reason?: string;
      readonly error_code?: string;
      readonly actions?: number;
      readonly us: number;
    }[];
    readonly commit: CommitRecord | null;
  } | null;
  readonly prediction: {
    readonly cached_tokens: number;
    /** Where these lie. */
    readonly cached_by_tier: { readonly device: number; readonly host: number };
    readonly with_hints_tokens: number;
  } | null;
  readonly report: {
    readonly cached_tokens: number | null;
    readonly prompt_tokens: number | null;
    readonly output_tokens: number | null;
    readonly source: string;
  } | null;
  readonly outcome: {
    readonly status: number;
    readonly finish: string | null;
    /** From arrival, waits included, to the first output token; null when none came, or when the answer came as a whole, so that nobody saw it. */
    readonly ttft_ms: number | null;
    /** From the same arrival to the end. */
    readonly e2e_ms: number;
    readonly retries: number;
  } | null;
  readonly wall: {
    readonly tokenize_us: number;
    readonly hash_us: number;
    readonly lookup_us: number;
    readonly select_us: number;
    readonly hint_us: number;
  };
}

/** Which decisions are looked for; all of what is given must hold. */
export interface DecisionFilter {
  readonly sessionIdHash?: string;
  /** In clear, as its client sent it; the reader compares hashes. */
  readonly sessionId?: string;
  readonly workerId?: bigint;
}

/** Reads decisions; newest first. {@link NO_DECISIONS} where none are kept. */
export interface DecisionReader {
  list(limit: number, filter: DecisionFilter): readonly DecisionRecord[];
  /** By decision id. */
  get(id: string): DecisionRecord | null;
  /** All attempts of one request, oldest first. */
  ofRequest(requestId: string): readonly DecisionRecord[];
}

/** What is read where no record is kept. */
export const NO_DECISIONS: DecisionReader & BookingReader = {
  list: () => [],
  get: () => null,
  ofRequest: () => [],
  booking: () => null,
  bookingsOf: () => [],
};

/** Of a decision what follows from it while its request is under way; who else could have been chosen is left out. */
export type DecisionBooking = Pick<
  DecisionRecord,
  'attempt' | 'handoff' | 'hints' | 'prediction' | 'request_id'
>;

/** Reads decisions for whoever needs little of each. */
export interface BookingReader {
  /** By decision id. */
  booking(id: string): DecisionBooking | null;
  /** All attempts of one request, oldest first. */
  bookingsOf(requestId: string): readonly DecisionBooking[];
}

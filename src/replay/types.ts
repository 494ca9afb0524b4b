// What a replay needs from the router, and what it reports. Replay drives the road as a door does; who builds the router decides
// what stands behind these ports.
import type { RouterMode } from '../config/index.ts';
import type { EngineTransport } from '../engines/index.ts';
import type { EventFeed, KvEventReplay } from '../events/index.ts';
import type { BookingReader, DecisionReader } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { Road } from '../road/index.ts';
import type { HandoffKind, TimingName, VirtualEventLink, VirtualWorker } from '../simulator/index.ts';
import type { Percentiles } from './distribution.ts';
import type { SessionSettings } from './session-plan.ts';

/** How a run routes: a router mode, or in mode `kv` a built-in worker-selection policy with its defaults, or a policy file. */
export type RoutingChoice =
  | { readonly kind: 'mode'; readonly mode: RouterMode }
  | { readonly kind: 'built-in'; readonly type: string }
  | { readonly kind: 'policy'; readonly file: string };

/** What a router for one run is built from. */
export interface ReplayRouterOptions {
  readonly choice: RoutingChoice;
  readonly seed: number;
  readonly clock: Clock;
  readonly transport: EngineTransport;
  /** The only model; workers serve it under the same name. */
  readonly model: string;
  readonly blockSize: number;
  readonly workers: readonly VirtualWorker[];
}

/** Failures of one policy for one reason. */
export interface PolicyFault {
  /** Type of the worker-selection policy or request classifier, or name of the hint policy. */
  readonly policy: string;
  /** What was lost: its choice, in whose place the default cost decided, its actions, or its word on a request. */
  readonly lost: 'choice' | 'actions' | 'classification';
  /** Error code of a lost choice or classification; reason for which actions were dropped. */
  readonly reason: string;
  readonly count: number;
}

/** A router under replay. */
export interface ReplayRouter {
  readonly road: Road;
  readonly decisions: DecisionReader & BookingReader;
  /** Where the KV events of a worker belong; null when the router keeps no index. */
  eventLink(workerId: bigint): VirtualEventLink | null;
  /** State of a worker's event stream; null = nothing was heard, or the router keeps no index. */
  eventFeed(workerId: bigint): EventFeed | null;
  /** Where the engine of a worker can be asked for missed events. */
  askEventsAt(workerId: bigint, replay: KvEventReplay): void;
  /** What its policies did wrong so far. */
  policyFaults(): readonly PolicyFault[];
  close(): Promise<void>;
}

/** Builds a router; errors about the choice or its file are thrown before anything runs. */
export type ComposeReplayRouter = (options: ReplayRouterOptions) => Promise<ReplayRouter>;

/** How a session trace is replayed, as reported. */
export interface SessionReplaySettings extends SessionSettings {
  /** KV blocks of all workers together, as a share of the peak live working set; absent = they were given as a number. */
  readonly memory?: number;
  /** Host blocks likewise. */
  readonly host_memory?: number;
}

/** Settings of a replay, as reported. */
export interface ReplaySettings {
  readonly workers: number;
  readonly block_size: number;
  readonly kv_blocks: number | 'unlimited';
  readonly timing: TimingName;
  readonly model: 'engine' | 'block-list';
  readonly speedup: number;
  /** Of a request trace: how much work it is for the workers, see `offeredLoad`; `speedup` is what makes it so. Absent = not asked for. */
  readonly load?: number;
  /** Requests of the trace left out before the first one; absent = none. */
  readonly skip?: number;
  readonly limit: number | null;
  /** Requests with the same time come at random times before the next one; absent = together. */
  readonly spread_arrivals?: true;
  /** Share of the requests, of those sent first, whose latencies are not counted; absent = all are. */
  readonly warm_up?: number;
  /** Routers that share nothing but the engines and their events, and get the requests in turn; absent = one. */
  readonly routers?: number;
  /** Of a request trace: KV blocks of all workers, in different blocks of the trace; absent = they were given as a number. */
  readonly memory?: number;
  /** Link of an engine to its peers, Gbit/s; absent = the engine's own. */
  readonly nic_gbps?: number;
  readonly seed: number;
  readonly cut_events: boolean;
  /** Engines repeat missed events on demand; absent = only where something goes wrong with their events. */
  readonly event_replay?: boolean;
  /** Blocks of host memory per worker, and the link to it; absent = none. */
  readonly host_kv_blocks?: number;
  readonly host_gbps?: number;
  /** What goes wrong with live event messages; absent = nothing. */
  readonly event_faults?: {
    readonly drop: number;
    readonly duplicate: number;
    readonly reorder: number;
    readonly window: number;
    readonly delay_ms: number;
  };
  /** Engines that die and come back empty, in virtual time; absent = none. */
  readonly restart_engines?: readonly { readonly worker: number; readonly at_ms: number }[];
  /** Workers that compute prompts and workers that decode, in this order; absent = all do both. Together they are `workers`. */
  readonly prefill_workers?: number;
  readonly decode_workers?: number;
  /** How the former hand KV over to the latter; absent = nixl. */
  readonly handoff?: HandoffKind;
  /** Hint actions that the engines take and answer without doing anything; absent = none. */
  readonly accept_actions?: readonly string[];
  /** Of a session trace; absent for requests at their own times. */
  readonly sessions?: SessionReplaySettings;
}

/** Totals of one worker. */
export interface WorkerReport {
  readonly worker: number;
  readonly requests: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly preemptions: number;
  /** Time of prompt work; absent under the timings `default` and `none`. */
  readonly prefill_ms?: number;
  /** Blocks copied back from host memory instead of being computed; absent without a host tier. */
  readonly onboarded_blocks?: number;
  /** Blocks that went from the device to host memory; absent without a host tier. */
  readonly offloaded_blocks?: number;
}

/** Copies that selection committed; made = sent + degraded + released. */
export interface CommitReport {
  readonly made: number;
  readonly sent: number;
  readonly degraded: number;
  readonly released: number;
  /** Sent ones whose request completed. */
  readonly sent_and_completed: number;
  /** Those of them for which the engine reported at least the credited prefix as cached. */
  readonly sent_and_covered: number;
}

/** Actions that engines refused, of one hint policy and for one reason. */
export interface HintRejection {
  /** Name of the hint policy. */
  readonly policy: string;
  /** `type@version` of the actions. */
  readonly action: string;
  /** The engine's word: `malformed`, `unsupported`, `policy` (another of its kind came first), `no_room`, `in_use`; null = it gave none. */
  readonly reason: string | null;
  readonly count: number;
}

/** Hints as the engines received and answered them. */
export interface HintReport {
  readonly actions_by_type: Readonly<Record<string, number>>;
  /** Actions by what became of them: a deferred one counts as what was told of it first since, as `deferred` while nothing was. */
  readonly outcomes: Readonly<Record<string, number>>;
  readonly fetched_blocks: number;
  readonly fetched_bytes: number;
  /** Absent when no action was rejected. */
  readonly rejections?: readonly HintRejection[];
  /** Absent when nothing was committed. */
  readonly commits?: CommitReport;
}

/** Where prompts were computed, in requests. */
export interface DisaggregationReport {
  readonly remote_prefills: number;
  /** By the decode worker, as it was better so. */
  readonly bypassed: number;
  /** By the decode worker, as no prefill worker was there. */
  readonly fallbacks: number;
}

/** What became of the event streams; worker numbers from 1. */
export interface EventReport {
  /** Batches of theirs are lost for good. */
  readonly stale_workers: readonly number[];
  /** Their history did not reach back. */
  readonly partial_workers: readonly number[];
  readonly missed_batches: number;
  readonly duplicates: number;
  readonly restarts: number;
  readonly replays_asked: number;
  readonly replayed_batches: number;
  /** Σ |tokens expected to be cached − tokens reported as cached| / Σ prompt tokens. */
  readonly misprediction_rate_tokens: number | null;
}

/** What sessions saw. */
export interface SessionReport {
  /** Sub-agents counted as sessions. */
  readonly sessions: number;
  /** Answered turns that are not the first of their session. */
  readonly resumed_turns: number;
  readonly resumed_ttft_ms: Percentiles;
  /** Σ tokens reported as cached / Σ prompt tokens, of resumed turns. */
  readonly resumed_hit_rate_tokens: number | null;
  /** Blocks that left the device of a worker, for whatever reason. */
  readonly evicted_blocks: number;
  /** Those of them that a turn not yet sent has in its prompt. */
  readonly live_evictions: number;
  /** Blocks that engines gave up because a `kv.evict` said so. */
  readonly released_blocks: number;
}

/** One run. Rates lie in [0, 1]; null = nothing to divide by, or no index to predict from. */
export interface RunReport {
  readonly name: string;
  readonly requests: number;
  readonly completed: number;
  /** Refused by the engine as larger than its pool. */
  readonly rejected: number;
  /** Refused or ended by the router. */
  readonly failed: number;
  /** Refused by the router by load; absent = none was. */
  readonly refused?: number;
  /** Σ full blocks reported as cached / Σ blocks of the prompts, partial tails counted. */
  readonly prefix_hit_rate: number | null;
  /** Σ tokens reported as cached / Σ prompt tokens. */
  readonly prefix_hit_rate_tokens: number | null;
  /** Σ cached tokens the router expected at the chosen worker / Σ prompt tokens. */
  readonly predicted_hit_rate_tokens: number | null;
  readonly ttft_ms: Percentiles;
  /** All gaps between two tokens of a request, pooled. */
  readonly itl_ms: Percentiles;
  readonly e2e_ms: Percentiles;
  readonly queue_wait_ms: Percentiles;
  readonly duration_ms: number;
  readonly output_tok_s: number | null;
  readonly hints: HintReport;
  /** Of a session trace; absent for requests at their own times. */
  readonly sessions?: SessionReport;
  /** Where prompts were computed; absent where all workers do both. */
  readonly disaggregation?: DisaggregationReport;
  /** Absent where nothing goes wrong with events, or the router keeps no index. */
  readonly events?: EventReport;
  /** What the run's policies did wrong; empty where the figures are those of the policies alone. */
  readonly policy_faults: readonly PolicyFault[];
  readonly workers: readonly WorkerReport[];
}

/** Wall-clock figures of one run: the only part that differs between two equal runs. */
export interface RunWall {
  readonly name: string;
  readonly run_ms: number;
  /** From a request's arrival to the end of its dispatch, µs. */
  readonly decision_us: Percentiles;
}

/** What of a session trace is replayed. `requests`, tokens and `duration_ms` beside it are of all copies, in a dry run. */
export interface SessionTraceReport {
  /** Lines of the trace, and those left out for a prompt above `max_context`. */
  readonly lines: number;
  readonly dropped: number;
  /** Sessions of all copies, sub-agents included. */
  readonly sessions: number;
  readonly sub_agents: number;
  /** Peak live working set, in blocks of the trace and in tokens. */
  readonly working_set_blocks: number;
  readonly working_set_tokens: number;
}

/** The whole report. */
export interface ReplayReport {
  readonly trace: {
    readonly name: string;
    readonly block_size: number;
    readonly requests: number;
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly duration_ms: number;
    /** Of a session trace; absent for requests at their own times. */
    readonly sessions?: SessionTraceReport;
  };
  readonly settings: ReplaySettings;
  readonly runs: readonly RunReport[];
  readonly wall: { readonly runs: readonly RunWall[] };
}

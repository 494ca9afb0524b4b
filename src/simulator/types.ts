// The simulated engine as a pure machine: no waiting, no sockets. A wire shell and a virtual shell drive it.
import type { KvEvent } from '../events/index.ts';
import type { BlockHasher, HashPairs, Tier } from '../kv/index.ts';

/** Which part of a request an engine serves. */
export type SimulatedRole = 'aggregated' | 'prefill' | 'decode';

/**
 * How a prompt's KV gets from the engine that computes it to the one that decodes: `nixl`, as the prefill's answer says; `nixl_push` and
 * `mooncake`, by a name known before; `bootstrap`, by a room in which both meet.
 */
export const HANDOFF_KINDS = ['nixl', 'nixl_push', 'mooncake', 'bootstrap'] as const;
/** One of {@link HANDOFF_KINDS}. */
export type HandoffKind = (typeof HANDOFF_KINDS)[number];

/** Settings of one simulated rank. */
export interface SimulatedEngineSettings {
  readonly model: string;
  /** Tokens per KV block. */
  readonly blockSize: number;
  /** Pool size in blocks; null = unlimited. */
  readonly kvBlocks: number | null;
  /** Blocks of host memory behind the device pool; 0 = none. Needs a bounded pool and the cache model `engine`. */
  readonly hostKvBlocks: number;
  /** Link from host memory to the device, Gbit/s. */
  readonly hostGbps: number;
  /** Seed of the external hashes: XXH3_64(le64(router sequence hash), seed). */
  readonly hashSeed: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  /** Divides every modelled time; > 0. */
  readonly speedup: number;
  /** `default` = the polynomials; `none` = every pass takes no time. */
  readonly timing: 'default' | 'none';
  /** `block-list`: prompts are whole blocks, no outputs, no last-token rule, blocks touched in prompt order. */
  readonly cacheModel: 'engine' | 'block-list';
  readonly kvBytesPerToken: number;
  readonly nicGbps: number;
  readonly fetchLatencyMs: number;
  readonly fetchReserveTimeoutMs: number;
  readonly fetchTimeoutMs: number;
  /** What it is used for; an engine of one side refuses requests of the other. */
  readonly role: SimulatedRole;
  /** How it says that its KV is handed over: to a router, that is; a request says itself what it wants. */
  readonly handoff: HandoffKind;
  /** How long blocks wait for the engine that decodes, and how long that waits for them. */
  readonly handoffTimeoutMs: number;
  /** Share of the pool's blocks that can be retained at a time, 0 to 1; no bound for an unlimited pool. */
  readonly retainedShare: number;
  /** Advertised actions; null = none advertised (`--no-action-set`). */
  readonly actions: readonly string[] | null;
  /** Further `type@version`s that are advertised as well and answered `accepted` without doing anything. */
  readonly acceptedActions: readonly string[];
  readonly seed: number;
}

/** A request to a simulated engine. */
export interface SimulatedRequest {
  readonly id: string;
  readonly tokens: Uint32Array;
  /** Output tokens to generate; 0 only in `block-list`. */
  readonly outputTokens: number;
  readonly sessionId: string | null;
  /** The hint envelope as it was received, unchecked; null = none. A malformed one is rejected, never the request. */
  readonly hint: unknown;
  /** Its part in a handoff; null or absent = none. */
  readonly handoff?: SimulatedHandoff | null;
  /** Separates its blocks from those of requests with another one; null or absent = none. */
  readonly cacheSalt?: string | null;
}

/** One request's part in a handoff of KV between two engines. */
export type SimulatedHandoff =
  | {
      readonly leg: 'prefill';
      /** What the taker asks for; not in use in this engine. */
      readonly key: string;
      /** Nothing is computed before the taker has come, and the request ends when it has everything. */
      readonly rendezvous: boolean;
    }
  | {
      readonly leg: 'decode';
      /** Control channel of the engine that computes the prompt. */
      readonly endpoint: string;
      /** Which run of that engine is meant; null = any. */
      readonly engineId: string | null;
      readonly key: string;
      /** The other engine may not have heard of the key yet; otherwise an unknown one means that the blocks are gone. */
      readonly early: boolean;
    };

/** Why a handoff failed; `too_short` = the other engine's prompt was another one. */
export type HandoffFailure = FetchRefusal | 'timeout' | 'too_short' | 'taker_gone';

/** How a request ended. */
export interface SimulatedResult {
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** It needs more blocks than the pool has; nothing was generated. */
  readonly rejected: boolean;
  /** Blocks that wait for the engine that decodes; absent = none. */
  readonly handoff?: { readonly key: string; readonly blockIds: readonly number[] };
  /** It ended because its handoff failed; absent = it did not. */
  readonly failure?: HandoffFailure;
}

/** Outcome of one hint action at admission. */
export interface SimulatedHintOutcome {
  readonly action_id: string;
  readonly outcome: 'accepted' | 'clipped' | 'deferred' | 'rejected' | 'missing';
  readonly reason?: string;
  readonly blocks_asked?: number;
  readonly blocks_done?: number;
  readonly bytes?: number;
  readonly ms?: number;
}

/** What the machine tells its shell during `submit`, `abort` and `advance`. */
export interface SimulatorSink {
  /** The request left the waiting queue for the first time; outcomes of its hints are known. */
  admitted(id: string, cachedTokens: number, outcomes: readonly SimulatedHintOutcome[], at: number): void;
  /** One more output token, at simulated time `at`. */
  chunk(id: string, tokenId: number, at: number): void;
  /** The last token is out, or the request was given up; `result` says why. */
  finished(id: string, result: SimulatedResult, at: number): void;
  /** KV events of one pass, in order, to be published as one batch. */
  kvEvents(events: readonly KvEvent[], at: number): void;
  /** A transfer between engines began or ended; `end` blocks are resident. */
  transfer(phase: 'start' | 'end', id: string, blocks: number, at: number): void;
}

/** What a source is asked for by a peer's fetch. */
export interface FetchGrantRequest {
  /** Names the grant for `releaseFetch`; unique over all peers, so a shell joins the peer's identity and its id. */
  readonly key: string;
  /** First wanted index of `blockHashes`. */
  readonly from: number;
  /** Root-aligned, in the hashes of the asked engine. */
  readonly blockHashes: BigUint64Array;
  /** Blocks stay pinned at most this long, ms. */
  readonly deadlineMs: number;
}

/** What a source is asked for by the engine that decodes a prompt it computes. */
export interface HandoffClaim {
  /** Names the claim for `releaseFetch`; unique over all peers, as that of a fetch. */
  readonly key: string;
  /** The handoff's own key. */
  readonly handoff: string;
  /** Which run of the engine is meant; null = any. */
  readonly engineId: string | null;
  /** Blocks before it are not needed. */
  readonly from: number;
  /** Whether to wait for a handoff that is not known. */
  readonly early: boolean;
  readonly deadlineMs: number;
}

/** Why a source grants nothing; `unreachable` is set by the asking side. */
export type FetchRefusal = 'wrong_epoch' | 'busy' | 'too_many' | 'nothing_held' | 'unreachable';

/** A source's answer: `held` is an exclusive index into the asked hashes, `gbps` the share of its link offered now. */
export type FetchAnswer =
  | {
      readonly held: number;
      readonly bytes?: number;
      readonly gbps: number;
      /** Of a prompt computed for another engine: tokens that were cached, where the engines tell each other. */
      readonly cachedTokens?: number;
    }
  | { readonly error: FetchRefusal };

/** Gauges of one rank. */
export interface SimulatedEngineStats {
  readonly running: number;
  readonly waiting: number;
  /** Requests parked until KV arrives from a peer or from host memory. */
  readonly parked: number;
  /** Blocks that running requests, transfers and grants hold. */
  readonly activeBlocks: number;
  /** Blocks with contents that nobody holds: reusable and evictable. */
  readonly inactiveBlocks: number;
  /** null = unlimited. */
  readonly totalBlocks: number | null;
  readonly preemptions: number;
  /** Blocks in host memory. */
  readonly hostBlocks: number;
  /** Blocks that went from the device to host memory since the start. */
  readonly offloadedBlocks: number;
  /** Blocks that came back from there for a request. */
  readonly onboardedBlocks: number;
  /** Prefills that are computed for another engine, or wait for it. */
  readonly handoffs: number;
  /** Blocks that are retained now. */
  readonly retainedBlocks: number;
  /** Blocks whose last device copy was evicted to make room, since the start. */
  readonly evictedForRoom: number;
  /** The same because a hint asked for it. */
  readonly evictedByHint: number;
}

/** What an engine is built with besides its settings. */
export interface SimulatedEngineParts {
  readonly hasher: BlockHasher;
  /** How peers are asked for blocks; without it every fetch is `missing`. */
  readonly peers?: PeerDirectory;
  /** Tells the peer behind a grant that the share of the link it gets has changed. */
  readonly announceRate?: (key: string, gbps: number) => void;
  /** Hears of each block whose last device copy goes, by its own hash; `demotion` and `hint` were asked for. */
  readonly onEvicted?: (lo: number, hi: number, cause: 'room' | 'demotion' | 'hint') => void;
  /** Names this run of the engine to those that take its KV. */
  readonly engineId?: string;
  /** Output token ids are drawn from [0, vocabulary); default 32,768. */
  readonly vocabulary?: number;
}

/**
 * The pure machine of one rank. Times are ms; `advance` must be called at or after `nextEventAt()`, which may lie in the past
 * when something is due at once. After every call from outside (also an answer of the peer directory) the shell asks
 * `nextEventAt()` again. Sink calls may call `submit`, `abort` and `releaseFetch` of the same engine, not `advance`.
 */
export interface SimulatedEngine {
  /** @throws PM_SIM_REQUEST for an id in use, an empty prompt or a negative output length; nothing is changed then. */
  submit(request: SimulatedRequest, now: number): void;
  /** Frees everything the request holds; an unknown id is ignored. No sink call follows for it. */
  abort(id: string, now: number): void;
  /** When something happens next; null = idle. */
  nextEventAt(): number | null;
  advance(now: number, sink: SimulatorSink): void;
  /** Source side of a fetch: pins the prefix that is resident now, when it reaches beyond `from`. */
  grantFetch(request: FetchGrantRequest, now: number): FetchAnswer;
  /** Unpins a grant, of a fetch or a handoff; an unknown key is ignored. `how` absent = done. */
  releaseFetch(key: string, now: number, how?: 'done' | 'cancel'): void;
  /**
   * Giving side of a handoff. Answers once the prompt is computed, or when it will not be; at once or later. The blocks stay pinned
   * until `releaseFetch`, or until the time is over.
   */
  claimHandoff(claim: HandoffClaim, now: number, answered: (answer: FetchAnswer) => void): void;
  /** Nobody will claim this handoff: its blocks are let go, or will be. */
  dropHandoff(handoff: string, now: number): void;
  stats(): SimulatedEngineStats;
  /** Hashes of the blocks with contents on a tier, in no order: what a listener that missed nothing knows of the engine. */
  residentBlocks(tier: Tier): HashPairs;
  /** The engine's process dies: nothing more flows to its peers, and its own fetches are given up. To be called last. */
  die(now: number): void;
}

/** An engine's death at a time; a new one takes its place at once, with an empty pool and a new epoch. */
export interface EngineRestart {
  /** 1, 2, …. */
  readonly worker: number;
  /** ms since the start. */
  readonly atMs: number;
}

/** What a fetch target asks of a source rank. Both shells implement it: a map in memory, ZeroMQ between processes. */
export interface PeerDirectory {
  /**
   * Asks `endpoint` how long a prefix of `blockHashes` (root-aligned, at most 4,096) it holds; [from, held) will move. The
   * answer comes through `answered`, at once or later, once. The engine stops waiting after `fetchReserveTimeoutMs` by itself
   * and releases the id; a later answer is ignored.
   * @param request `deadlineMs`: how long the source may keep the blocks pinned.
   * @param rateChanged the source's link share for this transfer is now another, in Gbit/s.
   */
  reserve(
    endpoint: string,
    request: {
      readonly id: number;
      readonly from: number;
      readonly blockHashes: BigUint64Array;
      readonly deadlineMs: number;
    },
    answered: (answer: FetchAnswer) => void,
    rateChanged?: (gbps: number) => void,
  ): void;
  /** Frees the source's pins; unknown ids are ignored. */
  release(endpoint: string, id: number, how: 'done' | 'cancel'): void;
  /** Asks for a computed prompt, as `reserve` does for cached blocks; the answer may take as long as computing it does. */
  claim(
    endpoint: string,
    request: {
      readonly id: number;
      readonly handoff: string;
      readonly engineId: string | null;
      readonly from: number;
      readonly early: boolean;
      readonly deadlineMs: number;
    },
    answered: (answer: FetchAnswer) => void,
    rateChanged: (gbps: number) => void,
  ): void;
  /** Tells that nobody will claim a handoff. */
  drop(endpoint: string, handoff: string): void;
}

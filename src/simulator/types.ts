// The simulated engine as a pure machine: no waiting, no sockets. A wire shell and a virtual shell drive it.
import type { KvEvent } from '../events/index.ts';
import type { KvHint } from '../plugin/index.ts';

/** Settings of one simulated rank. */
export interface SimulatedEngineSettings {
  readonly model: string;
  /** Tokens per KV block. */
  readonly blockSize: number;
  /** Pool size in blocks; null = unlimited. */
  readonly kvBlocks: number | null;
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
  /** Advertised actions; null = none advertised (`--no-action-set`). */
  readonly actions: readonly string[] | null;
  readonly seed: number;
}

/** A request to a simulated engine. */
export interface SimulatedRequest {
  readonly id: string;
  readonly tokens: Uint32Array;
  /** Output tokens to generate; 0 only in `block-list`. */
  readonly outputTokens: number;
  readonly sessionId: string | null;
  readonly hint: KvHint | null;
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
  /** The last token is out; or the request was rejected as too large for the pool. */
  finished(
    id: string,
    result: { readonly cachedTokens: number; readonly outputTokens: number; readonly rejected: boolean },
    at: number,
  ): void;
  /** KV events of one pass, in order, to be published as one batch. */
  kvEvents(events: readonly KvEvent[], at: number): void;
  /** A transfer between engines began or ended; `end` blocks are resident. */
  transfer(phase: 'start' | 'end', id: string, blocks: number, at: number): void;
}

/** The pure machine of one rank. Times are ms; `advance` must be called at or after `nextEventAt()`. */
export interface SimulatedEngine {
  submit(request: SimulatedRequest, now: number): void;
  abort(id: string, now: number): void;
  /** When something happens next; null = idle. */
  nextEventAt(): number | null;
  advance(now: number, sink: SimulatorSink): void;
}

/** What a fetch target asks of a source rank. Both shells implement it: a map in memory, ZeroMQ between processes. */
export interface PeerDirectory {
  /**
   * Asks `endpoint` which leading part of `blockHashes` it holds from index `from` on. The answer comes through `answered`
   * (held = resident prefix length, 0 = nothing); no answer within `deadlineMs` counts as lost.
   */
  reserve(
    endpoint: string,
    request: {
      readonly id: number;
      readonly from: number;
      readonly blockHashes: BigUint64Array;
      readonly deadlineMs: number;
    },
    answered: (
      answer:
        | { readonly held: number; readonly gbps: number }
        | { readonly error: 'wrong_epoch' | 'busy' | 'too_many' | 'nothing_held' | 'unreachable' },
    ) => void,
  ): void;
  /** Frees the source's pins; unknown ids are ignored. */
  release(endpoint: string, id: number, how: 'done' | 'cancel'): void;
}

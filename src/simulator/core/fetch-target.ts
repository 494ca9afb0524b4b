// The taking side of `kv.fetch`: a request that a peer can spare work is parked, asks the peer, waits for the transfer and goes
// back to the head of the queue with its blocks; or, after a bounded wait, without them.
import { fromBigUint64Array, type HashPairs } from '../../kv/index.ts';
import type { FetchAnswer, PeerDirectory, SimulatedEngineSettings, SimulatedHintOutcome } from '../types.ts';
import { MAX_FETCH_HASHES } from './hint-payloads.ts';
import type { FetchPlan } from './hint-plan.ts';
import type { KvPool } from './kv-pool.ts';
import type { LinkShare } from './link-share.ts';
import type { RequestState } from './request-state.ts';
import { type Flow, flowEndsAt, settleFlow } from './transfer-flow.ts';

/** What the machine does when a fetch moves on. */
export interface FetchListener {
  /** Blocks start to move. */
  started(request: RequestState, blocks: number, at: number): void;
  /** Blocks [from, held) arrived and belong to the request, private so far. */
  arrived(request: RequestState, from: number, held: number, at: number): void;
  /** The request is to be queued again, at the head; after a failed fetch it holds nothing. */
  resumed(request: RequestState, at: number): void;
}

interface Fetch extends Flow {
  readonly request: RequestState;
  readonly plan: FetchPlan;
  readonly id: number;
  /** Local prefix, held by the request from the start. */
  readonly from: number;
  /** Exclusive end of what was asked for. */
  readonly asked: number;
  readonly askedAt: number;
  readonly reserveBy: number;
  readonly giveUpAt: number;
  /** Exclusive end of what moves; 0 = the source has not answered. */
  held: number;
}

type Notice = { readonly id: number } & ({ readonly answer: FetchAnswer } | { readonly gbps: number });

/** Fetches of one rank. */
export class FetchTarget {
  readonly #settings: SimulatedEngineSettings;
  readonly #pool: KvPool;
  readonly #link: LinkShare;
  readonly #peers: PeerDirectory | null;
  readonly #listener: FetchListener;
  readonly #newId: () => number;
  readonly #fetches = new Map<number, Fetch>();
  /** What peers said since the last `advance`. */
  #notices: Notice[] = [];

  constructor(
    settings: SimulatedEngineSettings,
    pool: KvPool,
    link: LinkShare,
    peers: PeerDirectory | null,
    listener: FetchListener,
    newId: () => number,
  ) {
    this.#settings = settings;
    this.#pool = pool;
    this.#link = link;
    this.#peers = peers;
    this.#listener = listener;
    this.#newId = newId;
    link.onChange({ before: (at) => this.#settle(at) });
  }

  /** Requests parked now. */
  get parked(): number {
    return this.#fetches.size;
  }

  /** Whether a peer said something that `advance` has not taken up. */
  get hasNotices(): boolean {
    return this.#notices.length > 0;
  }

  /** Time of the next end or timeout, ms; infinite when nothing is under way. */
  get nextDue(): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.#fetches.size === 0) return next;
    for (const fetch of this.#fetches.values()) next = Math.min(next, this.#dueAt(fetch));
    return next;
  }

  /** Parks the request when its fetch promises more than the local prefix; `reusable` = blocks of its prompt that may be reused. */
  attempt(request: RequestState, reusable: number, now: number): boolean {
    const plan = request.fetch!;
    request.fetch = null;
    const asked = plan.blockHashes.length;
    const hashes = fromBigUint64Array(plan.blockHashes);
    const matching = commonPrefix(hashes, request.external, Math.min(asked, reusable, MAX_FETCH_HASHES));
    const from = this.#pool.residentUntil(request.external, request.blocks, reusable);
    const outcome = (kind: SimulatedHintOutcome['outcome'], reason?: string): false => {
      settleOutcome(request, plan, kind, { blocks: 0, bytes: 0, ms: 0 }, reason);
      return false;
    };
    if (Math.min(asked, reusable) <= from) return outcome('accepted');
    // Hashes that are not this engine's own name blocks it could never use.
    if (matching <= from) return outcome('missing', 'hash_mismatch');
    if (this.#peers === null) return outcome('missing', 'unreachable');
    const id = this.#newId();
    // What was copied back from host memory is held already.
    this.#pool.acquire(request.external, request.blocks, from, request.table);
    request.blocks = from;
    request.cachedBlocks = from;
    request.status = 'parked';
    this.#fetches.set(id, {
      request,
      plan,
      id,
      from,
      asked: matching,
      askedAt: now,
      reserveBy: now + this.#settings.fetchReserveTimeoutMs,
      giveUpAt: now + this.#settings.fetchTimeoutMs,
      held: 0,
      remainingBits: 0,
      flowsFrom: 0,
      sourceGbps: 0,
    });
    this.#peers.reserve(
      plan.endpoint,
      {
        id,
        from,
        blockHashes: plan.blockHashes.slice(0, matching),
        deadlineMs: this.#settings.fetchTimeoutMs,
      },
      (answer) => this.#notices.push({ id, answer }),
      (gbps) => this.#notices.push({ id, gbps }),
    );
    return true;
  }

  /** Ends the fetch of an aborted request; its blocks are the caller's to release. */
  cancel(request: RequestState, now: number): void {
    for (const fetch of this.#fetches.values()) {
      if (fetch.request === request) this.#close(fetch, 'cancel', now);
    }
  }

  /** Gives all fetches up; their requests are lost with the engine. */
  abandon(now: number): void {
    for (const fetch of [...this.#fetches.values()]) this.#close(fetch, 'cancel', now);
  }

  /** Takes up what peers said. */
  takeNotices(now: number): void {
    const notices = this.#notices;
    this.#notices = [];
    for (const notice of notices) {
      const fetch = this.#fetches.get(notice.id);
      if (fetch === undefined) continue;
      if ('answer' in notice) this.#answered(fetch, notice.answer, now);
      else if (fetch.held > 0) {
        this.#settle(now);
        fetch.sourceGbps = notice.gbps;
      }
    }
  }

  /** Ends every transfer and wait that is due. */
  advance(now: number): void {
    for (const fetch of [...this.#fetches.values()]) {
      if (this.#dueAt(fetch) > now) continue;
      if (fetch.held === 0 || fetch.giveUpAt <= now) this.#fail(fetch, 'missing', 'timeout', now);
      else this.#complete(fetch, now);
    }
  }

  #answered(fetch: Fetch, answer: FetchAnswer, now: number): void {
    if (fetch.held > 0) return;
    if ('error' in answer) {
      this.#fail(fetch, 'missing', answer.error, now);
      return;
    }
    const { request } = fetch;
    const held = Math.min(answer.held, fetch.asked);
    if (held <= fetch.from) {
      this.#fail(fetch, 'missing', 'nothing_held', now);
      return;
    }
    if (this.#pool.available < held - fetch.from) {
      this.#fail(fetch, 'rejected', 'no_room', now);
      return;
    }
    request.blocks = this.#pool.allocate(request.table, fetch.from, held);
    const { fetchLatencyMs, speedup, timing } = this.#settings;
    const free = timing === 'none';
    fetch.held = held;
    fetch.sourceGbps = answer.gbps;
    fetch.remainingBits = free ? 0 : 8 * this.#bytes(fetch);
    fetch.flowsFrom = free ? now : now + fetchLatencyMs / speedup;
    this.#listener.started(request, held - fetch.from, now);
    this.#link.join(now);
  }

  #complete(fetch: Fetch, now: number): void {
    const blocks = fetch.held - fetch.from;
    const kind = fetch.held < fetch.plan.blockHashes.length ? 'clipped' : 'accepted';
    settleOutcome(fetch.request, fetch.plan, kind, {
      blocks,
      bytes: this.#bytes(fetch),
      ms: now - fetch.askedAt,
    });
    this.#close(fetch, 'done', now);
    this.#listener.arrived(fetch.request, fetch.from, fetch.held, now);
    this.#listener.resumed(fetch.request, now);
  }

  #fail(fetch: Fetch, kind: SimulatedHintOutcome['outcome'], reason: string, now: number): void {
    const { request } = fetch;
    settleOutcome(request, fetch.plan, kind, { blocks: 0, bytes: 0, ms: now - fetch.askedAt }, reason);
    this.#close(fetch, 'cancel', now);
    this.#pool.release(request.table, 0, request.blocks);
    request.blocks = 0;
    request.cachedBlocks = 0;
    this.#listener.resumed(request, now);
  }

  #close(fetch: Fetch, how: 'done' | 'cancel', now: number): void {
    this.#fetches.delete(fetch.id);
    this.#peers?.release(fetch.plan.endpoint, fetch.id, how);
    if (fetch.held > 0) this.#link.leave(now);
  }

  #bytes(fetch: Fetch): number {
    return (fetch.held - fetch.from) * this.#settings.blockSize * this.#settings.kvBytesPerToken;
  }

  #dueAt(fetch: Fetch): number {
    if (fetch.held === 0) return Math.min(fetch.reserveBy, fetch.giveUpAt);
    return Math.min(fetch.giveUpAt, flowEndsAt(fetch, this.#link, this.#settings.speedup));
  }

  #settle(now: number): void {
    for (const fetch of this.#fetches.values()) {
      if (fetch.held > 0) settleFlow(fetch, this.#link, this.#settings.speedup, now);
    }
  }
}

function commonPrefix(a: HashPairs, b: HashPairs, blocks: number): number {
  let index = 0;
  while (index < blocks && a[2 * index] === b[2 * index] && a[2 * index + 1] === b[2 * index + 1]) index += 1;
  return index;
}

function settleOutcome(
  request: RequestState,
  plan: FetchPlan,
  outcome: SimulatedHintOutcome['outcome'],
  done: { readonly blocks: number; readonly bytes: number; readonly ms: number },
  reason?: string,
): void {
  request.outcomes[plan.position] = {
    action_id: plan.actionId,
    outcome,
    ...(reason === undefined ? {} : { reason }),
    blocks_asked: plan.blockHashes.length,
    blocks_done: done.blocks,
    bytes: done.bytes,
    ms: done.ms,
  };
}

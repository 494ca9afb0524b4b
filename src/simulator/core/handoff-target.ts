// The taking side of a handoff: a request whose prompt another engine computes gets its blocks here, is parked until they are filled,
// and goes on with its first token. Where they do not come, the request fails: nobody computes its prompt in secret.
import type { FetchAnswer, HandoffFailure, PeerDirectory, SimulatedEngineSettings } from '../types.ts';
import type { KvPool } from './kv-pool.ts';
import type { LinkShare } from './link-share.ts';
import type { RequestState } from './request-state.ts';
import { type Flow, flowEndsAt, settleFlow } from './transfer-flow.ts';

/** What the machine does when a handoff moves on. */
export interface HandoffTargetListener {
  /** Blocks start to move. */
  started(request: RequestState, blocks: number, at: number): void;
  /** Blocks [from, held) arrived and belong to the request, private so far; it is to be queued again, at the head. */
  taken(request: RequestState, from: number, held: number, at: number): void;
  /** The request ends; its blocks are released already. */
  failed(request: RequestState, failure: HandoffFailure, at: number): void;
}

interface Taking extends Flow {
  readonly request: RequestState;
  readonly endpoint: string;
  readonly id: number;
  /** Local prefix, held by the request from the start. */
  readonly from: number;
  /** Exclusive end of what is wanted: all blocks of the prompt. */
  readonly wanted: number;
  readonly giveUpAt: number;
  flowing: boolean;
}

type Notice = { readonly id: number } & ({ readonly answer: FetchAnswer } | { readonly gbps: number });

/** Handoffs that one rank takes. */
export class HandoffTarget {
  readonly #settings: SimulatedEngineSettings;
  readonly #pool: KvPool;
  readonly #link: LinkShare;
  readonly #peers: PeerDirectory | null;
  readonly #listener: HandoffTargetListener;
  readonly #newId: () => number;
  readonly #takings = new Map<number, Taking>();
  #notices: Notice[] = [];

  constructor(
    settings: SimulatedEngineSettings,
    pool: KvPool,
    link: LinkShare,
    peers: PeerDirectory | null,
    listener: HandoffTargetListener,
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
    return this.#takings.size;
  }

  /** Whether a peer said something that was not taken up yet. */
  get hasNotices(): boolean {
    return this.#notices.length > 0;
  }

  /** Time of the next end or timeout, ms; infinite when nothing is under way. */
  get nextDue(): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.#takings.size === 0) return next;
    for (const taking of this.#takings.values()) next = Math.min(next, this.#dueAt(taking));
    return next;
  }

  /**
   * Gives a queue head that holds nothing its blocks and asks for their contents; false while the pool has no room for them.
   * @param reusable blocks of its prompt that may be reused.
   */
  attempt(request: RequestState, reusable: number, now: number): boolean {
    const { handoff } = request;
    if (handoff?.leg !== 'decode') return false;
    const { endpoint, engineId, key, early } = handoff;
    const { blockSize, handoffTimeoutMs } = this.#settings;
    const wanted = Math.ceil(request.length / blockSize);
    const from = this.#pool.residentUntil(request.external, 0, reusable);
    if (wanted - from + this.#pool.inactiveAmong(request.external, 0, from) > this.#pool.available)
      return false;
    this.#pool.acquire(request.external, 0, from, request.table);
    request.blocks = this.#pool.allocate(request.table, from, wanted);
    request.cachedBlocks = from;
    request.status = 'parked';
    request.mayTake = false;
    const id = this.#newId();
    this.#takings.set(id, {
      request,
      endpoint,
      id,
      from,
      wanted,
      giveUpAt: now + handoffTimeoutMs,
      flowing: false,
      remainingBits: 0,
      flowsFrom: 0,
      sourceGbps: 0,
    });
    if (this.#peers === null) this.#notices.push({ id, answer: { error: 'unreachable' } });
    else {
      this.#peers.claim(
        endpoint,
        { id, handoff: key, engineId, from, early, deadlineMs: handoffTimeoutMs },
        (answer) => this.#notices.push({ id, answer }),
        (gbps) => this.#notices.push({ id, gbps }),
      );
    }
    return true;
  }

  /** Ends the handoff of an aborted request, also one that had not begun; its blocks are the caller's to release. */
  cancel(request: RequestState, now: number): void {
    const { handoff } = request;
    if (handoff?.leg !== 'decode') return;
    for (const taking of this.#takings.values()) {
      if (taking.request !== request) continue;
      this.#close(taking, 'cancel', now);
      return;
    }
    if (request.mayTake) this.#peers?.drop(handoff.endpoint, handoff.key);
  }

  /** Gives all up; their requests are lost with the engine. */
  abandon(now: number): void {
    for (const taking of [...this.#takings.values()]) this.#close(taking, 'cancel', now);
  }

  /** Takes up what peers said. */
  takeNotices(now: number): void {
    const notices = this.#notices;
    this.#notices = [];
    for (const notice of notices) {
      const taking = this.#takings.get(notice.id);
      if (taking === undefined) continue;
      if ('answer' in notice) this.#answered(taking, notice.answer, now);
      else if (taking.flowing) {
        this.#settle(now);
        taking.sourceGbps = notice.gbps;
      }
    }
  }

  /** Ends every transfer and wait that is due. */
  advance(now: number): void {
    for (const taking of [...this.#takings.values()]) {
      if (this.#dueAt(taking) > now) continue;
      if (!taking.flowing || taking.giveUpAt <= now) this.#fail(taking, 'timeout', now);
      else {
        this.#close(taking, 'done', now);
        this.#listener.taken(taking.request, taking.from, taking.wanted, now);
      }
    }
  }

  #answered(taking: Taking, answer: FetchAnswer, now: number): void {
    if ('error' in answer) {
      this.#fail(taking, answer.error, now);
      return;
    }
    if (taking.flowing) return;
    if (answer.held < taking.wanted) {
      this.#fail(taking, 'too_short', now);
      return;
    }
    const { blockSize, fetchLatencyMs, kvBytesPerToken, speedup, timing } = this.#settings;
    const free = timing === 'none';
    const blocks = taking.wanted - taking.from;
    taking.flowing = true;
    taking.request.cachedElsewhere = answer.cachedTokens ?? null;
    taking.sourceGbps = answer.gbps;
    taking.remainingBits = free ? 0 : 8 * blocks * blockSize * kvBytesPerToken;
    taking.flowsFrom = free ? now : now + fetchLatencyMs / speedup;
    this.#listener.started(taking.request, blocks, now);
    this.#link.join(now);
  }

  #fail(taking: Taking, failure: HandoffFailure, now: number): void {
    const { request } = taking;
    this.#close(taking, 'cancel', now);
    this.#pool.release(request.table, 0, request.blocks);
    request.blocks = 0;
    request.cachedBlocks = 0;
    this.#listener.failed(request, failure, now);
  }

  #close(taking: Taking, how: 'done' | 'cancel', now: number): void {
    this.#takings.delete(taking.id);
    this.#peers?.release(taking.endpoint, taking.id, how);
    if (taking.flowing) this.#link.leave(now);
  }

  #dueAt(taking: Taking): number {
    if (!taking.flowing) return taking.giveUpAt;
    return Math.min(taking.giveUpAt, flowEndsAt(taking, this.#link, this.#settings.speedup));
  }

  #settle(now: number): void {
    for (const taking of this.#takings.values()) {
      if (taking.flowing) settleFlow(taking, this.#link, this.#settings.speedup, now);
    }
  }
}

// The giving side of a handoff: the blocks of a computed prompt stay pinned until the engine that decodes it has pulled them, gives
// up, or runs out of time. Where both sides meet in a room, computing waits for the taker, and the request ends when it has all.
import type { FetchAnswer, HandoffClaim, HandoffFailure } from '../types.ts';
import type { KvPool } from './kv-pool.ts';
import type { LinkShare } from './link-share.ts';
import type { RequestState } from './request-state.ts';

/** Takers that wait for a prompt nobody has sent yet; more are told that this engine is busy. */
const MAX_EARLY = 4096;

const NO_BLOCKS = new Int32Array(0);

/** What the machine does when a handoff moves on. */
export interface HandoffSourceListener {
  /** The taker has come: the request may be queued. */
  wanted(request: RequestState, at: number): void;
  /** Its blocks are pinned no more. */
  freed(request: RequestState): void;
  /** The request of a room ends: its blocks were taken, or why not. */
  ended(request: RequestState, failure: HandoffFailure | null, at: number): void;
}

interface Claim {
  readonly key: string;
  readonly from: number;
  readonly deadlineAt: number;
  readonly answered: (answer: FetchAnswer) => void;
}

interface Handoff {
  readonly key: string;
  readonly request: RequestState;
  readonly rendezvous: boolean;
  state: 'awaited' | 'computing' | 'held';
  table: Int32Array;
  blocks: number;
  expiresAt: number;
  claim: Claim | null;
  /** Its taker is gone before it was computed. */
  unwanted: boolean;
}

/** Handoffs that one rank gives. */
export class HandoffSource {
  readonly #pool: KvPool;
  readonly #link: LinkShare;
  readonly #bytesPerBlock: number;
  readonly #timeoutMs: number;
  readonly #announceRate: (key: string, gbps: number) => void;
  readonly #listener: HandoffSourceListener;
  readonly #handoffs = new Map<string, Handoff>();
  readonly #early = new Map<string, Claim>();
  #announced = 0;

  constructor(
    parts: {
      readonly pool: KvPool;
      readonly link: LinkShare;
      readonly bytesPerBlock: number;
      readonly timeoutMs: number;
      readonly announceRate: (key: string, gbps: number) => void;
    },
    listener: HandoffSourceListener,
  ) {
    this.#pool = parts.pool;
    this.#link = parts.link;
    this.#bytesPerBlock = parts.bytesPerBlock;
    this.#timeoutMs = parts.timeoutMs;
    this.#announceRate = parts.announceRate;
    this.#listener = listener;
    parts.link.onChange({ after: () => this.#announce() });
  }

  /** Handoffs under way. */
  get count(): number {
    return this.#handoffs.size;
  }

  has(key: string): boolean {
    return this.#handoffs.has(key);
  }

  /** Time of the next forced end, ms; infinite when none is due. */
  get nextExpiry(): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.#handoffs.size === 0 && this.#early.size === 0) return next;
    for (const { expiresAt } of this.#handoffs.values()) next = Math.min(next, expiresAt);
    for (const { deadlineAt } of this.#early.values()) next = Math.min(next, deadlineAt);
    return next;
  }

  /** A prompt is to be computed for another engine; false = only once that has come. */
  begin(request: RequestState, key: string, rendezvous: boolean, now: number): boolean {
    const claim = this.#early.get(key) ?? null;
    this.#early.delete(key);
    const awaited = rendezvous && claim === null;
    this.#handoffs.set(key, {
      key,
      request,
      rendezvous,
      state: awaited ? 'awaited' : 'computing',
      table: NO_BLOCKS,
      blocks: 0,
      expiresAt: awaited ? now + this.#timeoutMs : Number.POSITIVE_INFINITY,
      claim,
      unwanted: false,
    });
    return !awaited;
  }

  /** The request will never be computed. */
  refuse(key: string): void {
    this.#early.get(key)?.answered({ error: 'nothing_held' });
    this.#early.delete(key);
  }

  /** Takes over the blocks of a request that is computed; false = the request has ended by itself, true = it ends when they are taken. */
  computed(request: RequestState, key: string, now: number): boolean {
    const handoff = this.#handoffs.get(key);
    if (handoff === undefined) return false;
    handoff.state = 'held';
    handoff.table = request.table;
    handoff.blocks = request.blocks;
    request.blocks = 0;
    if (handoff.unwanted) this.#end(handoff, 'taker_gone', now);
    else {
      handoff.expiresAt = now + this.#timeoutMs;
      if (handoff.claim !== null) this.#give(handoff, handoff.claim, now);
    }
    return handoff.rendezvous;
  }

  /** See `SimulatedEngine.claimHandoff`. */
  claim(request: HandoffClaim, now: number, answered: (answer: FetchAnswer) => void): void {
    const claim = { key: request.key, from: request.from, deadlineAt: now + request.deadlineMs, answered };
    const handoff = this.#handoffs.get(request.handoff);
    if (handoff === undefined) {
      if (!request.early) answered({ error: 'nothing_held' });
      else if (this.#early.size >= MAX_EARLY || this.#early.has(request.handoff)) answered({ error: 'busy' });
      else this.#early.set(request.handoff, claim);
      return;
    }
    if (handoff.claim !== null) {
      answered({ error: 'busy' });
      return;
    }
    handoff.claim = claim;
    if (handoff.state === 'awaited') {
      handoff.state = 'computing';
      handoff.expiresAt = Number.POSITIVE_INFINITY;
      this.#listener.wanted(handoff.request, now);
    } else if (handoff.state === 'held') this.#give(handoff, claim, now);
  }

  /** A taker is done or gone; true when it had claimed something here. */
  release(claimKey: string, how: 'done' | 'cancel', now: number): boolean {
    for (const [key, claim] of this.#early) {
      if (claim.key !== claimKey) continue;
      this.#early.delete(key);
      return true;
    }
    for (const handoff of this.#handoffs.values()) {
      if (handoff.claim?.key !== claimKey) continue;
      if (how === 'done' && handoff.state === 'held') this.#end(handoff, null, now);
      else this.#unwanted(handoff, now);
      return true;
    }
    return false;
  }

  /** See `SimulatedEngine.dropHandoff`; true when there was one. */
  drop(key: string, now: number): boolean {
    const handoff = this.#handoffs.get(key);
    if (handoff === undefined) return false;
    this.#unwanted(handoff, now);
    return true;
  }

  /** The request was aborted; its own blocks are the caller's to release. */
  aborted(key: string, now: number): void {
    const handoff = this.#handoffs.get(key);
    if (handoff === undefined) return;
    const { claim } = handoff;
    this.#free(handoff, now);
    claim?.answered({ error: 'nothing_held' });
  }

  /** Ends what nobody has come for, or has not finished taking. */
  expire(now: number): void {
    for (const [key, { deadlineAt }] of this.#early) if (deadlineAt <= now) this.#early.delete(key);
    for (const handoff of [...this.#handoffs.values()]) {
      if (handoff.expiresAt > now) continue;
      const { claim } = handoff;
      this.#end(handoff, 'timeout', now);
      claim?.answered({ error: 'nothing_held' });
    }
  }

  /** The engine dies: takers hear that nothing comes. */
  abandon(): void {
    const claims = [...this.#early.values()];
    for (const { claim } of this.#handoffs.values()) if (claim !== null) claims.push(claim);
    this.#early.clear();
    this.#handoffs.clear();
    for (const { answered } of claims) answered({ error: 'unreachable' });
  }

  #give(handoff: Handoff, claim: Claim, now: number): void {
    handoff.expiresAt = Math.min(handoff.expiresAt, Math.max(now, claim.deadlineAt));
    this.#link.join(now);
    const bytes = Math.max(0, handoff.blocks - claim.from) * this.#bytesPerBlock;
    // As SGLang's engines do; with vLLM's connectors only the router hears of it.
    const told = handoff.rendezvous ? { cachedTokens: handoff.request.cachedTokens } : null;
    claim.answered({ held: handoff.blocks, bytes, gbps: this.#link.share, ...told });
  }

  /** Nobody takes it any more. Of a room that is the end; otherwise the request still gets its answer first. */
  #unwanted(handoff: Handoff, now: number): void {
    if (handoff.state === 'held' || handoff.rendezvous) this.#end(handoff, 'taker_gone', now);
    else handoff.unwanted = true;
  }

  #end(handoff: Handoff, failure: HandoffFailure | null, now: number): void {
    this.#free(handoff, now);
    if (handoff.rendezvous) this.#listener.ended(handoff.request, failure, now);
  }

  #free(handoff: Handoff, now: number): void {
    this.#handoffs.delete(handoff.key);
    if (handoff.state !== 'held') return;
    this.#pool.release(handoff.table, 0, handoff.blocks);
    this.#listener.freed(handoff.request);
    if (handoff.claim !== null) this.#link.leave(now);
  }

  #announce(): void {
    const { share } = this.#link;
    if (share === this.#announced) return;
    this.#announced = share;
    for (const { claim, state } of this.#handoffs.values()) {
      if (claim !== null && state === 'held') this.#announceRate(claim.key, share);
    }
  }
}

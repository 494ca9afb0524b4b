// Everything of one rank that crosses its network link: fetches given and taken, handoffs given and taken. They share the link and
// the numbers by which peers name them.
import type {
  FetchAnswer,
  FetchGrantRequest,
  HandoffClaim,
  HandoffFailure,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedHandoff,
  SimulatedResult,
} from '../types.ts';
import { FetchSource } from './fetch-source.ts';
import { type FetchListener, FetchTarget } from './fetch-target.ts';
import { HandoffSource } from './handoff-source.ts';
import { HandoffTarget } from './handoff-target.ts';
import type { KvPool } from './kv-pool.ts';
import { LinkShare } from './link-share.ts';
import { type RequestState, resultOf } from './request-state.ts';

/** What the machine does when a transfer moves on. */
export interface TransferListener extends FetchListener {
  /** The engine that decodes has come for a prompt: it may be queued. */
  wanted(request: RequestState, at: number): void;
  /** The blocks [from, held) of a whole prompt arrived from the engine that computed it; the request goes on at the head. */
  taken(request: RequestState, from: number, held: number, at: number): void;
  /** The blocks that an ended request handed over are pinned no more. */
  freed(request: RequestState): void;
  /** The request ends with its handoff; `failure` null = its blocks were taken. */
  ended(request: RequestState, failure: HandoffFailure | null): void;
}

/** The link of one rank. */
export class Transfers {
  readonly #source: FetchSource;
  readonly #target: FetchTarget;
  readonly #gives: HandoffSource;
  readonly #takes: HandoffTarget;
  readonly #engineId: string | null;
  readonly #blockSize: number;
  #lastId = 0;

  constructor(
    settings: SimulatedEngineSettings,
    pool: KvPool,
    parts: SimulatedEngineParts,
    listener: TransferListener,
  ) {
    const { announceRate = () => undefined, engineId = null, peers = null } = parts;
    const link = new LinkShare(settings.nicGbps);
    const bytesPerBlock = settings.blockSize * settings.kvBytesPerToken;
    const newId = (): number => {
      this.#lastId += 1;
      return this.#lastId;
    };
    this.#engineId = engineId;
    this.#blockSize = settings.blockSize;
    this.#source = new FetchSource(pool, link, bytesPerBlock, announceRate);
    this.#target = new FetchTarget(settings, pool, link, peers, listener, newId);
    const timeoutMs = settings.handoffTimeoutMs;
    this.#gives = new HandoffSource({ pool, link, bytesPerBlock, timeoutMs, announceRate }, listener);
    const { started, taken } = listener;
    const failed = listener.ended;
    this.#takes = new HandoffTarget(settings, pool, link, peers, { started, taken, failed }, newId);
  }

  /** Requests parked until KV arrives. */
  get parked(): number {
    return this.#target.parked + this.#takes.parked;
  }

  /** Prefills computed for another engine, or waiting for it. */
  get handoffs(): number {
    return this.#gives.count;
  }

  /** Whether a peer said something that was not taken up yet. */
  get hasNotices(): boolean {
    return this.#target.hasNotices || this.#takes.hasNotices;
  }

  /** Time of the next end or timeout, ms; infinite when nothing is under way. */
  get nextDue(): number {
    return Math.min(
      this.#target.nextDue,
      this.#source.nextExpiry,
      this.#takes.nextDue,
      this.#gives.nextExpiry,
    );
  }

  /** Whether blocks given out under this key are still held. */
  gives(key: string): boolean {
    return this.#gives.has(key);
  }

  /** A request that may hand over its KV came; false = it must not be queued yet. */
  accepted(request: RequestState, now: number): boolean {
    const { handoff } = request;
    return handoff?.leg !== 'prefill' || this.#gives.begin(request, handoff.key, handoff.rendezvous, now);
  }

  /** The request is too large for the pool: its other side need not wait. */
  refused(request: RequestState, now: number): void {
    const { handoff } = request;
    if (handoff?.leg === 'prefill') this.#gives.refuse(handoff.key);
    this.#takes.cancel(request, now);
  }

  /** The request was aborted; the blocks in its table are the caller's to release. */
  aborted(request: RequestState, now: number): void {
    const { handoff } = request;
    if (request.status === 'parked') this.#target.cancel(request, now);
    this.#takes.cancel(request, now);
    if (handoff?.leg === 'prefill') this.#gives.aborted(handoff.key, now);
  }

  /** The request has all its output; true = it hands its blocks over and ends when they are taken. */
  computed(request: RequestState, now: number): boolean {
    const { handoff } = request;
    return handoff?.leg === 'prefill' && this.#gives.computed(request, handoff.key, now);
  }

  /** Parks a queue head that another engine computes, when there is room for it. See {@link HandoffTarget.attempt}. */
  take(request: RequestState, reusable: number, now: number): boolean {
    return this.#takes.attempt(request, reusable, now);
  }

  /** Parks a queue head whose fetch promises more than the local prefix. */
  fetch(request: RequestState, reusable: number, now: number): boolean {
    return request.fetch !== null && this.#target.attempt(request, reusable, now);
  }

  /** How an ended request stands, with the blocks it hands over. */
  resultOf(request: RequestState): SimulatedResult {
    const { handoff } = request;
    const result = resultOf(request);
    if (handoff?.leg !== 'prefill' || !this.gives(handoff.key)) return result;
    const blocks = Math.ceil((request.length - request.generated) / this.#blockSize);
    const blockIds = Array.from(request.table.subarray(0, blocks));
    return { ...result, handoff: { key: handoff.key, blockIds } };
  }

  takeNotices(now: number): void {
    if (this.#target.hasNotices) this.#target.takeNotices(now);
    if (this.#takes.hasNotices) this.#takes.takeNotices(now);
  }

  /** Does what is due first, where `nextDue` says that something is; blocks may have been freed then. */
  advance(now: number): void {
    if (this.#source.nextExpiry <= now) this.#source.expire(now);
    else if (this.#gives.nextExpiry <= now) this.#gives.expire(now);
    else if (this.#takes.nextDue <= now) this.#takes.advance(now);
    else this.#target.advance(now);
  }

  grant(request: FetchGrantRequest, now: number): FetchAnswer {
    return this.#source.grant(request, now);
  }

  /** A peer's fetch or handoff ends; true when there was one. */
  release(key: string, how: 'done' | 'cancel', now: number): boolean {
    return this.#source.release(key, now) || this.#gives.release(key, how, now);
  }

  claim(claim: HandoffClaim, now: number, answered: (answer: FetchAnswer) => void): void {
    const { engineId } = claim;
    const another = engineId !== null && this.#engineId !== null && engineId !== this.#engineId;
    if (another) answered({ error: 'nothing_held' });
    else this.#gives.claim(claim, now, answered);
  }

  drop(handoff: string, now: number): boolean {
    return this.#gives.drop(handoff, now);
  }

  /** The engine dies. */
  abandon(now: number): void {
    this.#source.abandon();
    this.#gives.abandon();
    this.#target.abandon(now);
    this.#takes.abandon(now);
  }
}

/** Whether its key is taken by another handoff of the rank. */
export function keyInUse(transfers: Transfers, handoff: SimulatedHandoff | null | undefined): boolean {
  return handoff?.leg === 'prefill' && transfers.gives(handoff.key);
}

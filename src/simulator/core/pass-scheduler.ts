// One pass of continuous batching, after the vLLM-style core of the Dynamo mocker: running requests first, then the queue in
// order, all under one token budget, with chunked prefill; when the pool runs short the newest running request is pre-empted.
import type { SimulatedEngineSettings } from '../types.ts';
import type { BlockContents } from './block-contents.ts';
import type { EventCollector } from './event-collector.ts';
import type { ExternalHasher } from './external-chain.ts';
import type { KvPool } from './kv-pool.ts';
import type { RequestState } from './request-state.ts';
import { decodeMs, type PrefillBatch, prefillMs } from './timing.ts';

/**
 * Asked for a queue head whose blocks may come from elsewhere; `parked` = it leaves the queue for now, `no_room` = it must wait for room
 * in the pool, `stays` = it may be scheduled.
 */
export type ParkAttempt = (request: RequestState, start: number) => 'parked' | 'no_room' | 'stays';

/** Queues and block accounting of one rank. */
export class PassScheduler {
  readonly waiting: RequestState[] = [];
  /** In order of admission, so the newest is last. */
  readonly running: RequestState[] = [];
  /** Requests that the last pass took in for the first time. */
  readonly admitted: RequestState[] = [];
  preemptions = 0;
  readonly #settings: SimulatedEngineSettings;
  readonly #pool: KvPool;
  readonly #events: EventCollector;
  readonly #hasher: ExternalHasher;
  readonly #tryPark: ParkAttempt;
  /** What stands in the pool's copies; null where nobody asks. */
  readonly #contents: BlockContents | null;
  readonly #batch: PrefillBatch = { requests: 0, totalIsl: 0, totalPrefix: 0 };
  #budget = 0;
  #scheduled = 0;

  constructor(
    settings: SimulatedEngineSettings,
    pool: KvPool,
    events: EventCollector,
    hasher: ExternalHasher,
    contents: BlockContents | null,
    tryPark: ParkAttempt,
  ) {
    this.#settings = settings;
    this.#pool = pool;
    this.#events = events;
    this.#hasher = hasher;
    this.#contents = contents;
    this.#tryPark = tryPark;
  }

  /** Plans a pass that starts at `start`; returns its duration in ms, or null when nobody could be given a token. */
  run(start: number): number | null {
    this.#budget = this.#settings.maxNumBatchedTokens;
    this.#scheduled = 0;
    this.#batch.requests = 0;
    this.#batch.totalIsl = 0;
    this.#batch.totalPrefix = 0;
    this.admitted.length = 0;
    const preemptionsBefore = this.preemptions;
    this.#continueRunning();
    if (this.preemptions === preemptionsBefore) this.#admitWaiting(start);
    if (this.#scheduled === 0) return this.preemptions === preemptionsBefore ? null : 0;
    if (this.#settings.timing === 'none') return 0;
    let duration = prefillMs(this.#batch);
    if (this.running.some(isReadyToEmit)) duration += decodeMs(this.#pool.active, this.#pool.capacity);
    return duration / this.#settings.speedup;
  }

  /** Makes every full computed block findable, and tells of those that were not resident before. */
  cacheComputed(request: RequestState): void {
    const { blockSize } = this.#settings;
    const full = Math.floor(request.computed / blockSize);
    let runStart = -1;
    for (let block = request.cachedBlocks; block < full; block += 1) {
      if (block === request.hashedBlocks) this.#hashNext(request);
      const { external } = request;
      this.#contents?.put(request.table[block]!, request.tokens, external, block);
      const first = this.#pool.cache(request.table[block]!, external[2 * block]!, external[2 * block + 1]!);
      if (first && runStart < 0) runStart = block;
      if (!first && runStart >= 0) {
        this.#events.stored(request, runStart, block);
        runStart = -1;
      }
    }
    if (runStart >= 0) this.#events.stored(request, runStart, full);
    request.cachedBlocks = Math.max(request.cachedBlocks, full);
  }

  /** Takes a request off the queue and out of the batch; its blocks stay. */
  withdraw(request: RequestState): void {
    for (const list of [this.waiting, this.running]) {
      const index = list.indexOf(request);
      if (index >= 0) list.splice(index, 1);
    }
  }

  /** Lets go of all blocks of a request. */
  releaseBlocks(request: RequestState): void {
    this.#pool.release(request.table, 0, request.blocks);
    request.blocks = 0;
    request.cachedBlocks = 0;
    request.computed = 0;
    request.handedOver = false;
  }

  #continueRunning(): void {
    for (let index = 0; index < this.running.length && this.#budget > 0; index += 1) {
      const request = this.running[index]!;
      const tokens = Math.min(request.length - request.computed, this.#budget);
      if (!this.#growRunning(request, request.computed + tokens)) return;
      this.#charge(request, tokens);
    }
  }

  /** Gives a running request blocks up to `tokens`, pre-empting from the newest; false when it had to go itself. */
  #growRunning(request: RequestState, tokens: number): boolean {
    const wanted = Math.ceil(tokens / this.#settings.blockSize);
    while (request.blocks < wanted) {
      request.blocks = this.#pool.allocate(request.table, request.blocks, wanted);
      if (request.blocks === wanted) break;
      const victim = this.running.pop()!;
      this.releaseBlocks(victim);
      victim.status = 'waiting';
      victim.mayOnboard = true;
      victim.promptLength = victim.length;
      this.waiting.unshift(victim);
      this.preemptions += 1;
      if (victim === request) return false;
    }
    return true;
  }

  #admitWaiting(start: number): void {
    while (this.running.length < this.#settings.maxNumSeqs && this.#budget > 0) {
      const request = this.waiting[0];
      if (request === undefined || request.readyAt > start) return;
      request.prepare(this.#hasher, this.#settings.blockSize);
      const place = this.#tryPark(request, start);
      if (place === 'parked') {
        this.waiting.shift();
        continue;
      }
      if (place === 'no_room') {
        if (this.#dropHoldings()) continue;
        return;
      }
      if (!this.#admit(request)) return;
      this.waiting.shift();
    }
  }

  /** Takes the queue's head in when the pool has room for all its tokens as known now. */
  #admit(request: RequestState): boolean {
    if (request.handedOver) return this.#start(request, 1);
    const { blockSize } = this.#settings;
    const pool = this.#pool;
    const prefix = pool.residentUntil(request.external, request.blocks, this.reusableBlocks(request));
    const fresh = Math.ceil(request.length / blockSize) - prefix;
    const reactivated = pool.inactiveAmong(request.external, request.blocks, prefix);
    if (fresh + reactivated > pool.available) return this.#dropHoldings() && this.#admit(request);
    pool.acquire(request.external, request.blocks, prefix, request.table);
    request.blocks = prefix;
    request.cachedBlocks = prefix;
    request.computed = prefix * blockSize;
    const tokens = Math.min(request.length - request.computed, this.#budget);
    const wanted = Math.ceil((request.computed + tokens) / blockSize);
    request.blocks = pool.allocate(request.table, prefix, wanted);
    return this.#start(request, tokens);
  }

  #start(request: RequestState, tokens: number): true {
    request.status = 'running';
    this.running.push(request);
    if (request.reused < 0) {
      request.reused = request.computed;
      this.admitted.push(request);
    }
    this.#charge(request, tokens);
    return true;
  }

  /** Blocks that may be reused: the last token is always computed, because its output is needed. */
  reusableBlocks(request: RequestState): number {
    return Math.min(Math.floor((request.length - 1) / this.#settings.blockSize), request.hashedBlocks);
  }

  /**
   * With nobody running, queued requests that hold fetched blocks could wait for each other for ever: those behind the head
   * give theirs back (they stay findable). True when there were any.
   */
  #dropHoldings(): boolean {
    if (this.running.length > 0) return false;
    let dropped = false;
    for (let index = this.waiting.length - 1; index > 0; index -= 1) {
      const other = this.waiting[index]!;
      if (other.blocks === 0) continue;
      this.releaseBlocks(other);
      dropped = true;
    }
    return dropped;
  }

  /** Books `tokens` of a request into the pass. */
  #charge(request: RequestState, tokens: number): void {
    const promptBefore = Math.min(request.computed, request.promptLength);
    const promptTokens = Math.min(tokens, request.promptLength - promptBefore);
    if (promptTokens > 0) {
      this.#batch.requests += 1;
      this.#batch.totalIsl += promptBefore + promptTokens;
      this.#batch.totalPrefix += promptBefore;
    }
    this.#budget -= tokens;
    this.#scheduled += tokens;
    request.computed += tokens;
    if (request.computed - request.cachedBlocks * this.#settings.blockSize >= this.#settings.blockSize) {
      this.cacheComputed(request);
    }
  }

  #hashNext(request: RequestState): void {
    const { blockSize } = this.#settings;
    const block = request.hashedBlocks;
    const tokens = request.tokens.subarray(block * blockSize, (block + 1) * blockSize);
    const { blockSeed, external, lastSequence } = request;
    request.lastSequence = this.#hasher.next(tokens, lastSequence, external, block, blockSeed);
    request.hashedBlocks += 1;
  }
}

/** Whether the pass computed all its tokens, so that it gets its next one. */
export function isReadyToEmit(request: RequestState): boolean {
  return request.computed === request.length && request.status === 'running';
}

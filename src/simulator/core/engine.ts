// The machine of one simulated rank: takes requests, runs passes one after the other, tells a sink what came of them. It never
// waits and holds no timer: a shell asks when something is due and calls again then.
import type { HashPairs, Tier } from '../../kv/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type {
  FetchAnswer,
  FetchGrantRequest,
  SimulatedEngine,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedRequest,
  SimulatorSink,
} from '../types.ts';
import { BlockContents } from './block-contents.ts';
import { EventCollector } from './event-collector.ts';
import { ExternalHasher } from './external-chain.ts';
import { FetchSource } from './fetch-source.ts';
import { FetchTarget } from './fetch-target.ts';
import { planHints } from './hint-plan.ts';
import { HostTier } from './host-tier.ts';
import { KvPool } from './kv-pool.ts';
import { LinkShare } from './link-share.ts';
import { outputSeed, outputToken } from './output-tokens.ts';
import { isReadyToEmit, PassScheduler } from './pass-scheduler.ts';
import { RequestState } from './request-state.ts';
import { executeRetains } from './retain.ts';

const DEFAULT_VOCABULARY = 32_768;
const NO_BLOCKS = new Uint32Array(0);

/** Continuous batching over a KV pool with prefix reuse. */
export class PassEngine implements SimulatedEngine {
  readonly #settings: SimulatedEngineSettings;
  readonly #vocabulary: number;
  readonly #pool: KvPool;
  readonly #events: EventCollector;
  readonly #host: HostTier | null;
  readonly #scheduler: PassScheduler;
  readonly #source: FetchSource;
  readonly #target: FetchTarget;
  readonly #requests = new Map<string, RequestState>();
  /** Larger than the pool; told at the next `advance`. */
  #rejected: RequestState[] = [];
  /** End of the pass under way; null between passes. */
  #passEnd: number | null = null;
  /** Latest time the machine has seen; nothing happens before it. */
  #time = 0;
  /** The last pass found nothing to do; only a change from outside can help. */
  #stalled = false;
  /** When it last stopped being stalled. */
  #wokenAt = 0;
  #lastPassEnd = 0;
  /** Set while `advance` runs. */
  #sink: SimulatorSink | null = null;

  constructor(settings: SimulatedEngineSettings, parts: SimulatedEngineParts) {
    this.#settings = settings;
    this.#vocabulary = parts.vocabulary ?? DEFAULT_VOCABULARY;
    this.#events = new EventCollector(settings.blockSize);
    const { blockSize, hostKvBlocks, kvBlocks } = settings;
    this.#pool = new KvPool(kvBlocks, (lo, hi, copy) => {
      this.#host?.offload(lo, hi, copy);
      this.#events.removed(lo, hi, 'device');
    });
    const contents = hostKvBlocks === 0 || kvBlocks === null ? null : new BlockContents(kvBlocks, blockSize);
    const arrivals = {
      arrived: (request: RequestState, from: number, held: number, at: number) => {
        this.#arrived(request, from, held, at);
      },
      resumed: (request: RequestState, at: number) => this.#resumed(request, at),
    };
    this.#host = contents && new HostTier(settings, this.#pool, contents, this.#events, arrivals);
    const link = new LinkShare(settings.nicGbps);
    this.#source = new FetchSource(
      this.#pool,
      link,
      settings.blockSize * settings.kvBytesPerToken,
      parts.announceRate ?? (() => undefined),
    );
    this.#target = new FetchTarget(settings, this.#pool, link, parts.peers ?? null, {
      ...arrivals,
      started: (request, blocks, at) => this.#sink?.transfer('start', request.id, blocks, at),
    });
    this.#scheduler = new PassScheduler(
      settings,
      this.#pool,
      this.#events,
      new ExternalHasher(parts.hasher, settings.blockSize, settings.hashSeed),
      contents,
      (request, start) => this.#park(request, start),
    );
  }

  submit(request: SimulatedRequest, now: number): void {
    checkRequest(request, this.#requests.has(request.id));
    this.#time = Math.max(this.#time, now);
    const { acceptedActions, actions, blockSize, kvBlocks, seed } = this.#settings;
    const state = new RequestState(
      request,
      outputSeed(request.id, seed),
      planHints(request.hint, actions, acceptedActions),
      this.#time,
    );
    this.#requests.set(request.id, state);
    const footprint = Math.ceil((request.tokens.length + request.outputTokens) / blockSize);
    if (kvBlocks !== null && footprint > kvBlocks) this.#rejected.push(state);
    else this.#scheduler.waiting.push(state);
    this.#wake(this.#time);
  }

  abort(id: string, now: number): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    this.#time = Math.max(this.#time, now);
    this.#requests.delete(id);
    if (request.status === 'parked') {
      this.#target.cancel(request, this.#time);
      this.#host?.cancel(request);
    }
    withdraw(this.#scheduler.waiting, request);
    withdraw(this.#scheduler.running, request);
    withdraw(this.#rejected, request);
    request.status = 'gone';
    this.#scheduler.releaseBlocks(request);
    this.#wake(this.#time);
  }

  nextEventAt(): number | null {
    if (this.#rejected.length > 0 || this.#target.hasNotices) return this.#time;
    const next = Math.min(
      this.#passEnd ?? this.#nextPassStart(),
      this.#target.nextDue,
      this.#host?.nextDue ?? Number.POSITIVE_INFINITY,
      this.#source.nextExpiry,
    );
    return next === Number.POSITIVE_INFINITY ? null : next;
  }

  advance(now: number, sink: SimulatorSink): void {
    this.#sink = sink;
    this.#tellRejected(sink, Math.max(this.#time, now));
    if (this.#target.hasNotices) this.#target.takeNotices(Math.max(this.#time, now));
    for (;;) {
      // A peer may answer while it is asked.
      if (this.#target.hasNotices) this.#target.takeNotices(this.#time);
      const next = this.nextEventAt();
      if (next === null || next > now) break;
      this.#time = Math.max(this.#time, next);
      if (this.#source.nextExpiry <= next) this.#expireGrants(next);
      else if (this.#target.nextDue <= next) this.#target.advance(next);
      else if (this.#host !== null && this.#host.nextDue <= next) this.#host.advance(next);
      else if (this.#passEnd !== null) this.#finishPass(this.#passEnd, sink);
      else this.#startPass(next, sink);
    }
    this.#time = Math.max(this.#time, now);
    this.#sink = null;
  }

  grantFetch(request: FetchGrantRequest, now: number): FetchAnswer {
    return this.#source.grant(request, now);
  }

  releaseFetch(key: string, now: number): void {
    if (this.#source.release(key, now)) this.#wake(now);
  }

  stats(): SimulatedEngineStats {
    return {
      running: this.#scheduler.running.length,
      waiting: this.#scheduler.waiting.length,
      parked: this.#target.parked + (this.#host?.parked ?? 0),
      activeBlocks: this.#pool.active,
      inactiveBlocks: this.#pool.inactive,
      totalBlocks: this.#settings.kvBlocks,
      preemptions: this.#scheduler.preemptions,
      hostBlocks: this.#host?.blocks ?? 0,
      offloadedBlocks: this.#host?.offloaded ?? 0,
      onboardedBlocks: this.#host?.onboarded ?? 0,
    };
  }

  residentBlocks(tier: Tier): HashPairs {
    if (tier === 'device') return this.#pool.residentBlocks();
    return (tier === 'host' ? this.#host?.residentBlocks() : null) ?? NO_BLOCKS;
  }

  die(now: number): void {
    this.#source.abandon();
    this.#target.abandon(now);
  }

  #nextPassStart(): number {
    if (this.#stalled) return Number.POSITIVE_INFINITY;
    if (this.#scheduler.running.length > 0) return this.#lastPassEnd;
    const head = this.#scheduler.waiting[0];
    if (head === undefined) return Number.POSITIVE_INFINITY;
    return Math.max(this.#lastPassEnd, this.#wokenAt, head.readyAt);
  }

  #startPass(start: number, sink: SimulatorSink): void {
    this.#pool.expireRetained(start);
    const before = this.#scheduler.preemptions;
    const duration = this.#scheduler.run(start);
    if (duration === null) this.#stalled = this.#scheduler.preemptions === before;
    else this.#passEnd = start + duration;
    this.#publish(start, sink);
    const admitted = this.#scheduler.admitted.slice();
    for (const request of admitted) {
      executeRetains(request, this.#pool, start);
      sink.admitted(request.id, request.reused, request.outcomes, start);
    }
  }

  #finishPass(at: number, sink: SimulatorSink): void {
    this.#passEnd = null;
    this.#lastPassEnd = at;
    const ready = this.#scheduler.running.filter(isReadyToEmit);
    const tokens = ready.map((request) => this.#generate(request));
    const finished = ready.filter((request) => request.generated >= request.outputTarget);
    for (const request of finished) this.#retire(request);
    // Told last, because a sink may submit or abort.
    for (const [index, request] of ready.entries()) {
      if (this.#requests.get(request.id) !== request) continue;
      if (request.outputTarget > 0) sink.chunk(request.id, tokens[index]!, at);
      if (request.generated < request.outputTarget || this.#requests.get(request.id) !== request) continue;
      this.#requests.delete(request.id);
      const result = { cachedTokens: request.reused, outputTokens: request.generated, rejected: false };
      sink.finished(request.id, result, at);
    }
  }

  /** Appends the next output token and returns it. */
  #generate(request: RequestState): number {
    if (request.outputTarget === 0) return 0;
    const token = outputToken(request.outputSeed, request.generated, this.#vocabulary);
    request.tokens[request.length] = token;
    request.length += 1;
    request.generated += 1;
    return token;
  }

  #retire(request: RequestState): void {
    withdraw(this.#scheduler.running, request);
    request.status = 'gone';
    this.#scheduler.releaseBlocks(request);
  }

  /** Parks a queue head while its blocks come from host memory or, behind those, from a peer. */
  #park(request: RequestState, start: number): boolean {
    const reusable = this.#scheduler.reusableBlocks(request);
    if (this.#host !== null && request.mayOnboard) {
      request.mayOnboard = false;
      if (this.#host.attempt(request, reusable, start)) return true;
    }
    return request.fetch !== null && this.#target.attempt(request, reusable, start);
  }

  #arrived(request: RequestState, from: number, held: number, at: number): void {
    request.computed = held * this.#settings.blockSize;
    request.cachedBlocks = from;
    this.#scheduler.cacheComputed(request);
    if (this.#sink === null) return;
    this.#sink.transfer('end', request.id, held - from, at);
    this.#publish(at, this.#sink);
  }

  #resumed(request: RequestState, at: number): void {
    request.status = 'waiting';
    request.readyAt = at;
    this.#scheduler.waiting.unshift(request);
    this.#wake(at);
  }

  /** Something changed that may let a stalled queue go on. */
  #wake(at: number): void {
    if (!this.#stalled) return;
    this.#stalled = false;
    this.#wokenAt = at;
  }

  #expireGrants(now: number): void {
    this.#source.expire(now);
    this.#wake(now);
  }

  #publish(at: number, sink: SimulatorSink): void {
    const events = this.#events.take();
    if (events.length > 0) sink.kvEvents(events, at);
  }

  #tellRejected(sink: SimulatorSink, at: number): void {
    const rejected = this.#rejected;
    if (rejected.length === 0) return;
    this.#rejected = [];
    for (const request of rejected) {
      request.status = 'gone';
      this.#requests.delete(request.id);
      sink.finished(request.id, { cachedTokens: 0, outputTokens: 0, rejected: true }, at);
    }
  }
}

function withdraw(list: RequestState[], request: RequestState): void {
  const index = list.indexOf(request);
  if (index >= 0) list.splice(index, 1);
}

/** @throws PM_SIM_REQUEST */
export function checkRequest(request: SimulatedRequest, inUse: boolean): void {
  const problem = inUse
    ? 'its id is in use'
    : request.tokens.length === 0
      ? 'its prompt is empty'
      : Number.isInteger(request.outputTokens) && request.outputTokens >= 0
        ? null
        : `its output length is ${request.outputTokens}, not a whole number from 0`;
  if (problem === null) return;
  throw new PointsmanError(
    'PM_SIM_REQUEST',
    `the simulated engine cannot take request ${request.id}: ${problem}`,
    {
      details: { request: request.id },
    },
  );
}

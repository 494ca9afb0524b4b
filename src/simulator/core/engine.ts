// The machine of one simulated rank: takes requests, runs passes one after the other, tells a sink what came of them. It never
// waits and holds no timer: a shell asks when something is due and calls again then.
import type { HashPairs, Tier } from '../../kv/index.ts';
import type {
  FetchAnswer,
  FetchGrantRequest,
  HandoffClaim,
  SimulatedEngine,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedRequest,
  SimulatedResult,
  SimulatorSink,
} from '../types.ts';
import { checkRequest } from './accept-request.ts';
import { BlockContents } from './block-contents.ts';
import { type EvictionCounts, retainedLimit, statsOf } from './engine-stats.ts';
import { EventCollector } from './event-collector.ts';
import { ExternalHasher } from './external-chain.ts';
import { HintExecutor } from './hint-executor.ts';
import { planHints } from './hint-plan.ts';
import { HostTier } from './host-tier.ts';
import { type EvictionListener, KvPool } from './kv-pool.ts';
import { outputSeed } from './output-tokens.ts';
import { PassOutput } from './pass-output.ts';
import { type ParkAttempt, PassScheduler } from './pass-scheduler.ts';
import { RequestState, resultOf } from './request-state.ts';
import { keyInUse, Transfers } from './transfers.ts';

const NO_BLOCKS = new Uint32Array(0);

/** Continuous batching over a KV pool with prefix reuse. */
export class PassEngine implements SimulatedEngine {
  readonly #settings: SimulatedEngineSettings;
  readonly #output: PassOutput;
  readonly #pool: KvPool;
  readonly #events: EventCollector;
  readonly #host: HostTier | null;
  readonly #hints: HintExecutor;
  readonly #evictions: EvictionCounts = { room: 0, demotion: 0, hint: 0 };
  readonly #scheduler: PassScheduler;
  readonly #transfers: Transfers;
  readonly #requests = new Map<string, RequestState>();
  /** Ended outside of a pass; told at the next `advance`. */
  #ended: { readonly request: RequestState; readonly result: SimulatedResult }[] = [];
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
    this.#output = new PassOutput(parts.vocabulary);
    this.#events = new EventCollector(settings.blockSize);
    const { blockSize, hostKvBlocks, kvBlocks } = settings;
    const evicted: EvictionListener = (lo, hi, copy, cause) => {
      if (cause !== 'hint') this.#host?.offload(lo, hi, copy);
      this.#evictions[cause] += 1;
      this.#events.removed(lo, hi, 'device');
      parts.onEvicted?.(lo, hi, cause);
    };
    this.#pool = new KvPool(kvBlocks, evicted, retainedLimit(settings));
    const contents = hostKvBlocks === 0 || kvBlocks === null ? null : new BlockContents(kvBlocks, blockSize);
    const arrivals = {
      arrived: (request: RequestState, from: number, held: number, at: number) => {
        this.#arrived(request, from, held, at);
      },
      resumed: (request: RequestState, at: number) => this.#resumed(request, at),
    };
    this.#host = contents && new HostTier(settings, this.#pool, contents, this.#events, arrivals);
    this.#hints = new HintExecutor(this.#pool, this.#host, this.#events, blockSize);
    this.#transfers = new Transfers(settings, this.#pool, parts, {
      ...arrivals,
      started: (request, blocks, at) => this.#sink?.transfer('start', request.id, blocks, at),
      wanted: (request, at) => {
        request.status = 'waiting';
        request.readyAt = at;
        this.#scheduler.waiting.push(request);
      },
      taken: (request, from, held, at) => this.#taken(request, from, held, at),
      freed: (request) => this.#hints.freed(request),
      ended: (request, failure) => {
        const result = resultOf(request);
        this.#endOutside(request, failure === null ? result : { ...result, failure });
      },
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
    checkRequest(request, this.#requests.has(request.id) || keyInUse(this.#transfers, request.handoff));
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
    if (kvBlocks !== null && footprint > kvBlocks) {
      this.#transfers.refused(state, this.#time);
      this.#endOutside(state, { cachedTokens: 0, outputTokens: 0, rejected: true });
    } else if (this.#transfers.accepted(state, this.#time)) this.#scheduler.waiting.push(state);
    else state.status = 'parked';
    this.#wake(this.#time);
  }

  abort(id: string, now: number): void {
    const request = this.#requests.get(id);
    if (request === undefined) return;
    this.#time = Math.max(this.#time, now);
    this.#conclude(request);
    if (request.status === 'parked') this.#host?.cancel(request);
    this.#transfers.aborted(request, this.#time);
    if (this.#ended.length > 0) this.#ended = this.#ended.filter((one) => one.request !== request);
    this.#forget(request);
  }

  nextEventAt(): number | null {
    if (this.#ended.length > 0 || this.#transfers.hasNotices || this.#events.pending) return this.#time;
    const next = Math.min(
      this.#passEnd ?? this.#nextPassStart(),
      this.#transfers.nextDue,
      this.#host?.nextDue ?? Number.POSITIVE_INFINITY,
    );
    return next === Number.POSITIVE_INFINITY ? null : next;
  }

  advance(now: number, sink: SimulatorSink): void {
    this.#sink = sink;
    if (this.#transfers.hasNotices) this.#transfers.takeNotices(Math.max(this.#time, now));
    for (;;) {
      // A peer may answer while it is asked.
      if (this.#transfers.hasNotices) this.#transfers.takeNotices(this.#time);
      this.#publish(Math.max(this.#time, now), sink);
      this.#tellEnded(sink, Math.max(this.#time, now));
      const next = this.nextEventAt();
      if (next === null || next > now) break;
      this.#time = Math.max(this.#time, next);
      if (this.#transfers.nextDue <= next) {
        this.#transfers.advance(next);
        this.#wake(next);
      } else if (this.#host !== null && this.#host.nextDue <= next) {
        this.#host.advance(next);
        this.#wake(next);
      } else if (this.#passEnd !== null) this.#finishPass(this.#passEnd, sink);
      else this.#startPass(next, sink);
    }
    this.#time = Math.max(this.#time, now);
    this.#sink = null;
  }

  grantFetch(request: FetchGrantRequest, now: number): FetchAnswer {
    return this.#transfers.grant(request, now);
  }

  releaseFetch(key: string, now: number, how: 'done' | 'cancel' = 'done'): void {
    if (this.#transfers.release(key, how, now)) this.#wake(now);
  }

  claimHandoff(claim: HandoffClaim, now: number, answered: (answer: FetchAnswer) => void): void {
    this.#time = Math.max(this.#time, now);
    this.#transfers.claim(claim, this.#time, answered);
    this.#wake(this.#time);
  }

  dropHandoff(handoff: string, now: number): void {
    if (this.#transfers.drop(handoff, now)) this.#wake(now);
  }

  stats(): SimulatedEngineStats {
    const { kvBlocks } = this.#settings;
    return statsOf(kvBlocks, this.#pool, this.#scheduler, this.#transfers, this.#host, this.#evictions);
  }

  residentBlocks(tier: Tier): HashPairs {
    if (tier === 'device') return this.#pool.residentBlocks();
    return (tier === 'host' ? this.#host?.residentBlocks() : null) ?? NO_BLOCKS;
  }

  die(now: number): void {
    this.#transfers.abandon(now);
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
    if (this.#scheduler.admitted.length === 0) return;
    for (const request of this.#scheduler.admitted.slice()) {
      this.#hints.admitted(request, start);
      sink.admitted(request.id, request.cachedTokens, request.outcomes, start);
    }
  }

  #finishPass(at: number, sink: SimulatorSink): void {
    this.#passEnd = null;
    this.#lastPassEnd = at;
    this.#output.generate(this.#scheduler.running);
    const { finishes, ready } = this.#output;
    const ended = finishes ? this.#retireAll(ready, at) : null;
    this.#publish(at, sink);
    // Told last, because a sink may submit or abort.
    for (let index = 0; index < ready.length; index += 1) {
      const request = ready[index]!;
      if (!request.isAwaited) continue;
      if (request.outputTarget > 0) sink.chunk(request.id, request.tokens.last, at);
      if (ended === null || !ended.has(request) || !request.isAwaited) continue;
      this.#conclude(request);
      sink.finished(request.id, this.#transfers.resultOf(request), at);
    }
  }

  /** Takes those off the batch that have all their output; answers which of them end now. */
  #retireAll(ready: readonly RequestState[], at: number): ReadonlySet<RequestState> {
    const ended = new Set<RequestState>();
    for (const request of ready) {
      if (request.generated >= request.outputTarget && this.#retire(request, at)) ended.add(request);
    }
    return ended;
  }

  /** Its sink hears of its end next, or of nothing any more. */
  #conclude(request: RequestState): void {
    this.#requests.delete(request.id);
    request.isAwaited = false;
  }

  /** False when it waits for its blocks to be taken before it ends. */
  #retire(request: RequestState, at: number): boolean {
    this.#scheduler.withdraw(request);
    request.status = 'parked';
    if (this.#transfers.computed(request, at)) return false;
    this.#letGo(request, at);
    return true;
  }

  /** Parks a queue head while its blocks come from another engine's prefill, from host memory or, behind those, from a peer. */
  #park(request: RequestState, start: number): ReturnType<ParkAttempt> {
    if (request.handedOver) return 'stays';
    const reusable = this.#scheduler.reusableBlocks(request);
    if (request.mayTake) return this.#transfers.take(request, reusable, start) ? 'parked' : 'no_room';
    if (this.#host !== null && request.mayOnboard) {
      request.mayOnboard = false;
      if (this.#host.attempt(request, reusable, start)) return 'parked';
    }
    return this.#transfers.fetch(request, reusable, start) ? 'parked' : 'stays';
  }

  /** The whole prompt came from another engine: only its last token is computed again, for its output. */
  #taken(request: RequestState, from: number, held: number, at: number): void {
    this.#arrived(request, from, held, at, request.length - 1);
    request.promptLength = request.computed;
    request.handedOver = true;
    this.#resumed(request, at);
  }

  #arrived(
    request: RequestState,
    from: number,
    held: number,
    at: number,
    tokens = held * this.#settings.blockSize,
  ): void {
    request.computed = tokens;
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

  #publish(at: number, sink: SimulatorSink): void {
    if (this.#pool.hasLateRetains) this.#hints.tellLate();
    if (this.#events.pending) sink.kvEvents(this.#events.take(), at);
  }

  #endOutside(request: RequestState, result: SimulatedResult): void {
    this.#ended.push({ request, result });
    this.#forget(request);
  }

  #forget(request: RequestState): void {
    this.#scheduler.withdraw(request);
    this.#letGo(request, this.#time);
    this.#wake(this.#time);
  }

  #letGo(request: RequestState, at: number): void {
    if (request.status === 'gone') return;
    request.status = 'gone';
    const { handoff } = request;
    const handedOver = handoff?.leg === 'prefill' && this.#transfers.gives(handoff.key);
    this.#hints.ended(request, at, () => this.#scheduler.releaseBlocks(request), handedOver);
  }

  #tellEnded(sink: SimulatorSink, at: number): void {
    if (this.#ended.length === 0) return;
    const told = this.#ended;
    this.#ended = [];
    for (const { request, result } of told) {
      if (!request.isAwaited) continue;
      this.#conclude(request);
      sink.finished(request.id, result, at);
    }
  }
}

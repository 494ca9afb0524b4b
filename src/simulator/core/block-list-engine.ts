// The `block-list` cache model: a prompt is a list of whole blocks, and serving it means looking up the longest resident prefix
// and then touching or entering every block in prompt order, least recently used out. No outputs, no time: it measures cache
// contents alone, so that a replay can be checked against published figures.
import type { HashPairs, Tier } from '../../kv/index.ts';
import type {
  FetchAnswer,
  HandoffClaim,
  SimulatedEngine,
  SimulatedEngineParts,
  SimulatedEngineSettings,
  SimulatedEngineStats,
  SimulatedRequest,
  SimulatorSink,
} from '../types.ts';
import { checkRequest } from './accept-request.ts';
import { EventCollector } from './event-collector.ts';
import { ExternalHasher } from './external-chain.ts';
import { planHints } from './hint-plan.ts';
import { KvPool } from './kv-pool.ts';
import { RequestState } from './request-state.ts';

/** An LRU list of blocks behind the engine interface. Hint actions are rejected as unsupported. */
export class BlockListEngine implements SimulatedEngine {
  readonly #settings: SimulatedEngineSettings;
  readonly #hasher: ExternalHasher;
  readonly #events: EventCollector;
  readonly #pool: KvPool;
  readonly #copy = new Int32Array(1);
  #waiting: RequestState[] = [];
  #time = 0;
  #evicted = 0;

  constructor(settings: SimulatedEngineSettings, parts: SimulatedEngineParts) {
    this.#settings = settings;
    this.#hasher = new ExternalHasher(parts.hasher, settings.blockSize, settings.hashSeed);
    this.#events = new EventCollector(settings.blockSize);
    this.#pool = new KvPool(settings.kvBlocks, (lo, hi) => {
      this.#evicted += 1;
      this.#events.removed(lo, hi, 'device');
      parts.onEvicted?.(lo, hi, 'room');
    });
  }

  submit(request: SimulatedRequest, now: number): void {
    checkRequest(
      request,
      this.#waiting.some((other) => other.id === request.id),
    );
    this.#time = Math.max(this.#time, now);
    this.#waiting.push(
      new RequestState(
        { ...request, outputTokens: 0 },
        0,
        planHints(request.hint, [], this.#settings.acceptedActions),
        this.#time,
      ),
    );
  }

  abort(id: string): void {
    this.#waiting = this.#waiting.filter((request) => request.id !== id);
  }

  nextEventAt(): number | null {
    return this.#waiting[0]?.readyAt ?? null;
  }

  advance(now: number, sink: SimulatorSink): void {
    this.#time = Math.max(this.#time, now);
    for (let request = this.#waiting.shift(); request !== undefined; request = this.#waiting.shift()) {
      const cachedTokens = this.#serve(request) * this.#settings.blockSize;
      const events = this.#events.take();
      if (events.length > 0) sink.kvEvents(events, now);
      sink.admitted(request.id, cachedTokens, request.outcomes, now);
      sink.finished(request.id, { cachedTokens, outputTokens: 0, rejected: false }, now);
    }
  }

  grantFetch(): FetchAnswer {
    return { error: 'nothing_held' };
  }

  releaseFetch(): void {}

  claimHandoff(_claim: HandoffClaim, _now: number, answered: (answer: FetchAnswer) => void): void {
    answered({ error: 'nothing_held' });
  }

  dropHandoff(): void {}

  residentBlocks(tier: Tier): HashPairs {
    return tier === 'device' ? this.#pool.residentBlocks() : new Uint32Array(0);
  }

  die(): void {}

  stats(): SimulatedEngineStats {
    return {
      running: 0,
      waiting: this.#waiting.length,
      parked: 0,
      activeBlocks: 0,
      inactiveBlocks: this.#pool.inactive,
      totalBlocks: this.#settings.kvBlocks,
      preemptions: 0,
      prefillMs: 0,
      hostBlocks: 0,
      offloadedBlocks: 0,
      onboardedBlocks: 0,
      handoffs: 0,
      retainedBlocks: 0,
      evictedForRoom: this.#evicted,
      evictedByHint: 0,
    };
  }

  /** Returns how many leading blocks were resident before. */
  #serve(request: RequestState): number {
    request.prepare(this.#hasher, this.#settings.blockSize);
    const { external, hashedBlocks } = request;
    const pool = this.#pool;
    const hits = pool.residentUntil(external, 0, hashedBlocks);
    let runStart = -1;
    for (let block = 0; block < hashedBlocks; block += 1) {
      const lo = external[2 * block]!;
      const hi = external[2 * block + 1]!;
      const resident = pool.touch(lo, hi);
      // A store never reaches across an eviction, so that events keep the order in which things happened.
      if (runStart >= 0 && (resident || pool.available === pool.inactive)) {
        this.#events.stored(request, runStart, block);
        runStart = -1;
      }
      if (resident) continue;
      pool.allocate(this.#copy, 0, 1);
      pool.cache(this.#copy[0]!, lo, hi);
      pool.release(this.#copy, 0, 1);
      if (runStart < 0) runStart = block;
    }
    if (runStart >= 0) this.#events.stored(request, runStart, hashedBlocks);
    return hits;
  }
}

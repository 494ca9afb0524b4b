// Moves a simulated engine along real time: wakes it when something is due and hands what it says to whoever asked. The engine
// itself never waits.
import type { KvEvent } from '../../events/index.ts';
import type { Clock } from '../../plugin/index.ts';
import type {
  FetchAnswer,
  FetchGrantRequest,
  HandoffClaim,
  SimulatedEngine,
  SimulatedEngineStats,
  SimulatedHintOutcome,
  SimulatedRequest,
  SimulatedResult,
  SimulatorSink,
} from '../types.ts';

/** Hears what becomes of one request: `admitted`, then tokens, then `finished`; a rejected one only `finished`. */
export interface RequestListener {
  admitted(cachedTokens: number, outcomes: readonly SimulatedHintOutcome[]): void;
  token(tokenId: number): void;
  finished(result: SimulatedResult): void;
}

/** What a driver works with. */
export interface EngineDriverOptions {
  readonly engine: SimulatedEngine;
  readonly clock: Clock;
  /** Takes the KV events of one pass, in order; `at` is ms by the clock. */
  readonly publish: (events: readonly KvEvent[], at: number) => void;
}

/** Drives one engine. Listeners may be called before `submit` returns. */
export class EngineDriver {
  #engine: SimulatedEngine;
  readonly #clock: Clock;
  readonly #sink: SimulatorSink;
  readonly #listeners = new Map<string, RequestListener>();
  #cancelTimer: (() => void) | null = null;
  #advancing = false;
  #closed = false;

  constructor(options: EngineDriverOptions) {
    this.#engine = options.engine;
    this.#clock = options.clock;
    this.#sink = {
      admitted: (id, cachedTokens, outcomes) => this.#listeners.get(id)?.admitted(cachedTokens, outcomes),
      chunk: (id, tokenId) => this.#listeners.get(id)?.token(tokenId),
      finished: (id, result) => {
        const listener = this.#listeners.get(id);
        this.#listeners.delete(id);
        listener?.finished(result);
      },
      kvEvents: (events, at) => options.publish(events, at),
      transfer: () => undefined,
    };
  }

  /** Requests submitted and neither finished nor aborted. */
  get active(): number {
    return this.#listeners.size;
  }

  /** Whether a request of this id is under way. */
  has(id: string): boolean {
    return this.#listeners.has(id);
  }

  stats(): SimulatedEngineStats {
    return this.#engine.stats();
  }

  /** @throws PointsmanError PM_SIM_REQUEST as `SimulatedEngine.submit`. */
  submit(request: SimulatedRequest, listener: RequestListener): void {
    this.#engine.submit(request, this.#clock.now());
    this.#listeners.set(request.id, listener);
    this.wake();
  }

  /** Ends a request; its listener hears nothing more. Unknown ids are ignored. */
  abort(id: string): void {
    if (!this.#listeners.delete(id)) return;
    this.#engine.abort(id, this.#clock.now());
    this.wake();
  }

  /** Source side of a fetch; see `SimulatedEngine.grantFetch`. */
  grantFetch(request: FetchGrantRequest): FetchAnswer {
    const answer = this.#engine.grantFetch(request, this.#clock.now());
    this.wake();
    return answer;
  }

  releaseFetch(key: string, how: 'done' | 'cancel'): void {
    this.#engine.releaseFetch(key, this.#clock.now(), how);
    this.wake();
  }

  /** Giving side of a handoff; see `SimulatedEngine.claimHandoff`. */
  claimHandoff(claim: HandoffClaim, answered: (answer: FetchAnswer) => void): void {
    this.#engine.claimHandoff(claim, this.#clock.now(), answered);
    this.wake();
  }

  dropHandoff(handoff: string): void {
    this.#engine.dropHandoff(handoff, this.#clock.now());
    this.wake();
  }

  /** Advances if something is due and sets the timer for what comes next; to be called after every change from outside. */
  wake(): void {
    if (this.#advancing || this.#closed) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    let next = this.#engine.nextEventAt();
    if (next !== null && next <= this.#clock.now()) {
      this.#advancing = true;
      try {
        this.#engine.advance(this.#clock.now(), this.#sink);
      } finally {
        this.#advancing = false;
      }
      next = this.#engine.nextEventAt();
    }
    if (next === null || this.#closed) return;
    // What became due while advancing gets its turn from the timer, so that sockets are served in between.
    const delay = Math.max(0, next - this.#clock.now());
    this.#cancelTimer = this.#clock.schedule(delay, () => this.wake());
  }

  /** Another machine takes the place of this one, which died; the requests under way are forgotten. */
  replace(engine: SimulatedEngine): void {
    this.#engine.die(this.#clock.now());
    this.#engine = engine;
    this.#listeners.clear();
    this.wake();
  }

  /** Stops for good; requests under way stay unfinished. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }
}

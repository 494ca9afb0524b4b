// Asks every worker how it is, again and again: at once when it joins or turns suspect, then at an interval. How a worker is
// asked (HTTP, nothing at all) is the injected probe's business; what follows from answers is health.ts's.
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { RecognizedEngine } from './engine-description.ts';
import type { Fleet } from './fleet.ts';
import type { WorkerHealth } from './health.ts';
import type { Worker, WorkerCapabilities } from './types.ts';

/** What a probe found. */
export type ProbeResult =
  | {
      readonly healthy: true;
      /** The advertisement, null when the engine has none, absent when it was not asked. */
      readonly capabilities?: WorkerCapabilities | null;
      /** What the engine says that it is, null when it is something else, absent when nothing was learned. */
      readonly engine?: RecognizedEngine | null;
    }
  | { readonly healthy: false };

/** What a probe is told besides the worker. */
export interface ProbeContext {
  /** Whether the capability advertisement is due. */
  readonly askCapabilities: boolean;
  /** Fires when the answer no longer matters. */
  readonly signal: AbortSignal;
}

/** Asks one worker. A rejection counts as unhealthy. */
export type Probe = (worker: Worker, context: ProbeContext) => Promise<ProbeResult>;

/** Options of {@link HealthProber}; times in ms. */
export interface ProberOptions {
  readonly fleet: Fleet;
  readonly health: WorkerHealth;
  readonly clock: Clock;
  readonly probe: Probe;
  /** Between checks of a worker in good health; default 5,000. */
  readonly intervalMs?: number;
  /** Between checks of a suspect or lost worker; default 1,000. */
  readonly troubledIntervalMs?: number;
  /** An answer later than this is none; default 2,000. */
  readonly timeoutMs?: number;
  /** Capabilities are asked again after this; default 60,000. They are also asked at the first check and on return. */
  readonly capabilitiesIntervalMs?: number;
  /**
   * Whether what a worker will announce from now on is heard. One that comes back is held back for at most a second until it is:
   * what its first requests store would be missed for good. Default: always.
   */
  readonly heard?: (worker: Worker) => boolean;
  readonly metrics?: Metrics;
}

/** Pause between checks of a worker that is held back, ms, and their number at most. */
const HOLD_MS = 50;
const MAX_HOLDS = 20;

interface Watch {
  cancelTimer: (() => void) | null;
  /** The check under way; null between checks. */
  running: AbortController | null;
  /** When capabilities were last answered; null = must be asked. */
  capabilitiesAt: number | null;
  /** Checks since trouble that found it healthy and not heard yet. */
  holds: number;
}

/** The loop of health checks; at most one check per worker is under way. */
export class HealthProber {
  readonly #options: Required<Omit<ProberOptions, 'metrics'>>;
  readonly #metrics: Metrics;
  readonly #watches = new Map<bigint, Watch>();
  #unlisten: (() => void) | null = null;

  constructor(options: ProberOptions) {
    this.#options = {
      intervalMs: 5000,
      troubledIntervalMs: 1000,
      timeoutMs: 2000,
      capabilitiesIntervalMs: 60_000,
      heard: () => true,
      ...options,
    };
    this.#metrics = options.metrics ?? NO_METRICS;
  }

  /** Starts checking every worker of the fleet and those that join. Starting twice does nothing. */
  start(): void {
    if (this.#unlisten !== null) return;
    const { fleet } = this.#options;
    this.#unlisten = fleet.listen({
      added: (worker) => this.#watch(worker),
      removed: (worker) => this.#forget(worker.spec.id),
      stateChanged: (worker) => {
        if (worker.state === 'suspect') this.#checkSoon(worker);
        // What answers after trouble may be a restarted engine: its epoch must be seen before its blocks are believed.
        const watch = this.#watches.get(worker.spec.id);
        if (watch !== undefined && worker.state !== 'ready') watch.capabilitiesAt = null;
      },
    });
    for (const worker of fleet.workers()) this.#watch(worker);
  }

  /** Stops: timers are cancelled, checks under way are aborted and their answers ignored. Idempotent. */
  stop(): void {
    this.#unlisten?.();
    this.#unlisten = null;
    for (const id of [...this.#watches.keys()]) this.#forget(id);
  }

  #watch(worker: Worker): void {
    // Callers carry requests to it themselves: nobody connects to it here.
    if (worker.spec.registered === true) return;
    this.#watches.set(worker.spec.id, { cancelTimer: null, running: null, capabilitiesAt: null, holds: 0 });
    this.#checkSoon(worker);
  }

  #forget(id: bigint): void {
    const watch = this.#watches.get(id);
    this.#watches.delete(id);
    watch?.cancelTimer?.();
    watch?.running?.abort();
  }

  #checkSoon(worker: Worker): void {
    const watch = this.#watches.get(worker.spec.id);
    if (watch !== undefined && watch.running === null) this.#schedule(worker, watch, 0);
  }

  #schedule(worker: Worker, watch: Watch, delayMs: number): void {
    watch.cancelTimer?.();
    watch.cancelTimer = this.#options.clock.schedule(delayMs, () => {
      watch.cancelTimer = null;
      this.#check(worker, watch);
    });
  }

  #check(worker: Worker, watch: Watch): void {
    const { clock, probe, timeoutMs, capabilitiesIntervalMs } = this.#options;
    const running = new AbortController();
    watch.running = running;
    const askCapabilities =
      watch.capabilitiesAt === null || clock.now() - watch.capabilitiesAt >= capabilitiesIntervalMs;
    const settle = (result: ProbeResult): void => {
      if (watch.running !== running) return;
      watch.running = null;
      cancelTimeout();
      if (this.#watches.get(worker.spec.id) === watch) this.#conclude(worker, watch, askCapabilities, result);
    };
    const cancelTimeout = clock.schedule(timeoutMs, () => {
      settle({ healthy: false });
      running.abort();
    });
    probe(worker, { askCapabilities, signal: running.signal }).then(settle, () => settle({ healthy: false }));
  }

  #conclude(worker: Worker, watch: Watch, asked: boolean, result: ProbeResult): void {
    const { fleet, health, clock, intervalMs, troubledIntervalMs } = this.#options;
    const id = worker.spec.id;
    const outdated = !asked && watch.capabilitiesAt === null;
    this.#metrics.count('pointsman_health_checks_total', { result: result.healthy ? 'ok' : 'failed' });
    if (result.healthy) {
      // First: what follows from an advertisement may ask which dialect the engine speaks.
      if (result.engine !== undefined) fleet.setEngine(id, result.engine);
      if (this.#watches.get(id) !== watch) return;
      if (result.capabilities !== undefined) {
        fleet.setCapabilities(id, result.capabilities);
        watch.capabilitiesAt = clock.now();
      }
      if (result.engine !== undefined) watch.capabilitiesAt = clock.now();
      // A listener may have removed the worker or stopped the loop.
      if (this.#watches.get(id) !== watch) return;
      // A check that began before the trouble says nothing about who answers after it.
      const again = outdated ? 0 : this.#holdsBack(worker, watch) ? HOLD_MS : null;
      if (again !== null) {
        this.#schedule(worker, watch, again);
        return;
      }
      health.checkSucceeded(id);
    } else {
      health.checkFailed(id);
      // Whatever answers next may be another process with another epoch.
      watch.capabilitiesAt = null;
    }
    if (this.#watches.get(id) !== watch) return;
    const troubled = !result.healthy || worker.state === 'suspect' || worker.state === 'gone';
    this.#schedule(worker, watch, troubled ? troubledIntervalMs : intervalMs);
  }

  #holdsBack(worker: Worker, watch: Watch): boolean {
    const troubled = worker.state === 'suspect' || worker.state === 'gone';
    const holds = troubled && watch.holds < MAX_HOLDS && !this.#options.heard(worker);
    watch.holds = holds ? watch.holds + 1 : 0;
    return holds;
  }
}

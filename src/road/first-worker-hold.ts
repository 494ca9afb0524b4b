// Requests of a model that has no worker yet wait for the first one, for a while and not too many: what comes while a fleet starts is
// answered instead of refused. A model whose workers are all gone has none either.
import type { Fleet } from '../fleet/index.ts';
import type { Classification } from '../host/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import type { SessionBinding } from '../scheduling/index.ts';
import type { KnownHashes, QueueFacts } from './queue-walk.ts';
import type { RoadRequest } from './types.ts';

/** What a request's exchange lets the hold do. */
export interface HeldExchange {
  /** `stopWaiting` is called if the exchange ends before. */
  waitsFor(stopWaiting: () => void): void;
  waitedFor(): void;
  refuse(error: PointsmanError): void;
  failed(error: PointsmanError): void;
}

/** A request on its way from the classify step to its booking. */
export interface HeldRequest<E extends HeldExchange> {
  readonly exchange: E;
  readonly request: RoadRequest;
  readonly classification: Classification | null;
  /** Since when it waits for a worker, ms of the clock; null = it has not waited. */
  readonly heldSince: number | null;
  /** How it passed the queue; null or absent = it has not, or there are none. */
  readonly admitted?: QueueFacts | null;
  /** Its hashes, from before it waited; null or absent = they are computed when they are needed. */
  readonly known?: KnownHashes | null;
  /** The binding of its session, while it is placed; null or absent = it has none. */
  readonly binding?: SessionBinding | null;
  /** Since when it waits for that binding to be made, ms of the clock; null or absent = it has not waited. */
  readonly bindingSince?: number | null;
}

/** How long and how many; read at each request. */
export interface HoldLimits {
  /** Longest wait in ms; 0 = nobody waits. */
  readonly waitMs: number;
  /** Most that wait at once. */
  readonly waiting: number;
}

/** Nobody waits. */
export const NO_HOLD: HoldLimits = { waitMs: 0, waiting: 0 };

/** What the hold works with. */
export interface HoldPorts<E extends HeldExchange> {
  readonly fleet: Fleet;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits: () => HoldLimits;
  /** There is a worker: the request goes on. */
  readonly goOn: (held: HeldRequest<E>) => void;
  readonly asError: (thrown: unknown) => PointsmanError;
}

/** What a request gets whose worker is not there; a pinned one may see it come. */
const WORKER_MISSING: ReadonlySet<string> = new Set([
  'PM_SELECTION_NO_ENDPOINTS',
  'PM_SELECTION_PINNED_UNAVAILABLE',
]);

/** Those that wait, in order of arrival. */
export class FirstWorkerHold<E extends HeldExchange> {
  readonly #ports: HoldPorts<E>;
  /** Each with what ends its wait. */
  readonly #held = new Map<HeldRequest<E>, () => void>();
  #looksSoon = false;

  constructor(ports: HoldPorts<E>) {
    this.#ports = ports;
    ports.metrics.gauge('pointsman_requests_held', () => this.#held.size);
    const look = (): void => this.#lookSoon();
    ports.fleet.listen({ added: look, stateChanged: look });
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#held.size;
  }

  /**
   * Takes a request that could not be placed, when its model has no worker.
   * @returns null when it waits; else the error that ends it, which is `error` where it has no reason to wait.
   */
  take(arrived: HeldRequest<E>, error: PointsmanError): PointsmanError | null {
    const { clock, limits, metrics } = this.#ports;
    const { waitMs, waiting } = limits();
    if (waitMs === 0 || !WORKER_MISSING.has(error.code) || this.#hasWorker(arrived.request)) return error;
    const now = clock.now();
    const held = { ...arrived, heldSince: arrived.heldSince ?? now, bindingSince: null };
    const restMs = held.heldSince + waitMs - now;
    if (restMs <= 0) return this.#tooLong(error, now - held.heldSince);
    if (this.#held.size >= waiting) {
      metrics.count('pointsman_holds_total', { outcome: 'full' });
      return refusal(error, `${this.#held.size} requests wait for one already (limits.first_worker_waiting)`);
    }
    const cancel = clock.schedule(restMs, () => {
      this.#end(held);
      held.exchange.refuse(this.#tooLong(error, clock.now() - held.heldSince));
    });
    this.#held.set(held, cancel);
    held.exchange.waitsFor(() => {
      this.#end(held);
      metrics.count('pointsman_holds_total', { outcome: 'aborted' });
    });
    return null;
  }

  #tooLong(error: PointsmanError, waitedMs: number): PointsmanError {
    this.#ports.metrics.count('pointsman_holds_total', { outcome: 'expired' });
    return refusal(error, `none came within ${Math.round(waitedMs)} ms (limits.first_worker_wait)`);
  }

  #end(held: HeldRequest<E>): void {
    this.#held.get(held)?.();
    this.#held.delete(held);
    held.exchange.waitedFor();
  }

  /** Not at once: others must hear of the worker before anything is booked on it. */
  #lookSoon(): void {
    if (this.#looksSoon || this.#held.size === 0) return;
    this.#looksSoon = true;
    this.#ports.clock.schedule(0, () => {
      this.#looksSoon = false;
      this.#look();
    });
  }

  /** Whoever can be placed now goes on, in order of arrival. */
  #look(): void {
    for (const held of [...this.#held.keys()]) {
      // What another does on its way may have ended it.
      if (!this.#held.has(held) || !this.#hasReadyWorker(held.request)) continue;
      this.#end(held);
      this.#ports.metrics.count('pointsman_holds_total', { outcome: 'went_on' });
      try {
        this.#ports.goOn(held);
      } catch (thrown) {
        // Nobody is above to whom it could go.
        held.exchange.failed(this.#ports.asError(thrown));
      }
    }
  }

  #hasWorker(request: RoadRequest): boolean {
    return this.#anyWorker(request, (state) => state !== 'gone');
  }

  #hasReadyWorker(request: RoadRequest): boolean {
    return request.divided?.isOpen() === true || this.#anyWorker(request, (state) => state === 'ready');
  }

  #anyWorker({ partition, role }: RoadRequest, counts: (state: string) => boolean): boolean {
    const { fleet } = this.#ports;
    return fleet.candidates(partition, role).slots.some((slot) => {
      const worker = fleet.workerOfSlot(slot);
      return worker !== null && counts(worker.state);
    });
  }
}

/** The same refusal, with what came of waiting. */
function refusal({ code, message, details }: PointsmanError, what: string): PointsmanError {
  return new PointsmanError(code, `${message}; ${what}`, { details: { ...details, retry_after: '1' } });
}

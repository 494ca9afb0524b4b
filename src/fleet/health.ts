// When a worker changes state: what dispatching saw and what health checks say, turned into `suspect`, `gone` and `ready`.
// Pure bookkeeping; prober.ts asks the workers, the road reports what happened to its connections.
import type { WorkerId } from '../plugin/index.ts';
import type { Fleet } from './fleet.ts';

/** Refused connections in a row that make a worker suspect. */
const REFUSALS_TO_SUSPECT = 2;
/** Failed health checks in a row after which a worker is gone. */
const FAILURES_TO_GONE = 3;

interface Record {
  refusals: number;
  failedChecks: number;
  /** Whether it was draining when it was lost; it then comes back draining. */
  draining: boolean;
}

/** The state machine of every worker of a fleet. Unknown ids are ignored: reports may come in after a worker was removed. */
export class WorkerHealth {
  readonly #fleet: Fleet;
  readonly #records = new Map<bigint, Record>();
  readonly #unlisten: () => void;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    this.#unlisten = fleet.listen({ removed: (worker) => this.#records.delete(worker.spec.id) });
  }

  /** A dispatched request was refused a connection; the second time in a row the worker is suspect. */
  connectionRefused(id: WorkerId): void {
    const record = this.#recordOf(id);
    if (record === null) return;
    record.refusals += 1;
    if (record.refusals >= REFUSALS_TO_SUSPECT) this.#suspect(id);
  }

  /** A worker cut a connection before its answer was complete, or its event stream: suspect at once. */
  streamReset(id: WorkerId): void {
    if (this.#recordOf(id) !== null) this.#suspect(id);
  }

  /** A worker began to answer a request. */
  answered(id: WorkerId): void {
    const record = this.#records.get(id);
    if (record !== undefined) record.refusals = 0;
  }

  /** A health check succeeded: a suspect or lost worker takes bookings again (or drains on, if it was draining). */
  checkSucceeded(id: WorkerId): void {
    const record = this.#recordOf(id);
    const worker = this.#fleet.worker(id);
    if (record === null || worker === null) return;
    record.refusals = 0;
    record.failedChecks = 0;
    if (worker.state === 'suspect' || worker.state === 'gone') {
      this.#fleet.setState(id, record.draining ? 'draining' : 'ready');
      record.draining = false;
    }
  }

  /** A health check failed; the third in a row loses the worker. */
  checkFailed(id: WorkerId): void {
    const record = this.#recordOf(id);
    const worker = this.#fleet.worker(id);
    if (record === null || worker === null) return;
    record.failedChecks += 1;
    if (record.failedChecks < FAILURES_TO_GONE || worker.state === 'gone') return;
    record.draining = worker.state === 'draining';
    this.#fleet.setState(id, 'gone');
  }

  /** Stops listening to the fleet. */
  close(): void {
    this.#unlisten();
  }

  /** Only a ready worker turns suspect: a draining one takes no bookings anyway. */
  #suspect(id: WorkerId): void {
    if (this.#fleet.worker(id)?.state === 'ready') this.#fleet.setState(id, 'suspect');
  }

  /** Null = nobody's worker, or one to which callers carry requests themselves: whether they reach it is not known here. */
  #recordOf(id: WorkerId): Record | null {
    const known = this.#records.get(id);
    if (known !== undefined) return known;
    const worker = this.#fleet.worker(id);
    if (worker === null || worker.spec.registered === true) return null;
    const record = { refusals: 0, failedChecks: 0, draining: false };
    this.#records.set(id, record);
    return record;
  }
}

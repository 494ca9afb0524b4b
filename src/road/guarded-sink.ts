// A door's sink that may throw: what it throws is counted, and the exchange hears only whether the door took the call.
import type { EngineReport } from '../engines/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { PointsmanError, WorkerRank } from '../plugin/index.ts';
import type { ResponseSink } from './types.ts';

/** Calls of a door; each answers false when the door threw. */
export class GuardedSink {
  readonly #sink: ResponseSink;
  readonly #metrics: Metrics;

  constructor(sink: ResponseSink, metrics: Metrics) {
    this.#sink = sink;
    this.#metrics = metrics;
  }

  booked(chosen: WorkerRank, decisionId: string): boolean {
    try {
      this.#sink.booked(chosen, decisionId);
      return true;
    } catch {
      return this.#threw();
    }
  }

  dispatched(): boolean {
    try {
      this.#sink.dispatched?.();
      return true;
    } catch {
      return this.#threw();
    }
  }

  head(status: number, headers: Readonly<Record<string, string>>): boolean {
    try {
      this.#sink.head(status, headers);
      return true;
    } catch {
      return this.#threw();
    }
  }

  data(bytes: Uint8Array): boolean {
    try {
      this.#sink.data(bytes);
      return true;
    } catch {
      return this.#threw();
    }
  }

  tokens(count: number): boolean {
    try {
      this.#sink.tokens(count);
      return true;
    } catch {
      return this.#threw();
    }
  }

  finished(report: EngineReport): boolean {
    try {
      this.#sink.finished(report);
      return true;
    } catch {
      return this.#threw();
    }
  }

  failed(error: PointsmanError, afterHead: boolean): boolean {
    try {
      this.#sink.failed(error, afterHead);
      return true;
    } catch {
      return this.#threw();
    }
  }

  /** Whether the request goes on elsewhere; a door that throws says no. */
  retries(error: PointsmanError): boolean {
    try {
      return this.#sink.retries?.(error) ?? false;
    } catch {
      return this.#threw();
    }
  }

  /** Whether somebody still waits; a door that throws says no. */
  waits(): boolean {
    try {
      return this.#sink.waits?.() ?? false;
    } catch {
      return this.#threw();
    }
  }

  #threw(): false {
    this.#metrics.count('pointsman_door_errors_total');
    return false;
  }
}

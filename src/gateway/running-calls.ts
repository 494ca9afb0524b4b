// The requests under way, and whether new ones are taken.
import type { Socket } from 'node:net';
import { ReleasePace } from '../observe/index.ts';
import type { Clock, PointsmanError } from '../plugin/index.ts';
import { admitDirectly } from '../road/index.ts';
import type { GenerateCall } from './generate-call.ts';

/** Calls of one gateway. */
export class RunningCalls {
  /** Set once, when the gateway begins to stop. */
  draining = false;
  readonly #calls = new Set<GenerateCall>();
  readonly #pace = new ReleasePace();
  readonly #clock: Pick<Clock, 'now'>;
  #whenEmpty: (() => void)[] = [];

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Whether there is room for one more under `limit`; null, or the refusal. */
  refusalAt(limit: number): PointsmanError | null {
    return admitDirectly(this.size, limit, this.#pace, this.#clock.now());
  }

  add(call: GenerateCall): void {
    this.#calls.add(call);
  }

  delete(call: GenerateCall): void {
    if (this.#calls.delete(call)) this.#pace.released(1, this.#clock.now());
    if (this.#calls.size > 0) return;
    for (const tell of this.#whenEmpty.splice(0)) tell();
  }

  /** Whether a request that arrived whole on this connection waits for its answer, or for the rest of it. */
  isAnswering(socket: Socket): boolean {
    for (const call of this.#calls) if (call.isAnswering(socket)) return true;
    return false;
  }

  /** Resolves when no call is under way. */
  empty(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenEmpty.push(resolve));
  }

  /** Ends every call with an error. */
  stopAll(error: PointsmanError): void {
    for (const call of [...this.#calls]) call.stop(error);
  }
}

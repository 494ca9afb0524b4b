// The requests under way, and whether new ones are taken.
import type { Socket } from 'node:net';
import type { PointsmanError } from '../plugin/index.ts';
import type { GenerateCall } from './generate-call.ts';

/** Calls of one gateway. */
export class RunningCalls {
  /** Set once, when the gateway begins to stop. */
  draining = false;
  readonly #calls = new Set<GenerateCall>();
  #whenEmpty: (() => void)[] = [];

  get size(): number {
    return this.#calls.size;
  }

  add(call: GenerateCall): void {
    this.#calls.add(call);
  }

  delete(call: GenerateCall): void {
    this.#calls.delete(call);
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

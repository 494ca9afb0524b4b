// Delivers lifecycle events to one classifier: one at a time, in order, none lost. A handler that answers with a promise is waited for,
// but not for ever.
import type { ClassifierEvent, Clock } from '../plugin/index.ts';

/** A handler's promise is waited for no longer than this, in ms. */
export const EVENT_LIMIT_MS = 10_000;

/** What delivery works with. */
export interface ClassifierEventPorts {
  readonly clock: Clock;
  /** Null = the classifier hears nothing. */
  readonly onEvent: ((event: ClassifierEvent) => unknown) | null;
  /** The handler failed. */
  readonly failed: (thrown: unknown) => void;
}

/** Delivers the events of one classifier, here or in its thread. */
export interface EventDelivery {
  /** Events that are not delivered yet. */
  readonly queued: number;
  /** Whether a handler's promise is waited for. */
  readonly waiting: boolean;
  /** Hands an event over; `delivered` is called once the handler is done with it, or gave up. */
  push(event: ClassifierEvent, delivered: (() => void) | null): void;
  /** Delivers nothing more. */
  close(): void;
}

interface Entry {
  readonly event: ClassifierEvent;
  readonly delivered: (() => void) | null;
}

/** The events of one classifier. */
export class ClassifierEvents implements EventDelivery {
  readonly #ports: ClassifierEventPorts;
  #queue: Entry[] = [];
  /** Entries of the queue before this one are delivered. */
  #head = 0;
  #delivering = false;
  /** Takes back the wait for a handler; null = none is waited for. */
  #stopWaiting: (() => void) | null = null;
  #closed = false;

  constructor(ports: ClassifierEventPorts) {
    this.#ports = ports;
  }

  get queued(): number {
    return this.#queue.length - this.#head;
  }

  get waiting(): boolean {
    return this.#stopWaiting !== null;
  }

  push(event: ClassifierEvent, delivered: (() => void) | null): void {
    if (this.#closed) return;
    this.#queue.push({ event, delivered });
    this.#deliver();
  }

  close(): void {
    this.#closed = true;
    this.#queue = [];
    this.#head = 0;
    this.#stopWaiting?.();
    this.#stopWaiting = null;
  }

  #deliver(): void {
    // What an entry sets off may push the next one.
    if (this.#delivering || this.#stopWaiting !== null) return;
    this.#delivering = true;
    while (this.#stopWaiting === null) {
      const entry = this.#take();
      if (entry === null) break;
      if (!this.#hand(entry)) entry.delivered?.();
    }
    this.#delivering = false;
  }

  /** @returns whether the handler is still at it. */
  #hand({ event, delivered }: Entry): boolean {
    const { onEvent, failed } = this.#ports;
    if (onEvent === null) return false;
    try {
      const result = onEvent(event);
      if (!isThenable(result)) return false;
      this.#wait(result, delivered);
      return true;
    } catch (thrown) {
      failed(thrown);
      return false;
    }
  }

  #wait(handling: object, delivered: (() => void) | null): void {
    let over = false;
    const goOn = (thrown?: { readonly reason: unknown }): void => {
      if (over) return;
      over = true;
      cancel();
      if (this.#closed) return;
      this.#stopWaiting = null;
      if (thrown !== undefined) this.#ports.failed(thrown.reason);
      delivered?.();
      this.#deliver();
    };
    const cancel = this.#ports.clock.schedule(EVENT_LIMIT_MS, () =>
      goOn({ reason: new Error(`onEvent did not end within ${EVENT_LIMIT_MS / 1000} s`) }),
    );
    this.#stopWaiting = cancel;
    new Promise((resolve) => resolve(handling)).then(
      () => goOn(),
      (reason: unknown) => goOn({ reason }),
    );
  }

  #take(): Entry | null {
    const entry = this.#queue[this.#head];
    if (entry === undefined) return null;
    this.#head += 1;
    if (this.#head === this.#queue.length) {
      this.#queue = [];
      this.#head = 0;
    } else if (this.#head >= 1024) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }
}

/** Whether a value is a promise of whatever make. Throws what a poisoned `then` throws. */
export function isThenable(value: unknown): value is object {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'then') === 'function';
}

// Virtual time: a heap of callbacks keyed (time, kind, sequence), run one after the other. What happens at the same moment runs
// by kind, then in the order it was planned, so that a run is the same every time.
import type { Clock } from '../../plugin/index.ts';

/** Kinds in the order they run at one moment. */
export const EVENT_KINDS = { message: 0, arrival: 1, timer: 2, engine: 3 } as const;
/** What an event is about. */
export type EventKind = keyof typeof EVENT_KINDS;

/** Something that happens again and again, and is planned once at a time. */
export interface RecurringEvent {
  /** Plans it for a time, not before now, in place of what was planned. */
  plan(at: number): void;
  cancel(): void;
}

interface PlannedEvent {
  at: number;
  readonly kind: number;
  sequence: number;
  /** null = cancelled. */
  callback: (() => void) | null;
}

/** A clock that jumps from event to event. */
export class VirtualTime implements Clock {
  readonly #heap: PlannedEvent[] = [];
  #now: number;
  #sequence = 0;

  constructor(startMs = 0) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  schedule(delayMs: number, callback: () => void): () => void {
    return this.plan(this.#now + Math.max(0, delayMs), 'timer', callback);
  }

  /** Plans a callback at a time, not before now; returns a function that cancels it. */
  plan(at: number, kind: EventKind, callback: () => void): () => void {
    const event: PlannedEvent = {
      at: Math.max(at, this.#now),
      kind: EVENT_KINDS[kind],
      sequence: this.#sequence,
      callback,
    };
    this.#sequence += 1;
    this.#push(event);
    return () => {
      event.callback = null;
    };
  }

  /** As `plan`, without anything made per time that it happens. */
  recurring(kind: EventKind, callback: () => void): RecurringEvent {
    let planned: PlannedEvent | null = null;
    let spare: PlannedEvent | null = null;
    const happens = (): void => {
      spare = planned;
      planned = null;
      callback();
    };
    const cancel = (): void => {
      if (planned !== null) planned.callback = null;
      planned = null;
    };
    return {
      cancel,
      plan: (at) => {
        cancel();
        // One that was cancelled still lies in the heap and is not used again.
        const event = spare ?? { at: 0, kind: EVENT_KINDS[kind], sequence: 0, callback: happens };
        spare = null;
        event.at = Math.max(at, this.#now);
        event.sequence = this.#sequence;
        this.#sequence += 1;
        planned = event;
        this.#push(event);
      },
    };
  }

  /** Time of the next event, or null. */
  nextAt(): number | null {
    this.#dropCancelled();
    return this.#heap[0]?.at ?? null;
  }

  /** Runs the next event; false when there is none. */
  step(): boolean {
    this.#dropCancelled();
    const event = this.#heap[0];
    if (event === undefined) return false;
    this.#pop();
    this.#now = event.at;
    event.callback?.();
    return true;
  }

  /** Runs every event due at or before `toMs` and stands there then. */
  runUntil(toMs: number): void {
    for (let next = this.nextAt(); next !== null && next <= toMs; next = this.nextAt()) this.step();
    this.#now = Math.max(this.#now, toMs);
  }

  #dropCancelled(): void {
    while (this.#heap[0]?.callback === null) this.#pop();
  }

  #push(event: PlannedEvent): void {
    const heap = this.#heap;
    let place = heap.length;
    heap.push(event);
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!isBefore(event, heap[parent]!)) break;
      heap[place] = heap[parent]!;
      place = parent;
    }
    heap[place] = event;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, last)) break;
      heap[place] = heap[child]!;
      place = child;
    }
    heap[place] = last;
  }
}

function isBefore(a: PlannedEvent, b: PlannedEvent): boolean {
  if (a.at !== b.at) return a.at < b.at;
  if (a.kind !== b.kind) return a.kind < b.kind;
  return a.sequence < b.sequence;
}

// Makes an event stream as bad as asked for: messages are dropped, delayed, doubled and put out of order, by seed. A pure machine
// between publishing and the wire, the same in both shells; what a replay answers does not pass through it.
import { type Rng, seededRng } from '../../plugin/index.ts';

/** What goes wrong with live event messages. Shares lie in [0, 1]. */
export interface EventFaultSettings {
  /** Share of messages that never arrive. */
  readonly drop: number;
  /** Share of messages that arrive twice in a row. */
  readonly duplicate: number;
  /** Share of messages that are held back behind 1 to `window` later ones. */
  readonly reorder: number;
  /** How many later messages may overtake one; 1 to {@link MAX_REORDER_WINDOW}. */
  readonly window: number;
  /** Every message arrives this much later, ms. */
  readonly delayMs: number;
}

export const MAX_REORDER_WINDOW = 1024;
export const MAX_EVENT_DELAY_MS = 3_600_000;

/** Nothing goes wrong. */
export const NO_EVENT_FAULTS: EventFaultSettings = {
  drop: 0,
  duplicate: 0,
  reorder: 0,
  window: 4,
  delayMs: 0,
};

/** Where too few messages follow to overtake a held one, it goes on after this time. */
const LONGEST_HOLD_MS = 1000;

/** The draws of one engine's faults: other ones for each engine of a fleet. @param engine its place, from 0. */
export function eventFaultRng(seed: number, engine: number): Rng {
  return seededRng((seed % 2_097_152) * 4_294_967_296 + engine);
}

interface Waiting<T> {
  readonly message: T;
  readonly copies: number;
  readonly at: number;
}

interface Held<T> extends Waiting<T> {
  /** Messages that still have to overtake it. */
  behind: number;
}

/** Counts since the start. */
export interface EventFaultCounts {
  readonly dropped: number;
  readonly duplicated: number;
  readonly reordered: number;
}

/** One stream's faults. Times are ms, never falling. */
export class EventFaults<T> {
  readonly #settings: EventFaultSettings;
  readonly #rng: Rng;
  /** On their way, in the order of arrival. */
  #waiting: Waiting<T>[] = [];
  /** In the order they were offered. */
  #held: Held<T>[] = [];
  #dropped = 0;
  #duplicated = 0;
  #reordered = 0;

  constructor(settings: EventFaultSettings, rng: Rng) {
    this.#settings = settings;
    this.#rng = rng;
  }

  get counts(): EventFaultCounts {
    return { dropped: this.#dropped, duplicated: this.#duplicated, reordered: this.#reordered };
  }

  /** Takes a message that was published at `now`. */
  offer(message: T, now: number): void {
    const { drop, duplicate, reorder, window } = this.#settings;
    // All draws are made for every message, so that one share changed leaves the others' choices alone.
    const dropped = this.#rng.next() < drop;
    const copies = this.#rng.next() < duplicate ? 2 : 1;
    const behind = this.#rng.next() < reorder ? 1 + this.#rng.integer(window) : 0;
    if (dropped) {
      this.#dropped += 1;
      return;
    }
    if (copies === 2) this.#duplicated += 1;
    for (const held of this.#held) held.behind -= 1;
    if (behind === 0) this.#send(message, copies, now);
    this.#letGo((held) => held.behind === 0, now);
    if (behind === 0) return;
    this.#reordered += 1;
    this.#held.push({ message, copies, behind, at: now + LONGEST_HOLD_MS });
  }

  /** When the next message arrives or must be let go; null = nothing is under way. */
  nextDue(): number | null {
    const waiting = this.#waiting[0]?.at ?? Number.POSITIVE_INFINITY;
    const next = Math.min(waiting, this.#held[0]?.at ?? Number.POSITIVE_INFINITY);
    return next === Number.POSITIVE_INFINITY ? null : next;
  }

  /** Messages that arrive at or before `now`, in that order, copies included. */
  takeDue(now: number): readonly T[] {
    this.#letGo((held) => held.at <= now, now);
    const due: T[] = [];
    let taken = 0;
    for (const { at, copies, message } of this.#waiting) {
      if (at > now) break;
      taken += 1;
      for (let copy = 0; copy < copies; copy += 1) due.push(message);
    }
    this.#waiting.splice(0, taken);
    return due;
  }

  /** The publisher died: what it held back is lost, what is on the way arrives. */
  restart(): void {
    this.#dropped += this.#held.length;
    this.#held = [];
  }

  #send(message: T, copies: number, now: number): void {
    this.#waiting.push({ message, copies, at: now + this.#settings.delayMs });
  }

  #letGo(isReady: (held: Held<T>) => boolean, now: number): void {
    if (!this.#held.some(isReady)) return;
    for (const held of this.#held) if (isReady(held)) this.#send(held.message, held.copies, now);
    this.#held = this.#held.filter((held) => !isReady(held));
  }
}

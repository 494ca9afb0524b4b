// Tells the batches of one engine process from those of the next. A publisher counts its batches from 0 and stamps them with its
// clock; both begin anew with the process, and a repeated or late message must not look like that. See docs/decisions/007.

import type { StreamPosition } from './ordered-batches.ts';

/** What a live message is. */
export type EpochVerdict =
  /** Later than all heard of this process. */
  | 'forward'
  /** Not later, of the same process: heard twice, or overtaken. */
  | 'repeated'
  /** The first one heard of a new process. */
  | 'restart'
  /** Of a process that ended before this one began. */
  | 'foreign';

/** Neither repeats nor overtaking span so many batches: a number that falls back further is a new process. */
export const FAR_BACK = 1024;

/** So many messages in a row that seem to be of an older process are this one's, on a machine whose clock was set back. */
const MOST_FOREIGN = 64;

/** Numbers and time stamps heard of one process. */
export class StreamEpoch {
  /** Highest sequence number heard; -1 = none. */
  highest = -1;
  #newest = Number.NEGATIVE_INFINITY;
  /** The highest batch heard has a time stamp, so that `newest` says what may not be passed by those before it. */
  #isTimed = false;
  /** Time stamp of batch 0; NaN = not heard. */
  #zero = Number.NaN;
  /** Newest time stamp of the process before. */
  #fence = Number.NEGATIVE_INFINITY;
  /** Number and time stamp of the message that this process was first known by; NaN = not heard. */
  #first = -1;
  #since = Number.NaN;
  #foreign = 0;

  /**
   * Judges a live message.
   * @param timestamp seconds by the engine's clock; null = it has none that can be used.
   */
  judge(sequence: number, timestamp: number | null): EpochVerdict {
    if (timestamp !== null && this.#isForeign(sequence, timestamp)) {
      this.#foreign += 1;
      if (this.#foreign <= MOST_FOREIGN) return 'foreign';
      this.#fence = Number.NEGATIVE_INFINITY;
    }
    this.#foreign = 0;
    if (sequence > this.highest) return 'forward';
    if (this.highest - sequence > FAR_BACK || this.contradicts(sequence, timestamp)) return 'restart';
    if (sequence > 0) return 'repeated';
    const isSameZero = Number.isNaN(this.#zero) ? timestamp !== null : timestamp === this.#zero;
    return isSameZero ? 'repeated' : 'restart';
  }

  /** Whether a message is of another process than those heard: one that is not later than they has a newer time stamp. */
  contradicts(sequence: number, timestamp: number | null): boolean {
    return timestamp !== null && this.#isTimed && sequence <= this.highest && timestamp > this.#newest;
  }

  /** Where there was a process before: older than its end, or later by its number and earlier by its time than the first of this one. */
  #isForeign(sequence: number, timestamp: number): boolean {
    if (this.#fence === Number.NEGATIVE_INFINITY) return false;
    return timestamp < this.#fence || (sequence > this.#first && timestamp < this.#since);
  }

  /** Notes a message of this process. */
  note(sequence: number, timestamp: number | null): void {
    if (this.highest < 0 && timestamp !== null) {
      this.#first = sequence;
      this.#since = timestamp;
    }
    if (sequence >= this.highest) {
      this.highest = sequence;
      this.#isTimed = timestamp !== null;
    }
    if (timestamp === null) return;
    if (timestamp > this.#newest) this.#newest = timestamp;
    if (sequence === 0) this.#zero = timestamp;
  }

  /** Batches of this process up to one are known from elsewhere, which tells when that one was published or not. */
  resumed({ sequence, time }: StreamPosition): void {
    this.highest = sequence;
    this.#isTimed = time !== null;
    if (time !== null) this.#newest = time;
    // Whoever publishes batch 0 now has begun since.
    if (sequence >= 0) this.#zero = Number.NEGATIVE_INFINITY;
  }

  /** Another process speaks from now on: beginning with a message of this time stamp, or not heard yet (absent). */
  startAnew(timestamp?: number | null): void {
    // A process that seems to be older than the one before it has another clock.
    const hasClock = timestamp === undefined || (timestamp !== null && timestamp > this.#newest);
    this.#fence = hasClock ? Math.max(this.#fence, this.#newest) : Number.NEGATIVE_INFINITY;
    this.#newest = Number.NEGATIVE_INFINITY;
    this.#isTimed = false;
    this.#zero = Number.NaN;
    this.#first = -1;
    this.#since = Number.NaN;
    this.highest = -1;
    this.#foreign = 0;
  }
}

// The generations of a reloadable host: one serves, at most one more is alive, either as the one to go back to while the serving one is
// on probation, or draining. Whatever serves is replaced in one synchronous assignment; disposal comes in a later turn, so that a
// decision under way ends with the generation it began with.
import type { Clock } from '../plugin/index.ts';
import type { BookingHold } from './booking-hold.ts';

/** A generation that was replaced is disposed after this time at the latest, bookings or not; ms. */
export const DRAIN_LIMIT_MS = 60_000;

/** A generation, as far as its life is concerned. */
export interface Lived {
  readonly hold: BookingHold;
  dispose(): Promise<void>;
}

/** What the other live generation is for. */
export type OtherState = 'standby' | 'draining';

interface Other<T> {
  readonly value: T;
  readonly number: number;
  state: OtherState;
  readonly cancel: () => void;
}

/** The generations. Disposal must not reject. */
export class Generations<T extends Lived> {
  readonly #clock: Clock;
  readonly #disposing = new Set<Promise<void>>();
  #serving: T;
  #number = 1;
  /** The highest number in use so far. */
  #latest = 1;
  #other: Other<T> | null = null;
  #waiting: (() => void)[] = [];

  constructor(first: T, clock: Clock) {
    this.#serving = first;
    this.#clock = clock;
  }

  get serving(): T {
    return this.#serving;
  }

  /** Number of the serving generation, counted from 1. */
  get number(): number {
    return this.#number;
  }

  /** The other one that is alive, and what for; null = there is none. */
  get other(): { readonly value: T; readonly number: number; readonly state: OtherState } | null {
    return this.#other;
  }

  /** Whether the serving generation can still be taken back. */
  get onProbation(): boolean {
    return this.#other?.state === 'standby';
  }

  /**
   * Resolves when another generation may be made: at once while one is alive. Else the probation ends here, and the wait is for the
   * last booking of the older generation, or its time.
   */
  async room(): Promise<void> {
    while (this.#other !== null) {
      this.endProbation();
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** A new generation serves from now on; the old one stands by for {@link rollBack}. There must be {@link room}. */
  replace(next: T): void {
    if (this.#other !== null) throw new Error('two generations are alive already');
    const old = this.#serving;
    const oldNumber = this.#number;
    this.#serving = next;
    this.#latest += 1;
    this.#number = this.#latest;
    this.#leave(old, oldNumber, 'standby');
  }

  /** The old generation serves again, the newer one drains. False when there is none to go back to. */
  rollBack(): boolean {
    const other = this.#other;
    if (other?.state !== 'standby') return false;
    other.cancel();
    other.value.hold.onEmpty = null;
    const failed = this.#serving;
    const failedNumber = this.#number;
    this.#serving = other.value;
    this.#number = other.number;
    this.#leave(failed, failedNumber, 'draining');
    return true;
  }

  /** The serving generation has proved itself: the old one goes as soon as its bookings are gone. */
  endProbation(): void {
    const other = this.#other;
    if (other?.state !== 'standby') return;
    other.state = 'draining';
    this.#disposeSoon(other);
  }

  /** Disposes all of them, and waits for disposals under way. */
  async close(): Promise<void> {
    const other = this.#other;
    if (other !== null) this.#dispose(other);
    await Promise.all([this.#serving.dispose(), ...this.#disposing]);
  }

  #leave(value: T, number: number, state: OtherState): void {
    const other: Other<T> = {
      value,
      number,
      state,
      cancel: this.#clock.schedule(DRAIN_LIMIT_MS, () => this.#dispose(other)),
    };
    this.#other = other;
    value.hold.onEmpty = () => {
      if (other.state === 'draining') this.#disposeSoon(other);
    };
    if (state === 'draining') this.#disposeSoon(other);
  }

  /** In a turn of its own, in which nothing can be in the middle of using it. */
  #disposeSoon(other: Other<T>): void {
    queueMicrotask(() => {
      if (other.value.hold.count === 0 && other.state === 'draining') this.#dispose(other);
    });
  }

  #dispose(other: Other<T>): void {
    if (this.#other !== other) return;
    this.#other = null;
    other.cancel();
    other.value.hold.onEmpty = null;
    const disposing = other.value.dispose().finally(() => this.#disposing.delete(disposing));
    this.#disposing.add(disposing);
    for (const tell of this.#waiting.splice(0)) tell();
  }
}

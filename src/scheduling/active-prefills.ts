// How much of the booked prefill is still to be done, per slot, where the time that each takes is foreseen. A slot's prefills
// form a queue; what has passed since the first came to its front is taken as work done on it, and then on those behind it.
import type { OwnerSlot } from '../kv/index.ts';
import type { Clock } from '../plugin/index.ts';

/** A prefill under way. Opaque to callers. */
export interface ActivePrefill {
  /** Prompt tokens to compute, ≥ 1. */
  readonly tokens: number;
  /** Foreseen time, ≥ 0; null = not foreseen. */
  readonly durationMs: number | null;
  previous: ActivePrefill | null;
  next: ActivePrefill | null;
}

/** The prefills of one slot, the oldest in front. */
interface PrefillQueue {
  front: ActivePrefill | null;
  back: ActivePrefill | null;
  /** Tokens of all. */
  tokens: number;
  /** How many have no foreseen time. */
  unforeseen: number;
  /** When the front got there. */
  since: number;
  /** Of the tokens done by now, those that count for no prefill that is still here. */
  forgone: number;
}

/** The active prefills of all slots. */
export class ActivePrefills {
  readonly #clock: Clock;
  readonly #queues: (PrefillQueue | undefined)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Time to hand to `tokensAt`, in ms. */
  now(): number {
    return this.#clock.now();
  }

  /** Adds a prefill at the back: the slot has `tokens` more to do, whatever is overdue there. */
  begin(slot: OwnerSlot, tokens: number, durationMs: number | null): ActivePrefill {
    const now = this.#clock.now();
    const queue = this.#queues[slot] ?? emptyQueue();
    this.#queues[slot] = queue;
    const prefill: ActivePrefill = { tokens, durationMs, previous: queue.back, next: null };
    if (queue.back === null) anchor(queue, prefill, now);
    else {
      queue.forgone += Math.max(0, doneAt(queue, now) - queue.tokens);
      queue.back.next = prefill;
    }
    queue.back = prefill;
    queue.tokens += tokens;
    if (durationMs === null) queue.unforeseen += 1;
    return prefill;
  }

  /** Takes a prefill away, done or not; call once. What the others of the slot have left does not change by it. */
  end(slot: OwnerSlot, prefill: ActivePrefill): void {
    const queue = this.#queues[slot];
    if (queue === undefined) return;
    const now = this.#clock.now();
    const { previous, next, tokens } = prefill;
    if (previous !== null) this.#keepProgress(queue, prefill, now);
    if (next === null) queue.back = previous;
    else next.previous = previous;
    queue.tokens -= tokens;
    if (prefill.durationMs === null) queue.unforeseen -= 1;
    if (previous === null) anchor(queue, next, now);
    else previous.next = next;
  }

  /** Prompt tokens that a slot has still to compute at a time of the clock; whole, from 0 to the sum of its prefills. */
  tokensAt(slot: OwnerSlot, now: number): number {
    const queue = this.#queues[slot];
    if (queue === undefined || queue.front === null) return 0;
    return Math.max(0, queue.tokens - doneAt(queue, now));
  }

  /** Before a prefill behind the front leaves: what was done of it leaves with it. */
  #keepProgress(queue: PrefillQueue, prefill: ActivePrefill, now: number): void {
    if (queue.unforeseen === 0) {
      let ahead = 0;
      for (let other = prefill.previous; other !== null; other = other.previous) ahead += other.tokens;
      queue.forgone += Math.min(Math.max(0, doneAt(queue, now) - ahead), prefill.tokens);
    } else if (queue.unforeseen === 1 && prefill.durationMs === null) {
      // From here on work counts beyond the front, but none has been done there yet.
      queue.forgone = Math.max(0, elapsedWork(queue, now) - (queue.front?.tokens ?? 0));
    }
  }
}

function emptyQueue(): PrefillQueue {
  return { front: null, back: null, tokens: 0, unforeseen: 0, since: 0, forgone: 0 };
}

/** Puts a prefill at the front, where its time begins; null = none is left. */
function anchor(queue: PrefillQueue, front: ActivePrefill | null, now: number): void {
  if (front !== null) front.previous = null;
  queue.front = front;
  queue.since = now;
  queue.forgone = 0;
}

/** Tokens done of the queue's prefills; may be more than they have. While one has no foreseen time, only the front's count. */
function doneAt(queue: PrefillQueue, now: number): number {
  const work = elapsedWork(queue, now);
  if (queue.unforeseen > 0) return Math.min(work, queue.front?.tokens ?? 0);
  return Math.max(0, work - queue.forgone);
}

/** Tokens done since the front got there, at the pace of the front. */
function elapsedWork({ front, since }: PrefillQueue, now: number): number {
  if (front === null || front.durationMs === null) return 0;
  if (front.durationMs === 0) return front.tokens;
  return Math.floor((front.tokens * Math.max(0, now - since)) / front.durationMs);
}

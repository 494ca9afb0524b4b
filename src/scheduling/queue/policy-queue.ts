// Whose turn it is across classes: deficit round robin by tokens. Each class that waits and can go gets its quantum per round; a class
// that can go pays the cost of its head from what it was granted. Blocked classes get nothing meanwhile and keep what they have.
import { ClassQueue, type IsDispatchable, type QueueEntry } from './class-queue.ts';
import { policyScore } from './order.ts';
import { forecastTurns, type TurnForecast } from './turn-forecast.ts';
import type { PinnedLane, QueueClass, QueueRequest, QueueSnapshot } from './types.ts';

/** All classes of one queue, in the order of the ring. */
export class PolicyQueue<T> {
  readonly #classes: readonly ClassQueue<T>[];
  /** Arrivals under fcfs are counted from here, ms of the clock. */
  readonly #startMs: number;
  #cursor = 0;
  /** Class that has dispatched last and has something left of its grant; null = none. */
  #carry: ClassQueue<T> | null = null;
  #sequence = 0;

  /** @param classes at least one; their order is that of the ring. */
  constructor(classes: readonly QueueClass[], startMs: number) {
    this.#classes = classes.map((one) => new ClassQueue<T>(one));
    this.#startMs = startMs;
  }

  /** The classes, in order. */
  get classes(): readonly Pick<
    ClassQueue<T>,
    'queueClass' | 'stats' | 'deficit' | 'entries' | 'laneCount'
  >[] {
    return this.#classes;
  }

  /** Requests that wait. */
  get size(): number {
    let size = 0;
    for (const one of this.#classes) size += one.stats.requests;
    return size;
  }

  /** Queues a request in the class of this number. */
  push(classIndex: number, request: QueueRequest<T>): QueueEntry<T> {
    return this.#add(this.#classAt(classIndex), request, this.#sequence++);
  }

  /** It waits no longer; false when it did not. */
  remove(entry: QueueEntry<T>): boolean {
    return entry.of.remove(entry);
  }

  /** It may go elsewhere than when it came; its turn is the same. Returns what waits in its place. */
  repin(entry: QueueEntry<T>, pinned: PinnedLane | null): QueueEntry<T> {
    const { of } = entry;
    const { deficit } = of;
    of.remove(entry);
    of.deficit = deficit;
    return of.add({ ...entry, pinned }, entry);
  }

  /** Something changed at a worker: requests that are pinned to it are looked at again. */
  unpark(workerId: bigint): void {
    for (const one of this.#classes) one.unpark(workerId);
  }

  /** Anything may have changed. */
  unparkAll(): void {
    for (const one of this.#classes) one.unparkAll();
  }

  /**
   * Takes out whose turn it is; null = nobody can go, and then no class is granted anything.
   * @param isDispatchable asked about the heads alone; nothing behind a head is looked at.
   */
  popNext(isDispatchable: IsDispatchable<T>): QueueEntry<T> | null {
    const classes = this.#classes;
    const candidates = classes.map((one) => one.candidate(isDispatchable));
    const carried = this.#carry;
    if (carried !== null) {
      const head = candidates[classes.indexOf(carried)] ?? null;
      if (head !== null && head.snapshot.cost <= carried.deficit) return this.#pop(head);
    }
    const inRing = Array.from(
      { length: classes.length },
      (_, step) => (this.#cursor + step) % classes.length,
    );
    return this.#popInRound(candidates, inRing) ?? this.#popInBulk(candidates, inRing);
  }

  /**
   * Whose turns come before `amount` of a class has left, as things stand: nobody else comes, and nobody is blocked.
   * @param sizeOf what a request of the class counts for.
   */
  forecast(classIndex: number, amount: number, sizeOf: (snapshot: QueueSnapshot) => number): TurnForecast {
    return forecastTurns(
      this.#classes,
      { cursor: this.#cursor, carry: this.#carry === null ? -1 : this.#classes.indexOf(this.#carry) },
      { classIndex, amount, sizeOf },
    );
  }

  /**
   * Moves everything that waits to other classes, in the order in which it came: nothing is lost, and no limit is asked.
   * @param classOf number of the class in `to`.
   */
  moveTo(
    to: PolicyQueue<T>,
    classOf: (entry: QueueEntry<T>) => number,
    moved: (before: QueueEntry<T>, after: QueueEntry<T>) => void,
  ): void {
    const waiting = this.#classes.flatMap((one) => one.entries()).sort((a, b) => a.sequence - b.sequence);
    const deficits = new Map(this.#classes.map(({ queueClass, deficit }) => [queueClass.name, deficit]));
    to.#sequence = this.#sequence;
    for (const entry of waiting) {
      this.remove(entry);
      moved(entry, to.#add(to.#classAt(classOf(entry)), entry, entry.sequence));
    }
    for (const one of to.#classes) {
      if (one.stats.requests > 0) one.deficit = deficits.get(one.queueClass.name) ?? 0;
    }
  }

  /** One round: each class in turn is granted its quantum, unless it can pay without, until one can pay. */
  #popInRound(
    candidates: readonly (QueueEntry<T> | null)[],
    inRing: readonly number[],
  ): QueueEntry<T> | null {
    for (const at of inRing) {
      const head = candidates[at] ?? null;
      if (head === null) continue;
      const { of, snapshot } = head;
      if (snapshot.cost > of.deficit) of.deficit += of.queueClass.quantum;
      if (snapshot.cost <= of.deficit) return this.#pop(head);
    }
    return null;
  }

  /**
   * Nobody can pay after one round: as many more as the first of them needs. All but the last in one step; in the last one the ring is
   * gone round, as classes behind the one that can pay are not granted it: they would get a quantum too much with every such turn.
   */
  #popInBulk(candidates: readonly (QueueEntry<T> | null)[], inRing: readonly number[]): QueueEntry<T> | null {
    let rounds = Number.POSITIVE_INFINITY;
    for (const head of candidates) {
      if (head === null) continue;
      const { of, snapshot } = head;
      rounds = Math.min(rounds, Math.ceil((snapshot.cost - of.deficit) / of.queueClass.quantum));
    }
    if (rounds === Number.POSITIVE_INFINITY) return null;
    for (const head of candidates) {
      if (head !== null) head.of.deficit += head.of.queueClass.quantum * (rounds - 1);
    }
    return this.#popInRound(candidates, inRing);
  }

  #pop(entry: QueueEntry<T>): QueueEntry<T> {
    const { of, snapshot } = entry;
    of.deficit -= snapshot.cost;
    of.remove(entry);
    this.#cursor = (this.#classes.indexOf(of) + 1) % this.#classes.length;
    this.#carry = of.deficit > 0 ? of : null;
    return entry;
  }

  #add(into: ClassQueue<T>, request: QueueRequest<T>, sequence: number): QueueEntry<T> {
    const { strictPriority, dueAt, priorityJump, arrivedAt, snapshot } = request;
    const seconds = (arrivedAt - this.#startMs) / 1000;
    const score = policyScore(into.queueClass.policy, priorityJump, seconds, snapshot.cost);
    return into.add(request, { strictPriority, dueAt, score, sequence });
  }

  #classAt(index: number): ClassQueue<T> {
    const found = this.#classes[index];
    if (found === undefined) throw new RangeError(`the queue has no class ${index}`);
    return found;
  }
}

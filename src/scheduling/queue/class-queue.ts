// What waits in one class: a heap of requests that may go anywhere, and a lane per worker (or rank) that requests are pinned to. A lane
// whose worker cannot take its head is parked until something changes there, and hides no other lane.
import { type HeapItem, IndexedHeap } from './indexed-heap.ts';
import { compareKeys } from './order.ts';
import type { OrderKey, PinnedLane, QueueClass, QueueRequest, QueueSnapshot, QueueStats } from './types.ts';

/** A request that waits. */
export interface QueueEntry<T> extends HeapItem, OrderKey {
  readonly payload: T;
  readonly snapshot: QueueSnapshot;
  readonly priorityJump: number;
  readonly arrivedAt: number;
  readonly pinned: PinnedLane | null;
  /** Class it waits in. */
  readonly of: ClassQueue<T>;
  /** Its lane; null = it may go anywhere. */
  readonly lane: Lane<T> | null;
}

/** Whether a request could be placed now. */
export type IsDispatchable<T> = (entry: QueueEntry<T>, queueClass: QueueClass) => boolean;

interface Lane<T> extends HeapItem {
  readonly pinned: PinnedLane;
  readonly heap: IndexedHeap<QueueEntry<T>>;
}

/** Lanes of one worker by rank; −1 = any rank. */
type WorkerLanes<T> = Map<number, Lane<T>>;

/** The queue of one class. */
export class ClassQueue<T> {
  readonly queueClass: QueueClass;
  /** Tokens it may still dispatch, ≥ 0; 0 while nothing waits. */
  deficit = 0;
  readonly stats: QueueStats = { requests: 0, rawIslTokens: 0, cachedTokens: 0 };
  readonly #shared = new IndexedHeap<QueueEntry<T>>(compareKeys);
  readonly #lanes = new Map<bigint, WorkerLanes<T>>();
  /** Lanes that are not parked, by their heads. */
  readonly #ready = new IndexedHeap<Lane<T>>((a, b) => {
    return a.heap.head === null || b.heap.head === null ? 0 : compareKeys(a.heap.head, b.heap.head);
  });

  constructor(queueClass: QueueClass) {
    this.queueClass = queueClass;
  }

  /** Lanes that exist now. */
  get laneCount(): number {
    let count = 0;
    for (const lanes of this.#lanes.values()) count += lanes.size;
    return count;
  }

  add(request: QueueRequest<T>, key: OrderKey): QueueEntry<T> {
    const { payload, snapshot, priorityJump, arrivedAt, pinned } = request;
    const { strictPriority, dueAt, score, sequence } = key;
    const lane = pinned === null ? null : this.#laneOf(pinned);
    const entry: QueueEntry<T> = {
      payload,
      snapshot,
      priorityJump,
      arrivedAt,
      pinned,
      strictPriority,
      dueAt,
      score,
      sequence,
      of: this,
      lane,
      place: -1,
    };
    if (lane === null) this.#shared.push(entry);
    else {
      lane.heap.push(entry);
      this.#headChanged(lane, entry);
    }
    this.stats.requests += 1;
    this.stats.rawIslTokens += snapshot.rawIsl;
    this.stats.cachedTokens += snapshot.cached;
    return entry;
  }

  /** Takes an entry of this class out; false when it waits no longer. */
  remove(entry: QueueEntry<T>): boolean {
    if (entry.place < 0) return false;
    const { lane } = entry;
    if (lane === null) this.#shared.remove(entry);
    else this.#removeFromLane(lane, entry);
    this.stats.requests -= 1;
    this.stats.rawIslTokens -= entry.snapshot.rawIsl;
    this.stats.cachedTokens -= entry.snapshot.cached;
    if (this.stats.requests === 0) this.deficit = 0;
    return true;
  }

  /** The first in order among the heads that can go now; null = none can. Lanes whose head cannot are parked. */
  candidate(isDispatchable: IsDispatchable<T>): QueueEntry<T> | null {
    let pinned: QueueEntry<T> | null = null;
    for (let lane = this.#ready.head; lane !== null; lane = this.#ready.head) {
      const { head } = lane.heap;
      if (head !== null && isDispatchable(head, this.queueClass)) {
        pinned = head;
        break;
      }
      this.#ready.remove(lane);
    }
    const shared = this.#shared.head;
    if (shared === null || (pinned !== null && compareKeys(pinned, shared) < 0)) return pinned;
    return isDispatchable(shared, this.queueClass) ? shared : pinned;
  }

  /** Something changed at a worker: its lanes are looked at again. */
  unpark(workerId: bigint): void {
    for (const lane of this.#lanes.get(workerId)?.values() ?? []) if (lane.place < 0) this.#ready.push(lane);
  }

  unparkAll(): void {
    for (const workerId of this.#lanes.keys()) this.unpark(workerId);
  }

  /** Everything that waits, in no particular order. */
  entries(): readonly QueueEntry<T>[] {
    const lanes = [...this.#lanes.values()].flatMap((ofWorker) => [...ofWorker.values()]);
    return [...this.#shared.items(), ...lanes.flatMap(({ heap }) => heap.items())];
  }

  #laneOf(pinned: PinnedLane): Lane<T> {
    let ofWorker = this.#lanes.get(pinned.workerId);
    if (ofWorker === undefined) {
      ofWorker = new Map();
      this.#lanes.set(pinned.workerId, ofWorker);
    }
    const rank = pinned.rank ?? -1;
    const known = ofWorker.get(rank);
    if (known !== undefined) return known;
    const lane: Lane<T> = { pinned, heap: new IndexedHeap<QueueEntry<T>>(compareKeys), place: -1 };
    ofWorker.set(rank, lane);
    return lane;
  }

  /** A lane that is parked for its head is looked at again where it has another one. */
  #headChanged(lane: Lane<T>, entry: QueueEntry<T>): void {
    if (lane.heap.head !== entry) return;
    if (lane.place < 0) this.#ready.push(lane);
    else this.#ready.moved(lane);
  }

  #removeFromLane(lane: Lane<T>, entry: QueueEntry<T>): void {
    const wasHead = lane.heap.head === entry;
    lane.heap.remove(entry);
    const { head } = lane.heap;
    if (head !== null) {
      if (wasHead) this.#headChanged(lane, head);
      return;
    }
    if (lane.place >= 0) this.#ready.remove(lane);
    const { workerId, rank } = lane.pinned;
    const ofWorker = this.#lanes.get(workerId);
    ofWorker?.delete(rank ?? -1);
    if (ofWorker?.size === 0) this.#lanes.delete(workerId);
  }
}

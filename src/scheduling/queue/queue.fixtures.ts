// Classes and requests of queue tests, and a queue as naive as can be: lists, sorted anew for every question.
import type { QueueClass, QueueRequest, QueueStats } from './types.ts';

/** A class with a threshold and no limits. */
export function queueClass(name: string, changes: Partial<QueueClass> = {}): QueueClass {
  return {
    name,
    family: null,
    bucket: null,
    policy: 'fcfs',
    quantum: 10,
    prefillBusyThreshold: 0,
    prefillBusyThresholdFrac: null,
    busyWorkerRatio: null,
    requestLimit: null,
    rawIslLimit: null,
    cachedLimit: null,
    ...changes,
  };
}

/** A request that costs so much. */
export function queued<T>(payload: T, cost: number, changes: Partial<QueueRequest<T>> = {}): QueueRequest<T> {
  return {
    payload,
    snapshot: { rawIsl: cost, cached: 0, cost },
    strictPriority: 0,
    priorityJump: 0,
    dueAt: null,
    arrivedAt: 0,
    pinned: null,
    ...changes,
  };
}

interface NaiveEntry<T> {
  readonly request: QueueRequest<T>;
  readonly sequence: number;
  readonly at: number;
}

/** Deficit round robin, one round after the other, over plain lists. */
export class NaiveQueue<T> {
  readonly deficits: number[];
  readonly #classes: readonly QueueClass[];
  #entries: NaiveEntry<T>[] = [];
  #cursor = 0;
  #carry = -1;
  #sequence = 0;

  constructor(classes: readonly QueueClass[]) {
    this.#classes = classes;
    this.deficits = classes.map(() => 0);
  }

  get size(): number {
    return this.#entries.length;
  }

  push(at: number, request: QueueRequest<T>): void {
    this.#entries.push({ request, sequence: this.#sequence++, at });
  }

  remove(payload: T): boolean {
    const found = this.#entries.find(({ request }) => request.payload === payload);
    if (found === undefined) return false;
    this.#drop(found);
    return true;
  }

  statsOf(at: number): QueueStats {
    const mine = this.#entries.filter((entry) => entry.at === at).map(({ request }) => request.snapshot);
    return {
      requests: mine.length,
      rawIslTokens: mine.reduce((sum, { rawIsl }) => sum + rawIsl, 0),
      cachedTokens: mine.reduce((sum, { cached }) => sum + cached, 0),
    };
  }

  popNext(isDispatchable: (request: QueueRequest<T>) => boolean): T | null {
    const heads = this.#classes.map((_, at) => this.#candidate(at, isDispatchable));
    const carried = heads[this.#carry];
    if (carried && this.#affords(carried)) return this.#pop(carried);
    if (heads.every((head) => head === null)) return null;
    const ring = heads.map((_, step) => (this.#cursor + step) % heads.length);
    for (;;) {
      for (const at of ring) {
        const head = heads[at];
        if (!head) continue;
        if (!this.#affords(head)) this.deficits[at]! += this.#classes[at]!.quantum;
        if (this.#affords(head)) return this.#pop(head);
      }
    }
  }

  #affords({ at, request }: NaiveEntry<T>): boolean {
    return request.snapshot.cost <= this.deficits[at]!;
  }

  #pop(entry: NaiveEntry<T>): T {
    this.deficits[entry.at]! -= entry.request.snapshot.cost;
    this.#drop(entry);
    this.#cursor = (entry.at + 1) % this.#classes.length;
    this.#carry = this.deficits[entry.at]! > 0 ? entry.at : -1;
    return entry.request.payload;
  }

  #drop(entry: NaiveEntry<T>): void {
    this.#entries = this.#entries.filter((other) => other !== entry);
    if (this.statsOf(entry.at).requests === 0) this.deficits[entry.at] = 0;
  }

  /** The first of the dispatchable heads: one of all that may go anywhere, and one per place that requests are pinned to. */
  #candidate(at: number, isDispatchable: (request: QueueRequest<T>) => boolean): NaiveEntry<T> | null {
    const mine = this.#entries.filter((entry) => entry.at === at).sort((a, b) => this.#order(a, b));
    const seen = new Set<string>();
    for (const entry of mine) {
      const { pinned } = entry.request;
      const lane = pinned === null ? '' : `${pinned.workerId}/${pinned.rank}`;
      if (!seen.has(lane) && isDispatchable(entry.request)) return entry;
      seen.add(lane);
    }
    return null;
  }

  #order(a: NaiveEntry<T>, b: NaiveEntry<T>): number {
    const { policy } = this.#classes[a.at]!;
    const score = ({ request }: NaiveEntry<T>): number =>
      policy === 'fcfs'
        ? Math.max(request.priorityJump, 0) - request.arrivedAt / 1000
        : (1 + Math.max(request.priorityJump, 0)) / request.snapshot.cost;
    const due = ({ request }: NaiveEntry<T>): number => request.dueAt ?? Number.MAX_VALUE;
    return (
      b.request.strictPriority - a.request.strictPriority ||
      due(a) - due(b) ||
      score(b) - score(a) ||
      a.sequence - b.sequence
    );
  }
}

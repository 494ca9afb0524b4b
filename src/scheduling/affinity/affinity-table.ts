// Which session is bound to which worker. The first request of a session makes its binding and the others wait until it is made; from then
// on each holds a lease while it runs, and no binding expires under a lease. Nobody that waits is called inside of another's call.
import type { Clock } from '../../plugin/index.ts';
import { tableFull, targetConflict, tooManyWait } from './affinity-errors.ts';
import type { AffinityKey, AffinityLimits, AffinityMode, AffinityTarget, CommitOutcome } from './types.ts';

/** Most that wait at once; each is a request under way. */
const MOST_WAITING = 16_384;
/** Least time between two looks for what has expired, where bindings last longer. */
const REAPER_MS = 30_000;
/** Timers of a machine go no further. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What the table works with. */
export interface AffinityTablePorts {
  readonly clock: Clock;
  readonly limits: () => AffinityLimits;
  /** So many bindings expired. */
  readonly expired: (count: number) => void;
}

/** What a request gets for its session. */
export type Acquired =
  | { readonly kind: 'held'; readonly hold: AffinityHold }
  /** Another one makes the binding. `cancel` ends the wait; idempotent. */
  | { readonly kind: 'waits'; readonly cancel: () => void };

/** A request's part in a binding. Ends once: later calls do nothing. */
export interface AffinityHold {
  /** Where its session was bound when it came; null = it makes the binding. */
  readonly target: AffinityTarget | null;
  /**
   * It goes to a worker next. Makes or changes the binding; `conflict` ends the hold.
   * @returns null when the hold has ended before.
   */
  commit(dispatched: AffinityTarget, mode: AffinityMode): CommitOutcome | null;
  /** The request ended: its lease is dropped, and the time to live begins. A binding that was not made goes. */
  release(): void;
  /** The worker failed it: the binding goes, unless another request has changed it since. False when it stays. */
  invalidate(): boolean;
}

interface Waiter {
  readonly ready: () => void;
  waits: boolean;
}

interface Initializing {
  readonly kind: 'initializing';
  readonly waiters: Set<Waiter>;
}

interface Bound {
  readonly kind: 'bound';
  target: AffinityTarget;
  /** Changes with the target. */
  version: number;
  /** Requests that run under it. */
  leases: number;
  /** When the last of them ended; it counts while there is none. */
  idleSince: number;
}

/** One binding; the object is its identity. */
type Entry = Initializing | Bound;

/** The bindings of one router. */
export class AffinityTable {
  readonly #ports: AffinityTablePorts;
  readonly #entries = new Map<AffinityKey, Entry>();
  /** Those without a lease, idle for longest first. */
  readonly #idle = new Map<AffinityKey, Bound>();
  /** Those that were woken and have not been called yet. */
  #woken: Waiter[] = [];
  #waiting = 0;
  #version = 0;
  #cancelReaper: (() => void) | null = null;

  constructor(ports: AffinityTablePorts) {
    this.#ports = ports;
  }

  /** Bindings, those included that are being made. */
  get size(): number {
    return this.#entries.size;
  }

  /** Requests that wait for a binding. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Takes part in a session's binding. O(1).
   * @param asked where the request must go; null = anywhere. It must agree with the binding.
   * @param ready called once, later, when the binding was made or given up: the request asks again then.
   * @throws PM_AFFINITY_CONFLICT, PM_AFFINITY_FULL; then nothing is held.
   */
  acquire(key: AffinityKey, asked: AffinityTarget | null, ready: () => void): Acquired {
    const found = this.#live(key);
    if (found === undefined) return { kind: 'held', hold: this.#initialize(key) };
    if (found.kind === 'initializing') return { kind: 'waits', cancel: this.#wait(found, ready) };
    if (asked !== null && !agrees(found.target, asked)) throw targetConflict(found.target, asked);
    found.leases += 1;
    this.#idle.delete(key);
    return { kind: 'held', hold: new Hold(this.#parts, key, found) };
  }

  /** Where a session is bound; changes nothing. Null = nowhere, or not yet. */
  query(key: AffinityKey): AffinityTarget | null {
    const found = this.#live(key);
    return found?.kind === 'bound' ? found.target : null;
  }

  /** Forgets a binding that names this very target: its worker is not there. */
  forget(key: AffinityKey, target: AffinityTarget): boolean {
    const found = this.#entries.get(key);
    if (found?.kind !== 'bound' || found.target !== target) return false;
    this.#remove(key, found);
    return true;
  }

  /** Ends the reaper; expired bindings count as none without it. */
  close(): void {
    this.#cancelReaper?.();
    this.#cancelReaper = null;
  }

  /** An entry that has not expired. */
  #live(key: AffinityKey): Entry | undefined {
    const found = this.#entries.get(key);
    if (found?.kind === 'bound' && this.#isExpired(found)) {
      this.#remove(key, found);
      this.#ports.expired(1);
      return undefined;
    }
    return found;
  }

  #isExpired({ idleSince, leases }: Bound): boolean {
    const { clock, limits } = this.#ports;
    return leases === 0 && idleSince + limits().ttlMs <= clock.now();
  }

  #initialize(key: AffinityKey): AffinityHold {
    const { maxSessions } = this.#ports.limits();
    if (this.#entries.size >= maxSessions) this.#expire();
    if (this.#entries.size >= maxSessions) throw tableFull(this.#entries.size, maxSessions);
    const entry: Initializing = { kind: 'initializing', waiters: new Set() };
    this.#entries.set(key, entry);
    return new Hold(this.#parts, key, entry);
  }

  #wait(entry: Initializing, ready: () => void): () => void {
    if (this.#waiting >= MOST_WAITING) throw tooManyWait(this.#waiting);
    const waiter: Waiter = { ready, waits: true };
    entry.waiters.add(waiter);
    this.#waiting += 1;
    return () => {
      entry.waiters.delete(waiter);
      this.#stopWaiting(waiter);
    };
  }

  #stopWaiting(waiter: Waiter): void {
    if (!waiter.waits) return;
    waiter.waits = false;
    this.#waiting -= 1;
  }

  /** The binding is made, or given up: whoever waited for it asks again, a moment later. */
  #wake({ waiters }: Initializing): void {
    if (waiters.size === 0) return;
    if (this.#woken.length === 0) this.#ports.clock.schedule(0, () => this.#callWoken());
    for (const waiter of waiters) this.#woken.push(waiter);
    waiters.clear();
  }

  #callWoken(): void {
    const woken = this.#woken;
    this.#woken = [];
    for (const waiter of woken) {
      // What another does on its way may have ended it.
      if (!waiter.waits) continue;
      this.#stopWaiting(waiter);
      waiter.ready();
    }
  }

  #remove(key: AffinityKey, entry: Entry): void {
    this.#entries.delete(key);
    if (entry.kind === 'bound') this.#idle.delete(key);
    else this.#wake(entry);
  }

  // --- what holds do ---

  readonly #parts: HoldParts = {
    isCurrent: (key, entry) => this.#entries.get(key) === entry,
    bind: (key, entry, target) => {
      const bound: Bound = { kind: 'bound', target, version: ++this.#version, leases: 1, idleSince: 0 };
      this.#entries.set(key, bound);
      this.#wake(entry);
      return bound;
    },
    move: (entry, target) => {
      entry.target = target;
      entry.version = ++this.#version;
    },
    drop: (key, entry) => {
      entry.leases -= 1;
      if (entry.leases > 0 || this.#entries.get(key) !== entry) return;
      entry.idleSince = this.#ports.clock.now();
      this.#idle.set(key, entry);
      this.#armReaper();
    },
    remove: (key, entry) => this.#remove(key, entry),
  };

  // --- expiry ---

  #expire(): void {
    const before = this.#entries.size;
    for (const [key, entry] of this.#idle) {
      if (!this.#isExpired(entry)) break;
      this.#remove(key, entry);
    }
    if (this.#entries.size < before) this.#ports.expired(before - this.#entries.size);
  }

  /** Looks when the next one expires, though not more often than every 30 s, or every time to live. */
  #armReaper(): void {
    if (this.#cancelReaper !== null) return;
    const { clock, limits } = this.#ports;
    for (const { idleSince } of this.#idle.values()) {
      const { ttlMs } = limits();
      const least = Math.min(ttlMs, REAPER_MS);
      const delay = Math.min(LONGEST_TIMER_MS, Math.max(least, idleSince + ttlMs - clock.now()));
      this.#cancelReaper = clock.schedule(delay, () => {
        this.#cancelReaper = null;
        this.#expire();
        this.#armReaper();
      });
      return;
    }
  }
}

/** What a hold changes in its table. */
interface HoldParts {
  isCurrent(key: AffinityKey, entry: Entry): boolean;
  bind(key: AffinityKey, entry: Initializing, target: AffinityTarget): Bound;
  move(entry: Bound, target: AffinityTarget): void;
  drop(key: AffinityKey, entry: Bound): void;
  remove(key: AffinityKey, entry: Entry): void;
}

class Hold implements AffinityHold {
  readonly target: AffinityTarget | null;
  readonly #parts: HoldParts;
  readonly #key: AffinityKey;
  /** Null = the hold has ended. */
  #entry: Entry | null;
  /** Of the binding as this request knows it. */
  #version: number;

  constructor(parts: HoldParts, key: AffinityKey, entry: Entry) {
    this.#parts = parts;
    this.#key = key;
    this.#entry = entry;
    this.target = entry.kind === 'bound' ? entry.target : null;
    this.#version = entry.kind === 'bound' ? entry.version : 0;
  }

  commit(dispatched: AffinityTarget, mode: AffinityMode): CommitOutcome | null {
    const entry = this.#entry;
    if (entry === null) return null;
    if (entry.kind === 'initializing') {
      const bound = this.#parts.bind(this.#key, entry, dispatched);
      this.#entry = bound;
      this.#version = bound.version;
      return 'initialised';
    }
    const target = this.target ?? entry.target;
    if (mode === 'hard') {
      if (isWithin(target, dispatched)) return 'kept';
      this.invalidate();
      return 'conflict';
    }
    if (!this.#isUnchanged(entry)) return 'overtaken';
    const next = movedTarget(target, dispatched);
    if (next.workerId === target.workerId && next.rank === target.rank) return 'kept';
    this.#parts.move(entry, next);
    this.#version = entry.version;
    return 'moved';
  }

  release(): void {
    const entry = this.#entry;
    this.#entry = null;
    if (entry === null) return;
    if (entry.kind === 'bound') this.#parts.drop(this.#key, entry);
    else this.#parts.remove(this.#key, entry);
  }

  invalidate(): boolean {
    const entry = this.#entry;
    const goes = entry?.kind === 'bound' && this.#isUnchanged(entry);
    if (goes) this.#parts.remove(this.#key, entry);
    this.release();
    return goes;
  }

  #isUnchanged(entry: Bound): boolean {
    return entry.version === this.#version && this.#parts.isCurrent(this.#key, entry);
  }
}

/** Whether a request ran where its session is bound. */
function isWithin(bound: AffinityTarget, { rank, workerId }: AffinityTarget): boolean {
  return bound.workerId === workerId && (bound.rank === null || bound.rank === rank);
}

/** Whether a request that must go to `asked` keeps to a binding; one of a worker alone does not say that a rank is right. */
export function agrees(bound: AffinityTarget, asked: AffinityTarget): boolean {
  return bound.workerId === asked.workerId && (asked.rank === null || asked.rank === bound.rank);
}

/** A binding after its request ran: one of a worker stays one of a worker, one of a rank follows the rank where the dispatch has one. */
function movedTarget(bound: AffinityTarget, { rank, workerId }: AffinityTarget): AffinityTarget {
  if (bound.rank === null) return { workerId, rank: null };
  return rank === null ? bound : { workerId, rank };
}

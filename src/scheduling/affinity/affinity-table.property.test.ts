// The table against a naive model of its states, under random interleavings on a clock of the test.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ManualClock, PointsmanError } from '../../plugin/index.ts';
import { type Acquired, type AffinityHold, AffinityTable } from './affinity-table.ts';
import type { AffinityKey, AffinityMode, AffinityTarget } from './types.ts';

const MAX_SESSIONS = 3;
const REAPER_MS = 30_000;

type Op =
  | { readonly do: 'acquire'; readonly key: number; readonly asked: AffinityTarget | null }
  | { readonly do: 'commit'; readonly at: number; readonly on: AffinityTarget; readonly mode: AffinityMode }
  | { readonly do: 'release' | 'invalidate' | 'cancel'; readonly at: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'forget'; readonly key: number };

const target = fc.record({
  workerId: fc.bigInt(1n, 3n),
  rank: fc.constantFrom(null, 0, 1),
}) satisfies fc.Arbitrary<AffinityTarget>;
const at = fc.nat(1000);
const key = fc.nat(MAX_SESSIONS);
const op: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('acquire' as const),
      key,
      asked: fc.option(target, { nil: null, freq: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('commit' as const),
      at,
      on: target,
      mode: fc.constantFrom<AffinityMode>('hard', 'soft'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('release' as const, 'invalidate', 'cancel'), at }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      ms: fc.constantFrom(0, 1, 999, 1000, 1001, 45_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), key }) },
);

/** What the model knows of a key. */
type State =
  | { readonly kind: 'initializing' }
  | { kind: 'bound'; target: AffinityTarget; version: number; readonly leases: Set<Held>; idleSince: number };

interface Held {
  readonly key: number;
  readonly hold: AffinityHold;
  /** What it found; the target of a moved binding changes under it. */
  state: State;
  version: number;
  readonly found: AffinityTarget | null;
}

interface Waiting {
  readonly key: number;
  readonly cancel: () => void;
  calls: number;
  cancelled: boolean;
}

class Model {
  readonly clock = new ManualClock(5);
  readonly ttlMs: number;
  readonly table: AffinityTable;
  readonly states = new Map<number, State>();
  readonly held: Held[] = [];
  readonly waiting: Waiting[] = [];
  #versions = 0;

  constructor(ttlMs: number) {
    this.ttlMs = ttlMs;
    this.table = new AffinityTable({
      clock: this.clock,
      limits: () => ({ ttlMs, maxSessions: MAX_SESSIONS }),
      expired: () => undefined,
    });
  }

  isExpired(state: State): boolean {
    return (
      state.kind === 'bound' && state.leases.size === 0 && state.idleSince + this.ttlMs <= this.clock.now()
    );
  }

  live(of: number): State | null {
    const state = this.states.get(of);
    return state === undefined || this.isExpired(state) ? null : state;
  }

  run(next: Op): void {
    switch (next.do) {
      case 'acquire':
        this.acquire(next.key, next.asked);
        break;
      case 'commit':
        this.pick(this.held, next.at, (held) => this.commit(held, next.on, next.mode));
        break;
      case 'release':
        this.pick(this.held, next.at, (held) => this.end(held, () => held.hold.release()));
        break;
      case 'invalidate':
        this.pick(this.held, next.at, (held) => this.invalidate(held));
        break;
      case 'cancel':
        this.pick(this.waiting, next.at, (waiter) => {
          waiter.cancelled = true;
          waiter.cancel();
        });
        break;
      case 'advance':
        this.clock.advanceTo(this.clock.now() + next.ms);
        break;
      case 'forget':
        this.forget(next.key);
        break;
    }
  }

  forget(of: number): void {
    const seen = this.table.query(keyOf(of));
    if (seen === null) return;
    expect(this.live(of)?.kind).toBe('bound');
    expect(this.table.forget(keyOf(of), seen)).toBe(true);
    this.states.delete(of);
  }

  acquire(of: number, asked: AffinityTarget | null): void {
    const state = this.live(of);
    const waiter: Waiting = {
      key: of,
      cancel: () => acquired.kind === 'waits' && acquired.cancel(),
      calls: 0,
      cancelled: false,
    };
    let acquired: Acquired;
    try {
      acquired = this.table.acquire(keyOf(of), asked, () => {
        expect(waiter.cancelled).toBe(false);
        waiter.calls += 1;
      });
    } catch (thrown) {
      const code = thrown instanceof PointsmanError ? thrown.code : thrown;
      if (state === null) {
        expect(code).toBe('PM_AFFINITY_FULL');
        expect([...this.states.keys()].filter((other) => this.live(other) !== null)).toHaveLength(
          MAX_SESSIONS,
        );
      } else {
        expect(code).toBe('PM_AFFINITY_CONFLICT');
        expect(state.kind === 'bound' && asked !== null && !fits(state.target, asked)).toBe(true);
      }
      return;
    }
    if (acquired.kind === 'waits') {
      expect(state?.kind).toBe('initializing');
      this.waiting.push(waiter);
      return;
    }
    const { hold } = acquired;
    if (state === null) {
      // At most one makes the binding: the model knew of none.
      expect(hold.target).toBeNull();
      const held: Held = { key: of, hold, state: { kind: 'initializing' }, version: 0, found: null };
      this.states.set(of, held.state);
      this.held.push(held);
      return;
    }
    if (state.kind !== 'bound') throw new Error('two make one binding');
    expect(hold.target).toEqual(state.target);
    if (asked !== null) expect(fits(state.target, asked)).toBe(true);
    const held: Held = { key: of, hold, state, version: state.version, found: state.target };
    state.leases.add(held);
    this.held.push(held);
  }

  commit(held: Held, on: AffinityTarget, mode: AffinityMode): void {
    const { state } = held;
    const outcome = held.hold.commit(on, mode);
    if (state.kind === 'initializing') {
      expect(outcome).toBe('initialised');
      this.#versions += 1;
      const bound: State = {
        kind: 'bound',
        target: on,
        version: this.#versions,
        leases: new Set([held]),
        idleSince: 0,
      };
      held.state = bound;
      held.version = bound.version;
      this.states.set(held.key, bound);
      return;
    }
    const was = held.found ?? state.target;
    if (mode === 'hard') {
      const stays = was.workerId === on.workerId && (was.rank === null || was.rank === on.rank);
      expect(outcome).toBe(stays ? 'kept' : 'conflict');
      if (!stays) {
        this.dropIfUnchanged(held, state);
        this.drop(held);
      }
      return;
    }
    if (!this.isUnchanged(held, state)) {
      expect(outcome).toBe('overtaken');
      return;
    }
    const next = was.rank === null ? { ...on, rank: null } : on.rank === null ? was : on;
    const moved = next.workerId !== was.workerId || next.rank !== was.rank;
    // A second commit of one request compares with what it found, as the first did.
    expect(outcome).toBe(moved ? 'moved' : 'kept');
    if (!moved) return;
    this.#versions += 1;
    state.target = next;
    state.version = this.#versions;
    held.version = state.version;
  }

  invalidate(held: Held): void {
    const { state } = held;
    const goes = state.kind === 'bound' && this.isUnchanged(held, state);
    expect(held.hold.invalidate()).toBe(goes);
    if (state.kind === 'bound') this.dropIfUnchanged(held, state);
    this.drop(held);
  }

  end(held: Held, how: () => void): void {
    how();
    this.drop(held);
  }

  drop(held: Held): void {
    this.held.splice(this.held.indexOf(held), 1);
    const { state } = held;
    if (state.kind === 'initializing') {
      this.states.delete(held.key);
      return;
    }
    expect(state.leases.delete(held)).toBe(true);
    if (state.leases.size === 0) state.idleSince = this.clock.now();
    // What is over does nothing any more.
    held.hold.release();
    expect(held.hold.invalidate()).toBe(false);
    expect(held.hold.commit({ workerId: 9n, rank: 0 }, 'soft')).toBeNull();
  }

  dropIfUnchanged(held: Held, state: Extract<State, { kind: 'bound' }>): void {
    if (this.isUnchanged(held, state)) this.states.delete(held.key);
  }

  isUnchanged(held: Held, state: Extract<State, { kind: 'bound' }>): boolean {
    return this.states.get(held.key) === state && state.version === held.version;
  }

  pick<T>(from: T[], index: number, then: (item: T) => void): void {
    const item = from[index % Math.max(1, from.length)];
    if (item !== undefined) then(item);
  }

  /** Looks at everything, which makes the table forget what has expired. */
  check(): void {
    // Those that were woken are called at the same moment.
    this.clock.advanceTo(this.clock.now());
    for (const [of, state] of [...this.states]) {
      const seen = this.table.query(keyOf(of));
      if (this.isExpired(state)) {
        expect(seen).toBeNull();
        this.states.delete(of);
      } else expect(seen).toEqual(state.kind === 'bound' ? state.target : null);
    }
    expect(this.table.size).toBe(this.states.size);
    expect(this.table.size).toBeLessThanOrEqual(MAX_SESSIONS);
    this.checkWaiting(true);
  }

  /** Looks on alone: what has expired goes without anybody asking, though not at once. */
  watch(called: boolean): void {
    const now = this.clock.now();
    const states = [...this.states.values()];
    const least = states.filter((state) => !this.isExpired(state)).length;
    const gone = (state: State): boolean =>
      this.isExpired(state) &&
      state.kind === 'bound' &&
      state.idleSince + this.ttlMs + Math.min(this.ttlMs, REAPER_MS) <= now;
    expect(this.table.size).toBeGreaterThanOrEqual(least);
    expect(this.table.size).toBeLessThanOrEqual(states.filter((state) => !gone(state)).length);
    this.checkWaiting(called);
  }

  /** @param called whether those that were woken have been called. */
  checkWaiting(called: boolean): void {
    let waits = 0;
    for (const waiter of [...this.waiting]) {
      if (waiter.cancelled || waiter.calls > 0) {
        expect(waiter.calls).toBeLessThanOrEqual(1);
        this.waiting.splice(this.waiting.indexOf(waiter), 1);
        continue;
      }
      waits += 1;
      // Whoever still waits waits for somebody.
      if (called) expect(this.states.get(waiter.key)?.kind).toBe('initializing');
    }
    expect(this.table.waiting).toBe(waits);
  }

  finish(): void {
    for (const held of [...this.held]) this.end(held, () => held.hold.release());
    this.check();
    expect(this.table.waiting).toBe(0);
    // The reaper needs nobody that asks, and then rests.
    this.clock.advanceTo(this.clock.now() + this.ttlMs + REAPER_MS);
    expect(this.table.size).toBe(0);
    expect(this.clock.nextTimerAt()).toBeNull();
  }
}

function keyOf(of: number): AffinityKey {
  return `key-${of}` as AffinityKey;
}

function fits(bound: AffinityTarget, asked: AffinityTarget): boolean {
  if (bound.workerId !== asked.workerId) return false;
  return asked.rank === null || asked.rank === bound.rank;
}

test('one makes a binding, all others wait and wake, nothing expires under a lease, nothing is left', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(1000, 40_000),
      fc.boolean(),
      fc.array(op, { maxLength: 60, size: 'max' }),
      (ttlMs, looks, ops) => {
        const model = new Model(ttlMs);
        for (const next of ops) {
          model.run(next);
          if (looks) model.check();
          else model.watch(next.do === 'advance');
        }
        model.finish();
      },
    ),
    { numRuns: 1000 },
  );
});

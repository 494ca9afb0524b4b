import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../plugin/index.ts';
import { type AffinityHold, AffinityTable } from './affinity-table.ts';
import type { AffinityKey } from './types.ts';

const A = 'a' as AffinityKey;
const B = 'b' as AffinityKey;
const C = 'c' as AffinityKey;
const ONE = { workerId: 1n, rank: 0 };
const TWO = { workerId: 2n, rank: 0 };
const never = (): void => {
  throw new Error('nobody waits here');
};

function table({ maxSessions = 10, ttlMs = 60_000 } = {}) {
  const clock = new ManualClock(100);
  const limits = { maxSessions, ttlMs };
  const expired: number[] = [];
  const bindings = new AffinityTable({
    clock,
    limits: () => limits,
    expired: (count) => expired.push(count),
  });
  const hold = (key: AffinityKey, asked: typeof ONE | null = null): AffinityHold => {
    const acquired = bindings.acquire(key, asked, never);
    if (acquired.kind === 'waits') throw new Error('it waits');
    return acquired.hold;
  };
  /** Binds a session to a worker and lets it go. */
  const bind = (key: AffinityKey, to = ONE): void => {
    const made = hold(key);
    expect(made.commit(to, 'hard')).toBe('initialised');
    made.release();
  };
  return { bindings, bind, clock, expired, hold, limits };
}

describe('time to live', () => {
  it('ends a binding when nobody has used it for exactly that long', () => {
    const { bindings, bind, clock, expired, hold } = table();
    bind(A);
    clock.advanceTo(60_099);
    const lease = hold(A);
    expect(lease.target).toEqual(ONE);
    lease.release();
    clock.advanceTo(60_099 + 59_999);
    expect(bindings.query(A)).toEqual(ONE);
    clock.advanceTo(60_099 + 60_000);
    expect(bindings.query(A)).toBeNull();
    expect(expired).toEqual([1]);
  });

  it('does not run while a request of the session does, however long that takes', () => {
    const { bindings, bind, clock, hold } = table();
    bind(A);
    const [first, second] = [hold(A), hold(A)];
    clock.advanceTo(1e9);
    first.release();
    clock.advanceTo(2e9);
    expect(bindings.query(A)).toEqual(ONE);
    second.release();
    clock.advanceTo(2e9 + 59_999);
    expect(bindings.query(A)).toEqual(ONE);
    clock.advanceTo(2e9 + 60_000);
    expect(bindings.query(A)).toBeNull();
  });

  it('removes what expired behind a binding that is in use', () => {
    const { bindings, bind, clock, hold } = table();
    bind(A);
    bind(B);
    const lease = hold(A);
    clock.advanceTo(100_000);
    expect(bindings.size).toBe(1);
    lease.release();
    clock.advanceTo(200_000);
    expect(bindings.size).toBe(0);
    expect(clock.nextTimerAt()).toBeNull();
  });

  it('follows a setting that is changed under it', () => {
    const { bindings, bind, clock, limits } = table();
    bind(A);
    limits.ttlMs = 5000;
    clock.advanceTo(5100);
    expect(bindings.query(A)).toBeNull();
    bind(B);
    limits.ttlMs = 31_536_000_000;
    clock.advanceTo(31_536_000_000);
    expect(bindings.query(B)).toEqual(ONE);
  });

  it('looks no more often than every 30 s, and only while there is something to expire', () => {
    const { bind, bindings, clock } = table({ ttlMs: 40_000 });
    bind(A);
    expect(clock.nextTimerAt()).toBe(40_100);
    clock.advanceTo(39_000);
    bind(B);
    clock.advanceTo(40_100);
    expect(bindings.size).toBe(1);
    expect(clock.nextTimerAt()).toBe(79_000);
    bindings.close();
    expect(clock.nextTimerAt()).toBeNull();
  });
});

describe('room', () => {
  it('is for max_sessions bindings, those included that are being made', () => {
    const { bind, clock, hold } = table({ maxSessions: 2 });
    bind(A);
    const making = hold(B);
    expect(() => hold(C)).toThrowError(
      expect.objectContaining({ code: 'PM_AFFINITY_FULL', details: expect.objectContaining({ limit: 2 }) }),
    );
    hold(A).release();
    making.release();
    hold(C).release();
    hold(B).commit(TWO, 'soft');
    expect(() => hold(C)).toThrowError(expect.objectContaining({ code: 'PM_AFFINITY_FULL' }));
    // What has expired makes room at once, before anybody looks for it.
    clock.advanceTo(60_100);
    expect(hold(C).target).toBeNull();
  });

  it('is for 16384 that wait, and one that leaves makes some', () => {
    const { bindings, hold } = table();
    const making = hold(A);
    const waiting = Array.from({ length: 16_384 }, () => bindings.acquire(A, null, never));
    expect(() => bindings.acquire(A, null, never)).toThrowError(
      expect.objectContaining({ code: 'PM_AFFINITY_FULL' }),
    );
    const [first] = waiting;
    if (first?.kind === 'waits') first.cancel();
    expect(bindings.waiting).toBe(16_383);
    const last = bindings.acquire(A, null, never);
    for (const waiter of [...waiting, last]) if (waiter.kind === 'waits') waiter.cancel();
    expect(bindings.waiting).toBe(0);
    making.release();
  });
});

describe('waiting', () => {
  it('ends a moment after the binding is made, in order, for all but those that left', () => {
    const { bindings, clock, hold } = table();
    const making = hold(A);
    const called: number[] = [];
    const waiting = [1, 2, 3].map((name) => bindings.acquire(A, null, () => called.push(name)));
    making.commit(ONE, 'soft');
    expect(called).toEqual([]);
    if (waiting[1]?.kind === 'waits') waiting[1].cancel();
    clock.advanceTo(100);
    expect(called).toEqual([1, 3]);
    expect(bindings.waiting).toBe(0);
  });

  it('ends when the binding is given up, and the first of them makes it', () => {
    const { bindings, clock, hold } = table();
    const making = hold(A);
    const seen: string[] = [];
    const ask = (name: string): void => {
      const acquired = bindings.acquire(A, null, () => ask(name));
      seen.push(
        `${name} ${acquired.kind === 'held' && acquired.hold.target === null ? 'makes it' : acquired.kind}`,
      );
    };
    ask('x');
    ask('y');
    making.release();
    clock.advanceTo(100);
    expect(seen).toEqual(['x waits', 'y waits', 'x makes it', 'y waits']);
  });
});

describe('where a request must go', () => {
  it.each([
    ['another worker', ONE, TWO, false],
    ['another rank', ONE, { workerId: 1n, rank: 1 }, false],
    ['a rank, of a binding to the worker alone', { workerId: 1n, rank: null }, ONE, false],
    ['the worker, of a binding to a rank', ONE, { workerId: 1n, rank: null }, true],
    ['the same', ONE, ONE, true],
  ])('%s', (_, bound, asked, agrees) => {
    const { bindings, hold } = table();
    const made = hold(A);
    made.commit(bound, 'soft');
    made.release();
    const ask = () => bindings.acquire(A, asked, never);
    if (agrees) expect(ask().kind).toBe('held');
    else expect(ask).toThrowError(expect.objectContaining({ code: 'PM_AFFINITY_CONFLICT' }));
  });
});

describe('a dispatch elsewhere', () => {
  it('drops a hard binding', () => {
    const { bind, bindings, hold } = table();
    bind(A);
    expect(hold(A).commit(TWO, 'hard')).toBe('conflict');
    expect(bindings.size).toBe(0);
  });

  it.each([
    ['another worker, of a rank', ONE, { workerId: 2n, rank: 3 }, { workerId: 2n, rank: 3 }],
    ['another worker, of a worker alone', { workerId: 1n, rank: null }, TWO, { workerId: 2n, rank: null }],
    ['no rank, of a rank', ONE, { workerId: 2n, rank: null }, ONE],
    ['another rank', ONE, { workerId: 1n, rank: 1 }, { workerId: 1n, rank: 1 }],
  ])('moves a soft binding: %s', (_, bound, dispatched, now) => {
    const { bindings, hold } = table();
    hold(A).commit(bound, 'soft');
    hold(A).commit(dispatched, 'soft');
    expect(bindings.query(A)).toEqual(now);
  });

  it('moves it once: whoever knew the earlier one leaves it', () => {
    const { bind, bindings, hold } = table();
    bind(A);
    const [first, second] = [hold(A), hold(A)];
    expect(first.commit(TWO, 'soft')).toBe('moved');
    expect(second.commit({ workerId: 3n, rank: 0 }, 'soft')).toBe('overtaken');
    expect(second.invalidate()).toBe(false);
    expect(bindings.query(A)).toEqual(TWO);
  });
});

it('a binding that was dropped and made again is another one', () => {
  const { bind, bindings, clock, hold } = table();
  bind(A);
  const early = hold(A);
  expect(hold(A).invalidate()).toBe(true);
  bind(A, TWO);
  expect(early.invalidate()).toBe(false);
  expect(bindings.query(A)).toEqual(TWO);
  clock.advanceTo(60_100);
  expect(bindings.size).toBe(0);
});

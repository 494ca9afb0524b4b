import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { type ActivePrefill, ActivePrefills } from './active-prefills.ts';

const SECOND = 1000;

/** Prefills of slot 0 by name; times in seconds. */
function setUp() {
  const clock = new ManualClock();
  const prefills = new ActivePrefills(clock);
  const named = new Map<string, ActivePrefill>();
  return {
    begin: (name: string, tokens: number, seconds: number | null, at = 0) => {
      clock.advanceTo(at * SECOND);
      named.set(name, prefills.begin(0, tokens, seconds === null ? null : seconds * SECOND));
    },
    end: (name: string, at: number) => {
      clock.advanceTo(at * SECOND);
      const prefill = named.get(name);
      if (prefill !== undefined) prefills.end(0, prefill);
    },
    at: (seconds: number) => prefills.tokensAt(0, seconds * SECOND),
  };
}

describe('prefill still to be done', () => {
  it('is what the queue has less what the front had time for, which goes on into those behind', () => {
    const { begin, at } = setUp();
    begin('a', 100, 10);
    begin('b', 60, 6);
    expect([at(0), at(5), at(10), at(15), at(16), at(20)]).toEqual([160, 110, 60, 10, 0, 0]);
  });

  it('falls only for the front while the time of any is not foreseen', () => {
    const { begin, at } = setUp();
    begin('a', 100, 10);
    begin('b', 60, null);
    expect([at(5), at(12), at(15)]).toEqual([110, 60, 60]);
  });

  it('does not fall where the front has no foreseen time', () => {
    const { begin, at } = setUp();
    begin('a', 100, null);
    begin('b', 60, 6);
    expect([at(0), at(100)]).toEqual([160, 160]);
  });

  it('counts a second prefill from when it came', () => {
    const { begin, at } = setUp();
    begin('a', 100, 10);
    begin('b', 60, 6, 2);
    expect([at(2), at(5), at(12)]).toEqual([140, 110, 40]);
  });

  it('starts the next one anew when the front is done', () => {
    const { begin, end, at } = setUp();
    begin('a', 100, 10);
    begin('b', 40, 8);
    end('a', 3);
    expect([at(3), at(5)]).toEqual([40, 30]);
  });

  it('keeps the time of the front when one behind it leaves', () => {
    const { begin, end, at } = setUp();
    begin('a', 30, 6);
    begin('b', 20, 4);
    end('b', 2);
    expect(at(2)).toBe(20);
  });

  it('does not fall by more than was left of the one that leaves', () => {
    const { begin, end, at } = setUp();
    begin('a', 100, 10);
    begin('b', 60, 6);
    begin('c', 50, 5);
    expect(at(15)).toBe(60);
    end('b', 15);
    // 10 were left of b; c has not been begun.
    expect([at(15), at(17), at(20)]).toEqual([50, 30, 0]);
  });

  it('goes on from the front when the only one without a foreseen time leaves', () => {
    const { begin, end, at } = setUp();
    begin('a', 100, 10);
    begin('b', 60, 6);
    begin('c', 50, null);
    expect(at(15)).toBe(110);
    end('c', 15);
    expect([at(15), at(16)]).toEqual([60, 50]);
  });

  it('takes a prefill of no duration as done', () => {
    const { begin, at } = setUp();
    begin('a', 100, 0);
    begin('b', 60, 6);
    expect([at(0), at(3)]).toEqual([60, 60]);
  });

  it('rises by a new prefill in full, however overdue the others are', () => {
    const { begin, at } = setUp();
    begin('a', 100, 10);
    expect(at(30)).toBe(0);
    begin('b', 60, 6, 30);
    expect([at(30), at(33)]).toEqual([60, 30]);
  });

  it('is nothing without prefills', () => {
    const { begin, end, at } = setUp();
    expect(at(1)).toBe(0);
    begin('a', 100, 10);
    end('a', 4);
    expect([at(4), at(100)]).toEqual([0, 0]);
  });
});

interface NaivePrefill {
  readonly tokens: number;
  readonly durationMs: number | null;
  left: number;
}

/** Keeps what is left of each prefill, one token at a time. */
class NaivePrefills {
  readonly queue: NaivePrefill[] = [];
  #since = 0;
  #worked = 0;

  begin(tokens: number, durationMs: number | null, now: number): NaivePrefill {
    this.#work(now);
    const prefill = { tokens, durationMs, left: tokens };
    this.queue.push(prefill);
    if (this.queue.length === 1) this.#startFront(now);
    // Whoever has no foreseen time makes all work count for the front alone.
    if (durationMs === null) for (const one of this.queue.slice(1)) one.left = one.tokens;
    return prefill;
  }

  end(prefill: NaivePrefill, now: number): void {
    this.#work(now);
    const front = prefill === this.queue[0];
    this.queue.splice(this.queue.indexOf(prefill), 1);
    if (front) this.#startFront(now);
  }

  tokensAt(now: number): number {
    this.#work(now);
    return this.queue.reduce((sum, { left }) => sum + left, 0);
  }

  #startFront(now: number): void {
    this.#since = now;
    this.#worked = 0;
    for (const one of this.queue) one.left = one.tokens;
  }

  #work(now: number): void {
    const [front] = this.queue;
    if (front === undefined || front.durationMs === null) return;
    const elapsed = now - this.#since;
    const work =
      front.durationMs === 0 ? front.tokens : Math.floor((front.tokens * elapsed) / front.durationMs);
    const reached = this.queue.every(({ durationMs }) => durationMs !== null) ? this.queue : [front];
    for (; this.#worked < work; this.#worked += 1) {
      const current = reached.find(({ left }) => left > 0);
      if (current !== undefined) current.left -= 1;
    }
  }
}

it('equals a queue that keeps what is left of each, after any operations', () => {
  const operation = fc.oneof(
    fc.record({
      kind: fc.constant('begin' as const),
      tokens: fc.integer({ min: 1, max: 60 }),
      seconds: fc.oneof({ weight: 6, arbitrary: fc.nat(12) }, { weight: 1, arbitrary: fc.constant(null) }),
    }),
    fc.record({ kind: fc.constant('end' as const), which: fc.nat(20) }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 9000 }) }),
  );
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
      const clock = new ManualClock();
      const prefills = new ActivePrefills(clock);
      const naive = new NaivePrefills();
      const active: { real: ActivePrefill; model: NaivePrefill }[] = [];
      for (const one of operations) {
        const now = clock.now();
        const before = prefills.tokensAt(3, now);
        if (one.kind === 'wait') {
          clock.advanceTo(now + one.ms);
          expect(prefills.tokensAt(3, clock.now())).toBeLessThanOrEqual(before);
        } else if (one.kind === 'begin') {
          const durationMs = one.seconds === null ? null : one.seconds * SECOND;
          const real = prefills.begin(3, one.tokens, durationMs);
          active.push({ real, model: naive.begin(one.tokens, durationMs, now) });
        } else if (active.length > 0) {
          const [ended] = active.splice(one.which % active.length, 1);
          if (ended === undefined) continue;
          prefills.end(3, ended.real);
          naive.end(ended.model, now);
        }
        const left = prefills.tokensAt(3, clock.now());
        expect(left).toBe(naive.tokensAt(clock.now()));
        expect(left).toBeLessThanOrEqual(active.reduce((sum, { real }) => sum + real.tokens, 0));
      }
      for (const { real } of active) prefills.end(3, real);
      expect(prefills.tokensAt(3, clock.now())).toBe(0);
      expect(prefills.tokensAt(0, clock.now())).toBe(0);
    }),
    { numRuns: 500 },
  );
});

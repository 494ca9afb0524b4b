import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Breaker, type BreakerChange, type BreakerSettings, type CallOutcome } from './breaker.ts';

const SETTINGS: BreakerSettings = { failures: 5, overruns: 50, windowMs: 30_000, skipMs: 10_000 };

/** The same rules over plain lists of everything that ever happened. */
class NaiveBreaker {
  readonly #settings: BreakerSettings;
  #history: { at: number; outcome: CallOutcome }[] = [];
  #trippedAt: number | null = null;
  #probing = false;

  constructor(settings: BreakerSettings) {
    this.#settings = settings;
  }

  admit(now: number): boolean {
    if (this.#trippedAt === null) return true;
    if (this.#probing || now - this.#trippedAt < this.#settings.skipMs) return false;
    this.#probing = true;
    return true;
  }

  settle(now: number, outcome: CallOutcome): BreakerChange {
    if (this.#probing) {
      this.#probing = false;
      this.#trippedAt = outcome === 'ok' ? null : now;
      return outcome === 'ok' ? 'recovered' : 'tripped';
    }
    if (this.#trippedAt !== null) return null;
    this.#history.push({ at: now, outcome });
    const { windowMs, failures, overruns } = this.#settings;
    const recent = (wanted: CallOutcome) =>
      this.#history.filter((call) => call.outcome === wanted && now - call.at <= windowMs).length;
    // Only the outcome that just happened can be the one that is now too many.
    const tooMany =
      (outcome === 'failed' && recent('failed') >= failures) ||
      (outcome === 'overran' && recent('overran') >= overruns);
    if (!tooMany) return null;
    this.#history = [];
    this.#trippedAt = now;
    return 'tripped';
  }

  get state(): string {
    if (this.#probing) return 'probing';
    return this.#trippedAt === null ? 'ok' : 'tripped';
  }
}

function calls(breaker: Breaker, count: number, at: number, outcome: CallOutcome): BreakerChange[] {
  return Array.from({ length: count }, () => {
    expect(breaker.admit(at)).toBe(true);
    return breaker.settle(at, outcome);
  });
}

describe('a breaker', () => {
  it('trips at the 5th failure within 30 s, lets nobody through for 10 s, then one call that decides', () => {
    const breaker = new Breaker(SETTINGS);
    expect(calls(breaker, 4, 0, 'failed')).toEqual([null, null, null, null]);
    expect(calls(breaker, 1, 30_000, 'failed')).toEqual(['tripped']);
    expect(breaker.admit(39_999)).toBe(false);
    expect(breaker.admit(40_000)).toBe(true);
    expect(breaker.state).toBe('probing');
    expect(breaker.admit(40_000)).toBe(false);
    expect(breaker.settle(40_001, 'failed')).toBe('tripped');
    expect(breaker.admit(50_000)).toBe(false);
    expect(breaker.admit(50_001)).toBe(true);
    expect(breaker.settle(50_001, 'ok')).toBe('recovered');
    expect(calls(breaker, 4, 50_002, 'failed')).toEqual([null, null, null, null]);
  });

  it('does not trip when the 5th failure comes later than 30 s after the first', () => {
    const breaker = new Breaker(SETTINGS);
    calls(breaker, 1, 0, 'failed');
    expect(calls(breaker, 4, 30_001, 'failed')).toEqual([null, null, null, null]);
    expect(breaker.state).toBe('ok');
  });

  it('trips at the 50th overrun, counted apart from failures, and an overrunning probe trips it again', () => {
    const breaker = new Breaker(SETTINGS);
    calls(breaker, 4, 0, 'failed');
    expect(calls(breaker, 49, 1, 'overran')).toEqual(Array(49).fill(null));
    expect(calls(breaker, 1, 2, 'overran')).toEqual(['tripped']);
    expect(breaker.admit(10_002)).toBe(true);
    expect(breaker.settle(10_002, 'overran')).toBe('tripped');
  });

  it('does what the naive model does, whatever happens in whatever order', () => {
    const step = fc.record({
      wait: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 12 }), fc.constant(20)),
      // Calls that overlap: some are settled only after later ones were admitted.
      held: fc.boolean(),
      outcome: fc.constantFrom<CallOutcome>('ok', 'overran', 'failed'),
    });
    const settings = fc.record({
      failures: fc.integer({ min: 1, max: 4 }),
      overruns: fc.integer({ min: 1, max: 4 }),
      windowMs: fc.integer({ min: 1, max: 30 }),
      skipMs: fc.integer({ min: 1, max: 15 }),
    });
    const seen = new Set<BreakerChange>();
    fc.assert(
      fc.property(settings, fc.array(step, { minLength: 20, maxLength: 120 }), (chosen, steps) => {
        const breaker = new Breaker(chosen);
        const model = new NaiveBreaker(chosen);
        const held: CallOutcome[] = [];
        let now = 0;
        const settle = (outcome: CallOutcome): void => {
          const change = breaker.settle(now, outcome);
          seen.add(change);
          expect(change).toBe(model.settle(now, outcome));
          expect(breaker.state).toBe(model.state);
        };
        for (const { wait, held: holds, outcome } of steps) {
          now += wait;
          const would = breaker.wouldAdmit(now);
          expect(breaker.state).toBe(model.state);
          const admitted = breaker.admit(now);
          expect(would).toBe(admitted);
          expect(admitted).toBe(model.admit(now));
          expect(breaker.state).toBe(model.state);
          if (admitted && holds) held.push(outcome);
          else if (admitted) settle(outcome);
          if (!holds) for (const late of held.splice(0)) settle(late);
        }
      }),
      { numRuns: 500 },
    );
    expect([...seen].sort()).toEqual([null, 'recovered', 'tripped'].sort());
  });
});

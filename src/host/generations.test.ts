// The life of generations: any order of reloads, bookings, releases, trips and time against a naive record of what happened.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { BookingHold } from './booking-hold.ts';
import { DRAIN_LIMIT_MS, Generations } from './generations.ts';

/** A generation that notes when it left and when it was disposed. */
class Recorded {
  readonly hold = new BookingHold();
  readonly name: number;
  readonly #clock: ManualClock;
  disposedAt: number[] = [];
  leftAt: number | null = null;
  bookedAtDisposal = 0;

  constructor(name: number, clock: ManualClock) {
    this.name = name;
    this.#clock = clock;
  }

  dispose(): Promise<void> {
    this.disposedAt.push(this.#clock.now());
    this.bookedAtDisposal = this.hold.count;
    return Promise.resolve();
  }
}

function start() {
  const clock = new ManualClock(1_000);
  const made = [new Recorded(1, clock)];
  const generations = new Generations(made[0]!, clock);
  const make = (): Recorded => {
    const one = new Recorded(made.length + 1, clock);
    made.push(one);
    return one;
  };
  return { clock, made, generations, make };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('generations', () => {
  it('an old one is disposed when its last booking is released after the probation, in a later turn', async () => {
    const { generations, made, make } = start();
    const old = made[0]!;
    old.hold.retain();
    generations.replace(make());
    generations.endProbation();
    await turn();
    expect(old.disposedAt).toEqual([]);
    old.hold.release();
    expect(old.disposedAt).toEqual([]);
    await turn();
    expect([old.disposedAt, generations.other]).toEqual([[1_000], null]);
  });

  it('an old one without bookings stays for the probation, which ends after 60 s', async () => {
    const { clock, generations, made, make } = start();
    generations.replace(make());
    await turn();
    clock.advanceTo(60_999);
    expect([generations.onProbation, made[0]!.disposedAt]).toEqual([true, []]);
    clock.advanceTo(61_000);
    expect([generations.onProbation, made[0]!.disposedAt]).toEqual([false, [61_000]]);
    expect(generations.rollBack()).toBe(false);
  });

  it('going back happens once, keeps the old one, and drains the newer one', async () => {
    const { clock, generations, made, make } = start();
    const next = make();
    next.hold.retain();
    generations.replace(next);
    expect([generations.number, generations.rollBack(), generations.number]).toEqual([2, true, 1]);
    expect([generations.serving, generations.rollBack()]).toEqual([made[0], false]);
    await turn();
    expect(next.disposedAt).toEqual([]);
    clock.advanceTo(61_000);
    await turn();
    expect([next.disposedAt, made[0]!.disposedAt]).toEqual([[61_000], []]);
    generations.replace(make());
    expect(generations.number).toBe(3);
  });

  it('a decision under way when its generation is taken back still books with it', async () => {
    const { generations, make } = start();
    const next = make();
    generations.replace(next);
    // The trip comes in the middle of a decision: the booking follows in the same turn.
    generations.rollBack();
    next.hold.retain();
    await turn();
    expect(next.disposedAt).toEqual([]);
    next.hold.release();
    await turn();
    expect(next.disposedAt).toHaveLength(1);
  });

  it('a third waits for the first to drain, or for its 60 s', async () => {
    for (const wait of ['release', 'time'] as const) {
      const { clock, generations, made, make } = start();
      made[0]!.hold.retain();
      generations.replace(make());
      let free = false;
      const room = generations.room().then(() => {
        free = true;
      });
      await turn();
      expect([free, generations.onProbation]).toEqual([false, false]);
      if (wait === 'release') made[0]!.hold.release();
      else clock.advanceTo(61_000);
      await room;
      expect(made[0]!.disposedAt).toHaveLength(1);
    }
  });

  it('closing disposes all that are alive, once', async () => {
    const { clock, generations, made, make } = start();
    generations.replace(make());
    await generations.close();
    clock.advanceTo(100_000);
    await turn();
    expect(made.map(({ disposedAt }) => disposedAt.length)).toEqual([1, 1]);
  });

  const step = fc.oneof(
    { weight: 3, arbitrary: fc.constant('reload' as const) },
    { weight: 6, arbitrary: fc.constant('book' as const) },
    { weight: 5, arbitrary: fc.nat(50).map((at) => ({ release: at })) },
    fc.constant('trip' as const),
    fc.constant('trip while booking' as const),
    fc.constant('proved' as const),
    { weight: 3, arbitrary: fc.integer({ min: 1, max: 40_000 }).map((ms) => ({ wait: ms })) },
  );

  it('never are more than two alive, and each is disposed once, unbooked or after its time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { clock, generations, made, make } = start();
        const bookings: Recorded[] = [];
        const leave = (one: Recorded): void => {
          one.leftAt = clock.now();
        };
        const trip = (): void => {
          const failing = generations.serving;
          const back = generations.other?.value;
          if (!generations.rollBack()) return;
          leave(failing);
          back!.leftAt = null;
        };
        for (const one of steps) {
          if (one === 'reload') {
            if (generations.other !== null) continue;
            leave(generations.serving);
            generations.replace(make());
          } else if (one === 'book' || one === 'trip while booking') {
            const chosen = generations.serving;
            if (one === 'trip while booking') trip();
            chosen.hold.retain();
            bookings.push(chosen);
          } else if (one === 'trip') trip();
          else if (one === 'proved') generations.endProbation();
          else if ('wait' in one) clock.advanceTo(clock.now() + one.wait);
          else if (bookings.length > 0) bookings.splice(one.release % bookings.length, 1)[0]!.hold.release();
          await Promise.resolve();
          await Promise.resolve();
          const alive = made.filter(({ disposedAt }) => disposedAt.length === 0);
          expect(alive.length).toBeLessThanOrEqual(2);
          expect(alive).toContain(generations.serving);
          expect(alive.length).toBe(generations.other === null ? 1 : 2);
          for (const { disposedAt, leftAt, bookedAtDisposal } of made) {
            expect(disposedAt.length).toBeLessThanOrEqual(1);
            if (disposedAt.length === 0) continue;
            const waited = (disposedAt[0] ?? 0) - (leftAt ?? Number.POSITIVE_INFINITY);
            expect(waited).toBeGreaterThanOrEqual(0);
            expect(waited).toBeLessThanOrEqual(DRAIN_LIMIT_MS);
            if (bookedAtDisposal > 0) expect(waited).toBe(DRAIN_LIMIT_MS);
          }
        }
        clock.advanceTo(clock.now() + DRAIN_LIMIT_MS);
        await Promise.resolve();
        expect(generations.other).toBeNull();
        await generations.close();
        expect(made.map(({ disposedAt }) => disposedAt.length)).toEqual(made.map(() => 1));
      }),
      { numRuns: 300 },
    );
  });
});

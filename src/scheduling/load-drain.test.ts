import { expect, it } from 'vitest';
import { LoadDrain } from './load-drain.ts';
import { SlotLoads } from './slot-loads.ts';

function measured() {
  const loads = new SlotLoads();
  let now = 0;
  const drain = new LoadDrain(loads, () => now);
  const change = (attempt: number, ends: boolean): void => {
    drain.before(attempt);
    drain.after(attempt, ends, ends ? loads.free(attempt) : loads.prefillCompleted(attempt));
  };
  return {
    loads,
    drain,
    book(slot: number, tokens: number): number {
      const attempt = loads.book(slot, null, tokens / 16, tokens);
      drain.booked(attempt, slot, tokens);
      return attempt;
    },
    grow(attempt: number, weight: number | null): void {
      drain.before(attempt);
      drain.after(attempt, false, loads.addOutputBlock(attempt, weight));
    },
    prefilled: (attempt: number): void => change(attempt, false),
    release: (attempt: number): void => change(attempt, true),
    pass: (ms: number): void => {
      now += ms;
    },
  };
}

it('blocks and prompt tokens have a pace each, and the slower one counts', () => {
  const { book, drain, pass, prefilled, release } = measured();
  const first = book(0, 160);
  book(0, 160);
  pass(1000);
  prefilled(first);
  pass(3000);
  release(first);
  expect([drain.msUntil(0, 0, 160), drain.msUntil(0, 10, 0)]).toEqual([2000, 4000]);
  expect(drain.msUntil(0, 10, 160)).toBe(4000);
  expect(drain.msUntil(1, 1, 1)).toBeNull();
});

it('a request that ends before its first token gives its prompt tokens back, too', () => {
  const { book, drain, pass, release } = measured();
  const first = book(0, 160);
  pass(500);
  release(first);
  expect(drain.msUntil(0, 0, 160)).toBe(500);
});

it('what output grows is taken off the next release, and what it comes to weigh less is added', () => {
  const { book, drain, grow, pass, release } = measured();
  const [first, second, third] = [book(0, 160), book(0, 160), book(0, 160)];
  for (let block = 0; block < 5; block += 1) grow(third, null);
  pass(1000);
  release(first);
  // 10 blocks were freed and 5 came, so 10 take two pauses.
  expect(drain.msUntil(0, 10, 0)).toBe(2000);
  // From 15 blocks of one each to 16 of a quarter.
  grow(third, 0.25);
  pass(1000);
  release(second);
  // 5 and 10 + 11 in 1 s each: 13 a second.
  expect(drain.msUntil(0, 13, 0)).toBe(1000);
  expect(drain.msUntil(0, 14, 0)).toBe(2000);
});

it('keeps no attempt that has ended, however it did', () => {
  const { book, drain, loads, prefilled, release } = measured();
  const attempts = [book(0, 16), book(0, 32), book(3, 48)];
  expect(drain.measured).toBe(3);
  prefilled(attempts[0]!);
  loads.freeSlot(0);
  for (const attempt of [...attempts, ...attempts]) release(attempt);
  expect(drain.measured).toBe(0);
  book(1, 16);
  drain.clear();
  expect([drain.measured, drain.msUntil(0, 1, 1)]).toEqual([0, null]);
});

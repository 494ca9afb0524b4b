import { expect, test } from 'vitest';
import { RestartPauses, STEADY_MS } from './restart-pauses.ts';

test('the next thread comes at once, then later and later, and at once again after a steady one', () => {
  const pauses = new RestartPauses();
  const soon = Array.from({ length: 12 }, () => pauses.next(STEADY_MS - 1));
  expect(soon).toEqual([0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
  expect([pauses.next(STEADY_MS), pauses.next(0)]).toEqual([0, 100]);
});

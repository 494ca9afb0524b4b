import { expect, test } from 'vitest';
import { OwnerState } from './owner-state.ts';
import { SegmentedRows } from './segmented-rows.ts';

const tally = { bytes: 0 };
const fresh = () => new OwnerState(3, new SegmentedRows(2), new SegmentedRows(5), tally);

test('a clear says how much was held, and of nothing held is none', () => {
  const state = fresh();
  expect(state.clear(0b1111, true)).toBe(0);
  expect(state.isSwept).toBe(true);
  state.held[0] = 4;
  state.held[2] = 3;
  expect(state.clear(0b0011, false)).toBe(4);
  expect([...state.held]).toEqual([0, 0, 3, 0]);
  expect(state.isSwept).toBe(false);
});

test('what was noted before a clear is stale on its tiers only, until a byte of clears is over', () => {
  const state = fresh();
  const noted = state.clears;
  expect(state.staleTiers(noted)).toBe(0);
  state.held[3] = 1;
  state.clear(0b1000, false);
  expect(state.staleTiers(noted)).toBe(0b1000);
  for (let i = 0; i < 254; i++) {
    state.held[3] = 1;
    state.clear(0b1001, false);
  }
  expect(state.staleTiers(noted)).toBe(0b1001);
  expect(state.staleTiers(state.clears)).toBe(0);
});

test('a clear of all tiers drops the tables at once', () => {
  const state = fresh();
  state.namesToFill();
  state.routerNamesToFill();
  expect(tally.bytes).toBeGreaterThan(0);
  state.held[0] = 1;
  const { born } = state;
  state.clear(0b1111, true);
  expect([state.names, state.routerNames, tally.bytes]).toEqual([null, null, 0]);
  expect(state.born).toBe(born + 1);
});

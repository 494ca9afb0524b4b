import { expect, test } from 'vitest';
import { IndexRoom } from './index-room.ts';

test('bytes are added up seldom while there is much room, and always when there is none', () => {
  const room = new IndexRoom(1_000_000, 20_000_000);
  let looks = 0;
  let names = 0;
  const size = () => ({
    names,
    runs: 1_000_000,
    growth: (more: number) => 100 * more,
    fits: () => false,
    bytes: () => {
      looks++;
      return 100 * names;
    },
  });
  while (!room.lacks(size(), 10)) names += 10;
  expect(names).toBeGreaterThan(181_200);
  expect(names).toBeLessThanOrEqual(181_250);
  expect(looks).toBeLessThan(12_000);
  expect(() => room.refuse(size(), 10)).toThrow('bytes and has no room for 10 more engine hashes');
});

test('once arrays may not grow, what fits is let in, and fewer names each time they grow beyond the cap', () => {
  const room = new IndexRoom(1_000_000, 1_000_000);
  let names = 5000;
  let bytes = 930_000;
  let fits = false;
  const size = () => ({
    names,
    runs: 1_000_000,
    growth: () => 20_000,
    bytes: () => bytes,
    fits: () => fits,
  });
  const lacks = (added: number, isPressing = false) => room.lacks(size(), added, isPressing);
  expect(lacks(1)).toBe(true);
  expect(room.grows).toBe(false);
  fits = true;
  expect(lacks(100)).toBe(false);
  bytes = 980_000;
  expect(lacks(1)).toBe(true);
  names = 4675;
  expect(lacks(100)).toBe(false);
  expect(lacks(101)).toBe(true);
  expect(lacks(101, true)).toBe(false);
  bytes = 880_000;
  expect(lacks(100)).toBe(false);
  expect(room.grows).toBe(true);
});

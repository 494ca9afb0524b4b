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
  expect(names).toBeGreaterThan(199_900);
  expect(names).toBeLessThanOrEqual(200_000);
  expect(looks).toBeLessThan(12_000);
  expect(() => room.refuse(size(), 10)).toThrow('bytes and has no room for 10 more engine hashes');
});

test('once arrays may not grow, as many names are let in as there were then, and fewer each time they grow beyond', () => {
  const room = new IndexRoom(1_000_000, 1_000_000);
  let names = 0;
  let bytes = 960_000;
  let fits = true;
  const lacks = (added: number) =>
    room.lacks({ names, runs: 1_000_000, growth: () => 20_000, bytes: () => bytes, fits: () => fits }, added);
  names = 5000;
  expect(lacks(1)).toBe(true);
  expect(room.grows).toBe(false);
  names = 4900;
  expect(lacks(100)).toBe(false);
  expect(lacks(101)).toBe(true);
  fits = false;
  expect(lacks(1)).toBe(true);
  fits = true;
  bytes = 1_010_000;
  expect(lacks(100)).toBe(true);
  names = Math.floor(4900 * (63 / 64)) - 100;
  expect(lacks(100)).toBe(false);
  bytes = 900_000;
  expect(lacks(100)).toBe(false);
  expect(room.grows).toBe(true);
});

import { expect, test } from 'vitest';
import { StoreCopies } from './store-copies.ts';

test('copies are counted per name and tier, and the last is nobody’s business here', () => {
  const copies = new StoreCopies();
  copies.add(7, 0);
  copies.add(7, 0);
  copies.add(7, 3);
  expect([copies.take(7, 0), copies.take(7, 0), copies.take(7, 0)]).toEqual([true, true, false]);
  expect(copies.take(8, 0)).toBe(false);
  expect(copies.take(7, 3)).toBe(true);
});

test('what is forgotten is forgotten on the named tiers only, and its rows are used again', () => {
  const copies = new StoreCopies();
  for (let name = 0; name < 3000; name++) {
    copies.add(name, 0);
    copies.add(name, 2);
  }
  const { bytes } = copies;
  for (let name = 0; name < 3000; name++) copies.forget(name, 0b0101 & (name % 2 === 0 ? 0b0001 : 0b1111));
  expect(copies.take(1, 2)).toBe(false);
  expect(copies.take(2, 0)).toBe(false);
  expect(copies.take(2, 2)).toBe(true);
  for (let name = 5000; name < 7000; name++) copies.add(name, 1);
  expect(copies.bytes).toBe(bytes);
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mixPair, mixPairs } from './pair-mix.ts';
import { RowArena } from './row-arena.ts';
import { RowTable } from './row-table.ts';

const word = fc.oneof(fc.constantFrom(0, -1, 1, -(2 ** 31), 2 ** 31 - 1), fc.integer({ min: 0, max: 40 }));
const key = fc.tuple(word, word);

function put(arena: RowArena, lo: number, hi: number): number {
  const id = arena.take();
  arena.rows.set(id, 1, lo);
  arena.rows.set(id, 2, hi);
  return id;
}

test('a table finds what a Map finds under any mix of inserts, deletes and replacements', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('insert', 'insert', 'delete', 'replace'), key), { maxLength: 300 }),
      (steps) => {
        const arena = new RowArena(4, 0);
        const table = new RowTable(arena.rows, 1);
        const model = new Map<string, number>();
        for (const [kind, [lo, hi]] of steps) {
          const name = `${lo} ${hi}`;
          const id = model.get(name);
          expect(table.find(lo, hi)).toBe(id ?? -1);
          if (kind === 'insert' && id === undefined) {
            const added = put(arena, lo, hi);
            table.insert(added);
            model.set(name, added);
          } else if (kind === 'delete' && id !== undefined) {
            table.delete(id);
            arena.give(id);
            model.delete(name);
          } else if (kind === 'replace' && id !== undefined) {
            const next = put(arena, lo, hi);
            table.replace(id, next);
            arena.give(id);
            model.set(name, next);
          }
          expect(table.count).toBe(model.size);
        }
        for (const [name, id] of model) {
          const [lo, hi] = name.split(' ').map(Number);
          expect(table.find(lo!, hi!)).toBe(id);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test('sequential, shifted and equal-half keys stay within a few probes', () => {
  for (const keyOf of [
    (i: number) => [i, 0],
    (i: number) => [0, i],
    (i: number) => [i << 16, i],
    (i: number) => [i, i],
  ]) {
    const arena = new RowArena(4, 0);
    const table = new RowTable(arena.rows, 1);
    for (let i = 0; i < 20_000; i++) {
      const [lo, hi] = keyOf(i);
      table.insert(put(arena, lo!, hi!));
    }
    let wrong = 0;
    for (let i = 0; i < 20_000; i++) {
      const [lo, hi] = keyOf(i);
      if (table.find(lo!, hi!) !== i) wrong++;
    }
    expect(wrong).toBe(0);
    expect(table.probes).toBeLessThan(2.5 * 20_000);
  }
});

test('a table that was filled and emptied many times probes as little as a new one', () => {
  const arena = new RowArena(4, 0);
  const table = new RowTable(arena.rows, 1);
  for (let round = 0; round < 50; round++) {
    const ids = Array.from({ length: 400 }, (_, i) => put(arena, round * 1000 + i, i));
    for (const id of ids) table.insert(id);
    for (const id of ids) {
      table.delete(id);
      arena.give(id);
    }
  }
  const before = table.probes;
  for (let i = 0; i < 400; i++) expect(table.find(i, 7)).toBe(-1);
  expect(table.probes - before).toBe(400);
});

test('growing replaces one segment at a time, and bytes are those of the segments', () => {
  const arena = new RowArena(4, 0);
  const table = new RowTable(arena.rows, 1);
  let largest = 0;
  for (let i = 0; i < 60_000; i++) {
    const before = table.bytes;
    table.insert(put(arena, i, -i));
    largest = Math.max(largest, table.bytes - before);
  }
  expect(largest).toBeLessThanOrEqual(4 * 8200);
  expect(table.bytes / 60_000).toBeLessThan(4 / 0.39);
});

test('keys that share the bits by which segments are told apart all fit in one', () => {
  const arena = new RowArena(3, 0);
  const table = new RowTable(arena.rows, 1);
  const keys: number[] = [];
  for (let lo = 0; keys.length < 9000; lo++) if (mixPair(lo, 5) >>> 23 === 77) keys.push(lo);
  for (const lo of keys) table.insert(put(arena, lo, 5));
  expect(keys.filter((lo, id) => table.find(lo, 5) !== id)).toEqual([]);
});

test.each([false, true])(
  'lists of keys are found, put in and taken out as single ones are, hashes kept: %s',
  (keepsHashes) => {
    const list = fc.uniqueArray(fc.tuple(word, word), { minLength: 1, maxLength: 40, selector: String });
    fc.assert(
      fc.property(fc.array(list, { minLength: 1, maxLength: 30 }), (lists) => {
        const arena = new RowArena(3, 0);
        const table = new RowTable(arena.rows, 1, keepsHashes);
        const model = new Map<string, number>();
        for (const keys of lists) {
          const pairs = Uint32Array.from(keys.flat());
          const mixes = new Int32Array(keys.length);
          mixPairs(pairs, 0, keys.length, mixes);
          const found = new Int32Array(keys.length);
          table.touch(mixes, keys.length);
          const there = keys.filter((pair) => model.has(String(pair))).length;
          expect(table.findAll(pairs, mixes, keys.length, found)).toBe(there);
          expect([...found]).toEqual(keys.map((pair) => model.get(String(pair)) ?? -1));
          const [first, last] = [model.get(String(keys[0])), model.get(String(keys.at(-1)))];
          if (there === 0) {
            const ids = keys.map(([lo, hi]) => put(arena, lo, hi));
            const isRun = ids.every((id, i) => id === ids[0]! + i);
            if (isRun) table.insertRun(ids[0]!, mixes, 0, ids.length);
            else for (const id of ids) table.insert(id);
            for (const [i, pair] of keys.entries()) model.set(String(pair), ids[i]!);
          } else if (there === keys.length && last === first! + keys.length - 1) {
            const isRun = keys.every((pair, i) => model.get(String(pair)) === first! + i);
            if (!isRun) continue;
            table.deleteRun(first!, mixes, 0, keys.length);
            for (const pair of keys) model.delete(String(pair));
          } else {
            for (const pair of keys) {
              const id = model.get(String(pair));
              if (id === undefined) continue;
              table.delete(id);
              model.delete(String(pair));
            }
          }
          for (const [name, id] of model) {
            const [lo, hi] = name.split(',').map(Number);
            expect(table.find(lo!, hi!)).toBe(id);
          }
          expect(table.count).toBe(model.size);
        }
      }),
      { numRuns: 200 },
    );
  },
);

test('a table that is asked for what it lacks needs few probes when it is to be filled to half', () => {
  const arena = new RowArena(3, 0);
  const table = new RowTable(arena.rows, 1, false, { bytes: 0 }, 0.5);
  let probes = 0;
  for (let i = 0; i < 30_000; i++) {
    const before = table.probes;
    expect(table.find(i, 1)).toBe(-1);
    probes += table.probes - before;
    table.insert(put(arena, i, 1));
  }
  expect(probes / 30_000).toBeLessThan(2.2);
});

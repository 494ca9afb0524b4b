import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RunArena, runRows, runSizeFor } from './run-arena.ts';

test('the smallest run that holds so many rows, else the largest there is', () => {
  expect([1, 4, 5, 16, 17, 64, 1000].map((rows) => runRows(runSizeFor(rows)))).toEqual([
    4, 4, 16, 16, 64, 64, 64,
  ]);
});

test('runs are disjoint, know their rows, and are used again by size', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(2), fc.nat(200)), { maxLength: 400 }), (steps) => {
      const arena = new RunArena(1, 2);
      const taken = new Map<number, number>();
      for (const [size, nth] of steps) {
        if (nth % 3 === 0 && taken.size > 0) {
          const run = [...taken.keys()][nth % taken.size]!;
          taken.delete(run);
          arena.give(run);
          continue;
        }
        const run = arena.take(size);
        expect(taken.has(run)).toBe(false);
        taken.set(run, size);
        expect(arena.rowsOf(run)).toBe(runRows(size));
      }
      const owners = new Map<number, number>();
      for (const [run, size] of taken) {
        for (let row = arena.baseOf(run); row < arena.baseOf(run) + runRows(size); row++) {
          expect(owners.has(row)).toBe(false);
          owners.set(row, run);
          expect(arena.runOf(row)).toBe(run);
        }
      }
    }),
    { numRuns: 60 },
  );
});

test('given-back runs are used before new pages', () => {
  const arena = new RunArena(2, 2);
  const runs = Array.from({ length: 640 }, () => arena.take(0));
  for (const run of runs) arena.give(run);
  const { bytes } = arena;
  expect(arena.growth(640, 0)).toBe(0);
  expect(arena.growth(641, 0)).toBeGreaterThanOrEqual(0);
  for (let i = 0; i < 640; i++) arena.take(0);
  expect(arena.bytes).toBe(bytes);
});

test('a page whose runs were all given back is cut anew', () => {
  const arena = new RunArena(2, 2);
  const small = Array.from({ length: 160 }, () => arena.take(0));
  for (const run of small) arena.give(run);
  expect(arena.freeRows).toBe(640);
  const { bytes } = arena;
  const large = Array.from({ length: 10 }, () => arena.take(2));
  expect(new Set(large.map((run) => arena.baseOf(run))).size).toBe(10);
  expect([arena.freeRows, arena.bytes]).toEqual([0, bytes]);
  expect(arena.growth(1, 2)).toBeGreaterThanOrEqual(0);
});

test('an arena that may not grow gives out what it has: larger runs, and smaller ones where these will do', () => {
  const arena = new RunArena(2, 2);
  const small = Array.from({ length: 16 }, () => arena.take(0));
  const large = Array.from({ length: 2 }, () => arena.take(1));
  for (const run of small.slice(0, 3)) arena.give(run);
  arena.grows = false;
  expect(arena.largestFree()).toBe(1);
  expect(arena.rowsOf(arena.take(2, true))).toBe(16);
  expect(arena.rowsOf(arena.take(2, true))).toBe(16);
  expect(arena.rowsOf(arena.take(2, true))).toBe(4);
  for (const run of large) arena.give(run);
  expect(arena.rowsOf(arena.take(0))).toBe(4);
  expect(arena.rowsOf(arena.take(0))).toBe(4);
  expect(arena.rowsOf(arena.take(0))).toBe(16);
});

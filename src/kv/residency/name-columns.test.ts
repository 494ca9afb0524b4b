import { expect, test } from 'vitest';
import { NameColumns } from './name-columns.ts';
import { OwnerState } from './owner-state.ts';
import { SegmentedRows } from './segmented-rows.ts';

function fresh() {
  const columns = new NameColumns();
  const blocks = new SegmentedRows(5);
  const state = (owner: number) => new OwnerState(owner, columns.names.rows, blocks, { bytes: 0 });
  return { columns, state };
}

test('a name leads to its place and back', () => {
  const { columns, state } = fresh();
  const one = state(7);
  const column = columns.open(300, 64, true, one);
  for (const place of [0, 7, 8, 63]) columns.add(column, place, 1 + (place % 15), 0, place, -place - 1, one);
  for (const place of [0, 7, 8, 63]) {
    const row = one.names!.find(place, -place - 1);
    expect(columns.nameOf(row)).toBe(64 * column + place);
    expect(columns.tiersOf(column, place)).toBe(1 + (place % 15));
    expect(columns.hashAt(column, place)).toEqual({ lo: place, hi: (-place - 1) >>> 0 });
  }
  expect(columns.areFree(column, 1, 6)).toBe(true);
  expect(columns.areFree(column, 1, 7)).toBe(false);
  expect([columns.live, one.live, columns.liveOf(column)]).toEqual([4, 4, 4]);
});

test('columns of one extent and owner form a list, the newest first, and close in any order', () => {
  const { columns, state } = fresh();
  const one = state(1);
  const two = state(2);
  const a = columns.open(5, 16, true, one);
  const other = columns.open(5, 16, true, two);
  const b = columns.open(5, 16, false, one);
  const c = columns.open(5, 16, true, one);
  const list = () => {
    const found: number[] = [];
    for (let at = columns.first(5, 1); at !== -1; at = columns.next(at)) found.push(at);
    return found;
  };
  expect(list()).toEqual([c, b, a]);
  columns.close(b, one);
  expect(list()).toEqual([c, a]);
  columns.close(c, one);
  expect(list()).toEqual([a]);
  expect(one.head).toBe(a);
  columns.close(a, one);
  expect(list()).toEqual([]);
  expect(one.head).toBe(-1);
  expect(columns.first(5, 2)).toBe(other);
});

test('closing the column at which clearing away stands moves it on', () => {
  const { columns, state } = fresh();
  const one = state(1);
  const a = columns.open(5, 4, true, one);
  const b = columns.open(6, 4, true, one);
  one.cursor = b;
  columns.close(b, one);
  expect(one.cursor).toBe(a);
});

test('rows of columns and names are used again', () => {
  const { columns, state } = fresh();
  const one = state(1);
  for (let round = 0; round < 3; round++) {
    const opened = Array.from({ length: 100 }, (_, extent) => columns.open(extent, 64, true, one));
    for (const column of opened) columns.close(column, one);
  }
  const { used } = columns;
  const { bytes } = columns.names;
  for (let extent = 0; extent < 100; extent++) columns.open(extent, 64, true, one);
  expect([columns.names.bytes, columns.used]).toEqual([bytes, used]);
});

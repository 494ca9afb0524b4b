import { expect, test } from 'vitest';
import { SEGMENT_ROWS, SegmentedRows } from './segmented-rows.ts';

test('growing keeps words, and once there is a whole segment it copies none', () => {
  const rows = new SegmentedRows(3);
  rows.reserve(100);
  for (let row = 0; row < 100; row++) rows.set(row, 2, row);
  rows.reserve(SEGMENT_ROWS);
  const first = rows.segments[0];
  rows.reserve(2 * SEGMENT_ROWS + 1);
  expect(rows.segments[0]).toBe(first);
  expect(rows.capacity).toBe(3 * SEGMENT_ROWS);
  for (let row = 0; row < 100; row++) expect(rows.get(row, 2)).toBe(row);
});

test('bytes are those of the segments', () => {
  const rows = new SegmentedRows(5);
  for (const wanted of [1, 65, 5000, 20_000, 50_000]) {
    rows.reserve(wanted);
    expect(rows.bytes).toBe(rows.segments.reduce((sum, segment) => sum + segment.byteLength, 0));
    expect(rows.capacity).toBeGreaterThanOrEqual(wanted);
  }
});

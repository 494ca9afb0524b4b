import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { batchTimestamp } from './batch-timestamp.ts';

test('the time stamp is read from arrays and maps, whatever follows', () => {
  expect(batchTimestamp(encode([1700000000.25, [], 0]))).toBe(1700000000.25);
  expect(batchTimestamp(encode([1700000000, []]))).toBe(1700000000);
  expect(batchTimestamp(encode({ ts: 12.5, events: [], data_parallel_rank: 1 }))).toBe(12.5);
});

test('what no clock shows is none', () => {
  for (const value of [[], {}, [0, []], [-1, []], [null, []], ['x', []], { events: [] }, 7, 'x']) {
    expect(batchTimestamp(encode(value))).toBeNull();
  }
  expect(batchTimestamp(encode([Number.NaN, []]))).toBeNull();
});

test('no bytes make it throw', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const timestamp = batchTimestamp(bytes);
      return timestamp === null || timestamp > 0;
    }),
  );
});

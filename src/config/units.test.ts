import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatDuration, formatSize, parseDuration, parseSize } from './units.ts';

test('durations take ms, s, m and h', () => {
  expect(['500ms', '30s', '2m', '1h', '1.5s', ' 0s '].map(parseDuration)).toEqual([
    500, 30_000, 120_000, 3_600_000, 1500, 0,
  ]);
});

test('a duration without a unit, with a sign, or with an unknown unit is refused', () => {
  expect(
    ['30', '-1s', '1 week', '1S', '1e3ms', '', 'ms', '1..5s', '99999999999999h'].map(parseDuration),
  ).toEqual(new Array(9).fill(null));
});

test('sizes take binary units and plain bytes', () => {
  expect([parseSize('64KiB'), parseSize('1.5GiB'), parseSize('7B'), parseSize(1024)]).toEqual([
    65_536, 1_610_612_736, 7, 1024,
  ]);
});

test('sizes with decimal units, fractions of a byte or a sign are refused', () => {
  expect(['64kB', '1MB', '0.5B', '-1B', '12', 'KiB'].map(parseSize)).toEqual(new Array(6).fill(null));
  expect([1.5, -1, Number.NaN, 2 ** 60].map(parseSize)).toEqual([null, null, null, null]);
});

test('a unit that is a member of every object is unknown too', () => {
  expect(parseSize('1constructor')).toBeNull();
});

test('every whole number of milliseconds and bytes survives being written and read', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 42 }), (value) => {
      expect(parseDuration(formatDuration(value))).toBe(value);
      expect(parseSize(formatSize(value))).toBe(value);
    }),
  );
});

test('no text makes the readers throw, and what they return is a number that fits', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[\d.]{0,20} ?[a-zA-Z]{0,3}$/)), (text) => {
      for (const value of [parseDuration(text), parseSize(text)]) {
        expect(value === null || (value >= 0 && value <= Number.MAX_SAFE_INTEGER)).toBe(true);
      }
    }),
  );
});

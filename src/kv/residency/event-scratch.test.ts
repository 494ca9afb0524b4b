import { expect, test } from 'vitest';
import { EventScratch } from './event-scratch.ts';

function repeats(scratch: EventScratch, parent: number | null, hashes: readonly number[]): boolean {
  const pairs = Uint32Array.from(hashes.flatMap((hash) => [hash, 7]));
  return scratch.repeats(parent === null ? null : { lo: parent, hi: 7 }, pairs, scratch.mix(pairs));
}

test('an engine hash that stands twice in an event, or is its parent, is seen in events of any length', () => {
  const scratch = new EventScratch();
  for (const blocks of [1, 2, 16, 33, 500, 16]) {
    const hashes = Array.from({ length: blocks }, (_, i) => 100 + i);
    expect(repeats(scratch, null, hashes)).toBe(false);
    expect(repeats(scratch, 99, hashes)).toBe(false);
    expect(repeats(scratch, 100 + blocks - 1, hashes)).toBe(true);
    expect(repeats(scratch, null, [...hashes, 100 + (blocks >> 1)])).toBe(true);
  }
});

test('hashes of earlier events are no repeats', () => {
  const scratch = new EventScratch();
  for (let event = 0; event < 1000; event++) expect(repeats(scratch, 3, [1, 2])).toBe(false);
});

test('nor are they when marks start anew', () => {
  const scratch = new EventScratch(50);
  for (let event = 0; event < 200; event++) {
    const hashes = Array.from({ length: 1 + (event % 40) }, (_, i) => 1 + i);
    expect(repeats(scratch, null, hashes)).toBe(false);
    expect(repeats(scratch, null, [...hashes, 1])).toBe(true);
  }
});

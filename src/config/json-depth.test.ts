import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nestsDeeperThan } from './json-depth.ts';

/** Depth by walking the parsed value. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe('nestsDeeperThan', () => {
  it.each([
    ['', 0, false],
    ['1', 0, false],
    ['[]', 0, true],
    ['[[]]', 2, false],
    ['[[]]', 1, true],
    ['{"a":[{"b":1}]}', 2, true],
    ['{"a":[{"b":1}]}', 3, false],
    ['[[],[],[],[]]', 2, false],
    ['["[[[[","{{{{"]', 1, false],
    [String.raw`["\"[[[","\\",[1]]`, 2, false],
    [String.raw`["\\",[[1]]]`, 2, true],
    ['["never closed [[[[', 1, false],
    [']]]][[[', 2, false],
  ])('tells %j from %i levels: %s', (text, levels, deeper) => {
    expect(nestsDeeperThan(text, levels)).toBe(deeper);
  });

  it('agrees with the parsed value for any JSON', () => {
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 6 }),
        fc.nat(8),
        fc.constantFrom(undefined, 2),
        (text, levels, indent) => {
          const value: unknown = JSON.parse(text);
          expect(nestsDeeperThan(JSON.stringify(value, null, indent), levels)).toBe(depthOf(value) > levels);
        },
      ),
    );
  });

  it('looks no further than it must', () => {
    expect(nestsDeeperThan('['.repeat(8 * 1024 * 1024), 128)).toBe(true);
  });
});

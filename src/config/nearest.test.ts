import fc from 'fast-check';
import { expect, test } from 'vitest';
import { didYouMean, nameList, nearestName } from './nearest.ts';

test('a missing letter, swapped letters, dashes and camelCase find their name', () => {
  const names = ['overlap_score_credit', 'harness_prefetch', 'kv_fetch', 'round-robin'];
  expect(nearestName('harness_prefech', names)).toBe('harness_prefetch');
  expect(nearestName('kv_fecth', names)).toBe('kv_fetch');
  expect(nearestName('overlapScoreCredit', names)).toBe('overlap_score_credit');
  expect(nearestName('round_robin', names)).toBe('round-robin');
});

test('a name far from all candidates suggests nothing', () => {
  expect(didYouMean('zebra', ['kv_fetch', 'mode'])).toBe('');
  expect(didYouMean('mod', ['mode'])).toBe(' (did you mean "mode"?)');
});

test('a list of names ends after twenty', () => {
  const names = Array.from({ length: 10_000 }, (_, index) => `n${index}`);
  expect(nameList(names.slice(0, 20))).toBe(names.slice(0, 20).join(', '));
  expect(nameList(names)).toBe(`${names.slice(0, 20).join(', ')} and 9980 more`);
});

test('of equally near names the first one is suggested', () => {
  expect(nearestName('kav', ['kv', 'kva'])).toBe('kv');
});

test('one deleted character in a name of six or more always leads back to a name as near', () => {
  const name = fc.stringMatching(/^[a-z]{6,20}$/);
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { minLength: 1, maxLength: 5 }),
      fc.nat(),
      fc.nat(),
      (names, pick, at) => {
        const chosen = names[pick % names.length]!;
        const position = at % chosen.length;
        const mistyped = chosen.slice(0, position) + chosen.slice(position + 1);
        expect(nearestName(mistyped, [chosen])).toBe(chosen);
        expect(nearestName(mistyped, names)).not.toBeNull();
      },
    ),
  );
});

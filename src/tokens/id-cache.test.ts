import fc from 'fast-check';
import { expect, it } from 'vitest';
import { IdCache, keyOfText } from './id-cache.ts';

it('never takes more than its cap, and forgets what was unused for longest', () => {
  const step = fc.record({
    key: fc.nat(12).map(String),
    length: fc.nat(200),
    isSet: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4000 }), fc.array(step, { maxLength: 60 }), (cap, steps) => {
      const cache = new IdCache(cap);
      // The naive model: a list in order of use.
      let model: { readonly key: string; readonly ids: Uint32Array }[] = [];
      const cost = (ids: Uint32Array): number => 320 + ids.length * 4;
      for (const { key, length, isSet } of steps) {
        const found = model.find((entry) => entry.key === key);
        if (isSet) {
          const ids = new Uint32Array(length).fill(Number(key));
          cache.set(key, ids);
          if (cost(ids) <= cap) {
            model = [...model.filter((entry) => entry.key !== key), { key, ids }];
            while (model.reduce((sum, entry) => sum + cost(entry.ids), 0) > cap) model.shift();
          }
        } else {
          expect(cache.get(key)).toBe(found?.ids);
          if (found !== undefined) model = [...model.filter((entry) => entry !== found), found];
        }
        expect(cache.bytes).toBe(model.reduce((sum, entry) => sum + cost(entry.ids), 0));
        expect(cache.size).toBe(model.length);
        expect(cache.bytes).toBeLessThanOrEqual(cap);
      }
    }),
  );
});

it('keeps no text: keys are digests of one length, other for other texts', () => {
  const keys = ['', 'a', 'secret '.repeat(100), 'a\ud83d', 'a\ufffd'].map(keyOfText);
  expect(new Set(keys).size).toBe(keys.length);
  for (const key of keys) expect(key).toHaveLength(44);
});

// The cache against a naive list: the same entries, the same bytes, whatever is put, taken and waited for.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ManualClock } from '../../plugin/index.ts';
import { type PendingEntry, PendingSelections } from './pending-selections.ts';

interface NaiveEntry {
  readonly key: string;
  readonly value: number;
  readonly bytes: number;
  readonly at: number;
}

/** A list in order of age. */
class NaiveCache {
  entries: NaiveEntry[] = [];
  lost = 0;
  readonly #limits: { ttlMs: number; maxEntries: number; maxBytes: number };

  constructor(limits: { ttlMs: number; maxEntries: number; maxBytes: number }) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.entries.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  put(key: string, value: number, bytes: number, now: number): void {
    const { maxBytes, maxEntries, ttlMs } = this.#limits;
    this.entries = [...this.entries.filter((entry) => entry.key !== key), { key, value, bytes, at: now }];
    const before = this.entries.length;
    this.entries = this.entries.filter(({ at }) => now - at <= ttlMs);
    while (this.entries.length > maxEntries || this.bytes > maxBytes) this.entries.shift();
    this.lost += before - this.entries.length;
  }

  peek(key: string, now: number): number | null {
    const entry = this.entries.find((one) => one.key === key);
    return entry === undefined || now - entry.at > this.#limits.ttlMs ? null : entry.value;
  }

  remove(key: string): void {
    this.entries = this.entries.filter((entry) => entry.key !== key);
  }
}

const KEYS = ['a', 'b', 'c', 'd', 'e'];
const key = fc.constantFrom(...KEYS);
const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('put' as const), key, bytes: fc.nat(60) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('peek' as const), key }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('consume' as const), key }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('discard' as const), key }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(60) }) },
);

it('holds what a naive list holds', () => {
  const limits = { ttlMs: 100, maxEntries: 3, maxBytes: 100 };
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 80 }), (operations) => {
      const clock = new ManualClock();
      let lost = 0;
      const cache = new PendingSelections<number>(limits, clock, () => {
        lost += 1;
      });
      const naive = new NaiveCache(limits);
      const seen = new Map<string, PendingEntry<number>>();
      let value = 0;
      for (const one of operations) {
        if (one.kind === 'wait') clock.advanceTo(clock.now() + one.ms);
        else if (one.kind === 'put') {
          value += 1;
          cache.put(one.key, value, one.bytes);
          naive.put(one.key, value, one.bytes, clock.now());
          expect(cache.size).toBeLessThanOrEqual(limits.maxEntries);
          expect(cache.bytes).toBeLessThanOrEqual(limits.maxBytes);
        } else if (one.kind === 'discard') {
          cache.discard(one.key);
          naive.remove(one.key);
        } else if (one.kind === 'consume') {
          // Of what was seen before: a newer entry of the key stays.
          const entry = seen.get(one.key);
          if (entry !== undefined) {
            cache.consume(one.key, entry.generation);
            if (naive.entries.some((other) => other.key === one.key && other.value === entry.value))
              naive.remove(one.key);
          }
        } else {
          const entry = cache.peek(one.key);
          expect(entry?.value ?? null).toBe(naive.peek(one.key, clock.now()));
          if (entry !== null) seen.set(one.key, entry);
        }
        expect(cache.size).toBe(naive.entries.length);
        expect(cache.bytes).toBe(naive.bytes);
        expect(lost).toBe(naive.lost);
        for (const name of KEYS) expect(cache.peek(name)?.value ?? null).toBe(naive.peek(name, clock.now()));
      }
    }),
  );
});

it('keeps an entry at its age, and not a moment longer', () => {
  const clock = new ManualClock();
  const cache = new PendingSelections<string>({ ttlMs: 120_000, maxEntries: 10, maxBytes: 10 }, clock);
  cache.put('a', 'x', 1);
  clock.advanceTo(120_000);
  expect(cache.peek('a')?.value).toBe('x');
  clock.advanceTo(120_001);
  expect(cache.peek('a')).toBeNull();
});

it('gives up an entry that is too large, and everything older with it', () => {
  const cache = new PendingSelections<string>({ ttlMs: 1, maxEntries: 10, maxBytes: 10 }, new ManualClock());
  cache.put('a', 'x', 5);
  cache.put('b', 'y', 11);
  expect([cache.size, cache.bytes]).toEqual([0, 0]);
});

it('keeps the newer entry when one is selected again while the older is replayed', () => {
  const cache = new PendingSelections<string>({ ttlMs: 1, maxEntries: 10, maxBytes: 10 }, new ManualClock());
  cache.put('a', 'old', 1);
  const replayed = cache.peek('a');
  cache.put('a', 'new', 1);
  cache.consume('a', replayed?.generation ?? -1);
  expect(cache.peek('a')?.value).toBe('new');
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ConditionalDisaggregation } from '../../config/index.ts';
import { type BypassFacts, bypassReason } from './bypass-rules.ts';

const RULES: ConditionalDisaggregation = {
  policy: 'isl_bounding',
  effectiveIsl: 2048,
  effectiveIslRatio: 0.7,
  prefillBusyThreshold: null,
  decodeBusyThreshold: null,
};
const FACTS: BypassFacts = {
  promptTokens: 4000,
  cachedTokens: 3000,
  decodeBlocks: 100,
  totalKvBlocks: 1000,
  prefill: { kind: 'chosen', activeTokens: 9000, maxNumBatchedTokens: 8192 },
};
const asked = (rules: Partial<ConditionalDisaggregation>, facts: Partial<BypassFacts> = {}) =>
  bypassReason({ ...RULES, ...rules }, { ...FACTS, ...facts });

describe('isl_bounding', () => {
  it('keeps prompts whose rest is short, in tokens and as a part, both strictly', () => {
    expect(asked({})).toBe('short');
    // 2,048 tokens are not fewer than 2,048.
    expect(asked({}, { promptTokens: 8000, cachedTokens: 5952 })).toBeNull();
    expect(asked({}, { promptTokens: 8000, cachedTokens: 5953 })).toBe('short');
    // 700 of 1,000 are not less than 0.7.
    expect(asked({}, { promptTokens: 1000, cachedTokens: 300 })).toBeNull();
    expect(asked({}, { promptTokens: 1000, cachedTokens: 301 })).toBe('short');
    expect(asked({}, { promptTokens: 100, cachedTokens: 0 })).toBeNull();
  });

  it('keeps a prompt without tokens, and one of which more is cached than it has', () => {
    expect(asked({}, { promptTokens: 0, cachedTokens: 0 })).toBe('short');
    expect(asked({}, { promptTokens: 10, cachedTokens: 16 })).toBe('short');
  });
});

describe('prefill_load', () => {
  const busy = { policy: 'prefill_load', prefillBusyThreshold: 1 } as const;

  it('keeps prompts while the prefill worker has more tokens than its threshold, strictly', () => {
    expect(asked(busy)).toBe('prefill_busy');
    const exactly = { kind: 'chosen', activeTokens: 8192, maxNumBatchedTokens: 8192 } as const;
    expect(asked(busy, { prefill: exactly })).toBeNull();
    expect(asked({ policy: 'prefill_load' })).toBeNull();
  });

  it('does not guess: what is not known keeps nothing, and a refusal by load is busy', () => {
    expect(
      asked(busy, { prefill: { kind: 'chosen', activeTokens: 1e9, maxNumBatchedTokens: null } }),
    ).toBeNull();
    expect(asked(busy, { prefill: { kind: 'unknown' } })).toBeNull();
    expect(asked({ policy: 'prefill_load' }, { prefill: { kind: 'overloaded' } })).toBe('prefill_busy');
  });

  it('looks at nothing else, and isl_or_load at both', () => {
    const idle = { prefill: { kind: 'chosen', activeTokens: 0, maxNumBatchedTokens: 8192 } } as const;
    expect(asked(busy, idle)).toBeNull();
    expect(asked({ ...busy, policy: 'isl_or_load' }, idle)).toBe('short');
    expect(asked({ ...busy, policy: 'isl_or_load' }, { cachedTokens: 0 })).toBe('prefill_busy');
    expect(asked({ ...busy, policy: 'isl_bounding' }, { cachedTokens: 0 })).toBeNull();
  });
});

describe('the guard of decode workers', () => {
  it('lets a prompt stay only where the load is known and within the threshold', () => {
    const guarded = { decodeBusyThreshold: 0.1 };
    expect(asked(guarded)).toBe('short');
    expect(asked(guarded, { decodeBlocks: 101 })).toBeNull();
    expect(asked(guarded, { decodeBlocks: null })).toBeNull();
    expect(asked(guarded, { totalKvBlocks: null })).toBeNull();
  });

  it('never lets one stay that would go without it', () => {
    const facts = fc.record({
      promptTokens: fc.nat({ max: 8000 }),
      cachedTokens: fc.nat({ max: 8000 }),
      decodeBlocks: fc.option(fc.nat({ max: 2000 })),
      totalKvBlocks: fc.option(fc.integer({ min: 1, max: 2000 })),
      prefill: fc.oneof(
        fc.constant({ kind: 'unknown' } as const),
        fc.constant({ kind: 'overloaded' } as const),
        fc.record({
          kind: fc.constant('chosen' as const),
          activeTokens: fc.nat({ max: 30_000 }),
          maxNumBatchedTokens: fc.option(fc.integer({ min: 1, max: 16_384 })),
        }),
      ),
    });
    const policy = fc.constantFrom('isl_bounding', 'prefill_load', 'isl_or_load' as const);
    fc.assert(
      fc.property(facts, policy, fc.double({ min: 0, max: 1, noNaN: true }), (seen, name, threshold) => {
        const rules = { ...RULES, policy: name, prefillBusyThreshold: 1 };
        const open = bypassReason(rules, seen);
        const guarded = bypassReason({ ...rules, decodeBusyThreshold: threshold }, seen);
        expect(guarded === null || guarded === open).toBe(true);
      }),
    );
  });
});

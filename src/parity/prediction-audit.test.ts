import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DriftEvidence, driftCause } from './drift-cause.ts';
import { AUDIT_LEAST, AUDIT_WINDOW, type Drift, PredictionAudit } from './prediction-audit.ts';

const BLOCK = 16;

function audit(pairs: readonly (readonly [number, number])[]): PredictionAudit {
  const kept = new PredictionAudit();
  for (const [predicted, reported] of pairs) kept.add(predicted, reported, BLOCK);
  return kept;
}

const tokens = fc.integer({ min: 0, max: 4096 });
const exact = tokens.map((count) => [count, count] as const);
/** Within a block of each other, and both something or nothing. */
const close = fc
  .tuple(fc.integer({ min: 1, max: 4096 }), fc.integer({ min: -BLOCK, max: BLOCK }))
  .map(([count, off]) => [count, Math.max(1, count + off)] as const);

describe('the prediction audit', () => {
  it('finds no drift where reports stay within a block of predictions', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(exact, close), { maxLength: 200 }), (pairs) => {
        expect(audit(pairs).drift()).toBeNull();
      }),
    );
  });

  it('says nothing of fewer requests than it takes', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(tokens, tokens), { maxLength: AUDIT_LEAST - 1 }), (pairs) => {
        expect(audit(pairs).drift()).toBeNull();
      }),
    );
  });

  it('is moved by no single request, however long its prompt', () => {
    fc.assert(
      fc.property(
        fc.array(exact, { minLength: AUDIT_LEAST, maxLength: AUDIT_WINDOW - 1 }),
        fc.tuple(fc.integer({ min: 0, max: 2 ** 30 }), fc.integer({ min: 0, max: 2 ** 30 })),
        (pairs, one) => {
          const said = pairs.filter(([predicted]) => predicted > 0);
          fc.pre(said.length >= AUDIT_LEAST);
          expect(audit([...pairs, one]).drift()).toBeNull();
        },
      ),
    );
  });

  it('names the direction that all requests have, whatever was before the window', () => {
    const over = fc.integer({ min: 64, max: 4096 }).map((count) => [count, Math.floor(count / 4)] as const);
    const never = fc.integer({ min: 64, max: 4096 }).map((count) => [count, 0] as const);
    const under = fc.integer({ min: 64, max: 4096 }).map((count) => [Math.floor(count / 4), count] as const);
    for (const [kind, drifting] of [
      ['over_predicted', over],
      ['never_hits', never],
      ['under_predicted', under],
    ] as const) {
      fc.assert(
        fc.property(
          fc.array(fc.tuple(tokens, tokens), { maxLength: 100 }),
          fc.array(drifting, { minLength: AUDIT_WINDOW, maxLength: AUDIT_WINDOW + 20 }),
          (before, since) => {
            const drift = audit([...before, ...since]).drift();
            expect(drift?.kind).toBe(kind);
            expect(drift?.requests).toBe(AUDIT_WINDOW);
            expect(Math.sign(drift?.medianTokens ?? 0)).toBe(kind === 'under_predicted' ? 1 : -1);
          },
        ),
      );
    }
  });

  it('counts the window and nothing else', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(tokens, tokens), { maxLength: 200 }), (pairs) => {
        const window = pairs.slice(-AUDIT_WINDOW);
        const sum = (at: 0 | 1): number => window.reduce((total, pair) => total + pair[at], 0);
        expect(audit(pairs).summary).toEqual({
          requests: window.length,
          predictedTokens: sum(0),
          reportedTokens: sum(1),
        });
      }),
    );
  });

  it('starts anew with its engine', () => {
    const kept = audit(Array.from({ length: 20 }, () => [100, 0] as const));
    expect(kept.drift()?.kind).toBe('never_hits');
    kept.clear();
    expect([kept.drift(), kept.summary.requests]).toEqual([null, 0]);
  });
});

describe('the cause of a drift', () => {
  const NOTHING: DriftEvidence = {
    lostEvents: false,
    partial: false,
    disagrees: false,
    hybrid: false,
    estimated: false,
    ignoresSalt: false,
  };
  const drift = (kind: Drift['kind']): Drift => ({ kind, requests: 9, of: 10, medianTokens: 0 });

  it.each<[Drift['kind'], Partial<DriftEvidence>, string]>([
    ['over_predicted', { lostEvents: true }, 'events of evictions were lost'],
    ['over_predicted', { hybrid: true }, 'not all of its KV cache groups hold the blocks'],
    ['over_predicted', { disagrees: true }, 'its block hashes are of other tokens than the router’s'],
    [
      'over_predicted',
      {},
      'events of evictions are missing, or its prefix cache is cleared without an event',
    ],
    ['never_hits', { estimated: true }, 'its prefix cache seems to be off'],
    ['never_hits', {}, 'its block hashes are not those of the prompts, or its prefix cache is off'],
    ['under_predicted', { ignoresSalt: true }, 'it ignores cache_salt'],
    ['under_predicted', { partial: true }, 'it held blocks before the router listened'],
    ['under_predicted', { lostEvents: true }, 'events of stored blocks were lost'],
    [
      'under_predicted',
      {},
      'events of stored blocks are missing, or others send to it whose blocks are not announced',
    ],
  ])('%s with %o: %s', (kind, seen, words) => {
    expect(driftCause(drift(kind), { ...NOTHING, ...seen })).toBe(words);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { costTerms, type TermFacts, type TermInputs } from './cost-terms.ts';

const idle: TermInputs = {
  device: 0,
  host: 0,
  disk: 0,
  activePrefillTokens: 0,
  activeDecodeBlocks: 0,
  additionalBlocks: 0,
  activeRequests: 0,
  taint: 1,
};
const facts: TermFacts = {
  promptTokens: 2048,
  blockSize: 16,
  requestBlocks: 128,
  role: 'aggregated',
  tracksPrefillTokens: true,
  leastActivePrefill: 0,
};

const costOf = (weights: Record<string, number>, about: TermFacts, inputs: TermInputs): number => {
  const terms = costTerms(weights, about, inputs);
  return (terms.prefill + terms.decode_blocks + terms.request_weight) * terms.taint;
};

describe('the recomputed terms of the default cost', () => {
  // Golden vectors computed from the published formula of the Rust router's default policy.
  it('make cost 234 of 512 active and 1,024 cached tokens', () => {
    const inputs = {
      ...idle,
      activePrefillTokens: 512,
      device: 64,
      activeDecodeBlocks: 10,
      additionalBlocks: 128,
    };
    expect(costTerms({}, facts, inputs)).toEqual({
      raw_prefill_blocks: 160,
      credit: 64,
      decay: 1,
      prefill: 96,
      decode_blocks: 138,
      request_weight: 0,
      taint: 1,
    });
    expect(costOf({}, facts, inputs)).toBe(234);
  });

  it('leave nothing to prefill when more is cached than the prompt holds', () => {
    const terms = costTerms({}, { ...facts, promptTokens: 100, requestBlocks: 7 }, { ...idle, device: 8 });
    expect([terms.raw_prefill_blocks, terms.prefill]).toEqual([8, 0]);
  });

  it('halve the credit when twice the request is queued ahead', () => {
    const terms = costTerms({ overlap_score_credit_decay: 1 }, facts, {
      ...idle,
      activePrefillTokens: 2048,
      device: 10,
    });
    expect([terms.decay, terms.credit]).toEqual([0.5, 5]);
  });

  it('take credit from decode blocks where a decode worker does not prefill', () => {
    const about = { ...facts, role: 'decode', tracksPrefillTokens: false };
    const terms = costTerms({}, about, { ...idle, device: 40, activeDecodeBlocks: 30, additionalBlocks: 20 });
    expect([terms.raw_prefill_blocks, terms.prefill, terms.decode_blocks]).toEqual([0, 0, 10]);
  });

  it('never fall below zero, and rise with every load', () => {
    const count = fc.nat(5000);
    const inputs = fc.record({
      device: fc.nat(128),
      host: fc.nat(64),
      disk: fc.nat(64),
      activePrefillTokens: count,
      activeDecodeBlocks: count,
      additionalBlocks: count,
      activeRequests: fc.nat(100),
      taint: fc.double({ min: 0.4, max: 2.7, noNaN: true }),
    });
    fc.assert(
      fc.property(inputs, fc.nat(1000), (some, more) => {
        const weights = { decode_active_request_weight: 4 };
        const cost = costOf(weights, facts, some);
        expect(cost).toBeGreaterThanOrEqual(0);
        for (const load of ['activePrefillTokens', 'activeDecodeBlocks', 'activeRequests'] as const) {
          expect(costOf(weights, facts, { ...some, [load]: some[load] + more })).toBeGreaterThanOrEqual(cost);
        }
        for (const tier of ['device', 'host', 'disk'] as const) {
          const capped = { ...some, [tier]: Math.max(some[tier] - 1, 0) };
          if (some.device + some.host + some.disk <= 128) {
            expect(costOf(weights, facts, capped)).toBeGreaterThanOrEqual(cost);
          }
        }
      }),
    );
  });
});

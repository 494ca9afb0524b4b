import { describe, expect, it } from 'vitest';
import { timeCost, type WorkerTiming } from '../plugin/index.ts';
import { type TimeInputs, type TimeTermFacts, timeTerms } from './time-cost-terms.ts';

const nobody: TimeInputs = {
  in_flight_blocks: 0,
  prefill_requests: 0,
  prefill_tokens: 0,
  prefill_attention: 0,
  prefill_front_ms: 0,
  decode_requests: 0,
  booked_prompt_tokens: 0,
};
const idle = { device: 0, host: 0, shared: 0, taint: 1, kind: 0, inputs: nobody };

/** Weights that are not the defaults, so that it shows which are used. */
const weights = {
  prefill_weight: 4,
  ...{ decode_weight: 0.1, waiting_weight: 1, late_weight: 2, ttft_target_ms: 1000 },
};
const timing = { prefill_us_per_token: 100, attention_ns_per_pair: 10, decode_ms: 10, decode_fill_ms: 0 };
/** Prompts of 1,000 tokens, answers of 100; 16 tokens from the host tier take 1.6 ms. */
const facts: TimeTermFacts = {
  cost: timeCost({
    timing,
    ...weights,
    interference_weight: 0.5,
    kv_bytes_per_token: 125_000,
    host_gbps: 10,
  }),
  promptTokens: 1000,
  blockSize: 16,
  outputTokens: 100,
  timings: null,
  copyLink: null,
};

describe('the recomputed terms of the cost in time', () => {
  it('are the whole prompt and the answer on an idle worker that holds nothing', () => {
    // 1,000 × (0.1 ms + 10 ns × 500)
    const prefill = { ms: expect.closeTo(105, 9), weight: 4 };
    expect(timeTerms(facts, idle)).toEqual({
      parts: { queue: { ms: 0, weight: 1 }, prefill, decode: { ms: 1000, weight: 0.1 } },
      taint: 1,
      total: expect.closeTo(520, 9),
      computed_tokens: 1000,
      output_tokens: 100,
      host_blocks: 0,
      copied_blocks: 0,
    });
  });

  it('show the wait for prompts before, and hide in it what is read from the host tier meanwhile', () => {
    // 3,000 tokens and 1e6 pairs take 310 ms, of which 40 are over. 25 blocks are read in 40 ms.
    const waiting = {
      prefill_requests: 2,
      prefill_tokens: 3000,
      prefill_attention: 1e6,
      prefill_front_ms: 40,
    };
    const inputs = { ...nobody, ...waiting, decode_requests: 3 };
    const terms = timeTerms(facts, { ...idle, device: 25, host: 25, taint: 0.5, inputs });
    expect(terms?.parts.queue).toEqual({ ms: 270, weight: 1 });
    expect(terms?.parts.host_read).toEqual({ ms: 0, weight: 1 });
    // 200 × (0.1 ms + 10 ns × 900), weighing more for three requests in decode and two prompts that wait
    expect(terms?.parts.prefill?.ms).toBeCloseTo(21.8, 9);
    expect(terms?.parts.prefill?.weight).toBe(7.5);
    expect(terms).toMatchObject({ taint: 0.5, computed_tokens: 200, host_blocks: 25 });
    expect(terms?.total).toBeCloseTo((270 + 7.5 * 21.8 + 100) / 2, 9);
  });

  it('show how much longer than the wait reading takes, where that is less than computing', () => {
    const terms = timeTerms(facts, { ...idle, host: 25 });
    expect(terms?.parts.host_read).toEqual({ ms: 40, weight: 1 });
    expect(terms?.computed_tokens).toBe(600);
    const far = {
      ...facts,
      cost: timeCost({ timing, ...weights, kv_bytes_per_token: 125_000, host_gbps: 1 }),
    };
    const computed = timeTerms(far, { ...idle, host: 25 });
    expect(computed?.parts.host_read).toBeUndefined();
    expect(computed).toMatchObject({ computed_tokens: 1000, host_blocks: 0 });
  });

  it('count again what is later than the target, of the wait and of computing', () => {
    const late = {
      ...facts,
      cost: timeCost({ timing, ...weights, ttft_target_ms: 65, kv_bytes_per_token: 125_000, host_gbps: 10 }),
    };
    const terms = timeTerms(late, idle);
    expect(terms?.parts.late).toEqual({ ms: expect.closeTo(40, 9), weight: 2 });
    expect(terms?.total).toBeCloseTo(4 * 105 + 2 * 40 + 100, 9);
    // 40 ms to read and 600 × (0.1 ms + 10 ns × 700) to compute
    const read = timeTerms(late, { ...idle, host: 25 });
    expect(read?.parts.late?.ms).toBeCloseTo(40 + 64.2 - 65, 9);
  });

  describe('of a cost that counts on copies', () => {
    // 16 tokens are copied in 0.8 ms.
    const copying = {
      timing,
      ...weights,
      ...{ kv_bytes_per_token: 125_000, host_gbps: 10, late_weight: 0 },
      ...{ peer_copies: true, peer_weight: 3, peer_gbps: 20, peer_latency_ms: 5 },
    };
    const counting = { ...facts, cost: timeCost(copying) };
    const inputs = { ...nobody, source_prefix_blocks: 50 };
    const lacking = { ...idle, shared: 50, inputs };

    it('are the copy, and the rest to compute, where nothing waits and that costs the least', () => {
      const terms = timeTerms(counting, lacking);
      expect(terms?.parts.peer_copy).toEqual({ ms: 45, weight: 3 });
      // 200 × (0.1 ms + 10 ns × 900)
      expect(terms?.parts.prefill).toEqual({ ms: expect.closeTo(21.8, 9), weight: 4 });
      expect(terms).toMatchObject({ computed_tokens: 200, host_blocks: 0, copied_blocks: 50 });
      expect(terms?.total).toBeCloseTo(3 * 45 + 4 * 21.8 + 100, 9);
    });

    it('take the copy for as long as copies took lately, as far as that is sure', () => {
      const copyLink = { latencyMs: 10, blockMs: 1.4, confidence: 0.5 };
      const terms = timeTerms({ ...counting, copyLink }, lacking);
      expect(terms?.parts.peer_copy?.ms).toBeCloseTo(Math.sqrt(45 * 80), 9);
    });

    it('count what of the copy and of computing is late', () => {
      const cost = timeCost({ ...copying, late_weight: 2, ttft_target_ms: 60 });
      const terms = timeTerms({ ...counting, cost }, lacking);
      expect(terms?.parts.late).toEqual({ ms: expect.closeTo(45 + 21.8 - 60, 9), weight: 2 });
      expect(terms?.copied_blocks).toBe(50);
    });

    it('are those of computing or reading where one of these costs less', () => {
      const dear = { ...counting, cost: timeCost({ ...copying, peer_weight: 8 }) };
      expect(timeTerms(dear, lacking)).toMatchObject({ computed_tokens: 1000, copied_blocks: 0 });
      const read = timeTerms(counting, { ...lacking, host: 49, shared: 1 });
      expect(read).toMatchObject({ computed_tokens: 216, host_blocks: 49, copied_blocks: 0 });
    });

    it.each([
      ['whose cost counts on none', facts, lacking],
      ['where nothing is to be had', counting, { ...lacking, shared: 0 }],
      [
        'where as much is in flight already',
        counting,
        { ...lacking, inputs: { ...inputs, in_flight_blocks: 50 } },
      ],
      [
        'where others are before it',
        counting,
        { ...lacking, inputs: { ...inputs, prefill_requests: 1, prefill_tokens: 10 } },
      ],
      [
        'where copying takes longer than computing',
        { ...counting, cost: timeCost({ ...copying, peer_weight: 0, peer_gbps: 9 }) },
        lacking,
      ],
    ])('have no copy %s', (_, given, candidate) => {
      const terms = timeTerms(given, candidate);
      expect(terms?.parts.peer_copy).toBeUndefined();
      expect(terms?.copied_blocks).toBe(0);
    });
  });

  it('count blocks in flight as found, at most what is done of the prompt at the front, and one token at least', () => {
    const front = { prefill_requests: 1, prefill_tokens: 1000, prefill_front_ms: 5000 };
    const terms = timeTerms(facts, { ...idle, inputs: { ...nobody, ...front, in_flight_blocks: 63 } });
    expect(terms?.parts.queue?.ms).toBe(0);
    expect(terms?.computed_tokens).toBe(1);
  });

  it('are slower output tokens on a worker whose pool is full, and their default number where none is known', () => {
    const options = { timing: { ...timing, decode_fill_ms: 54.01 }, kv_reference_tokens: 2000 };
    const full = { ...facts, cost: timeCost(options), outputTokens: null };
    const terms = timeTerms(full, { ...idle, inputs: { ...nobody, booked_prompt_tokens: 1e6 } });
    expect(terms?.parts.decode?.ms).toBeCloseTo(256 * (10 + 54.01 - 25.74), 9);
  });

  it('rest on the times of the candidate’s kind where these are learnt; without them there are none', () => {
    const kind: WorkerTiming = {
      ...{ prefillTokenMs: 0.2, prefillAttentionMs: 0, prefillPassMs: 0, decodeMs: 5, decodeFillMs: 0 },
      ...{ kvReferenceTokens: 1, prefillConfidence: 1, prefillObservations: 9, prefillError: 0 },
      ...{ decodeConfidence: 1, decodeObservations: 9, decodeError: 0 },
    };
    const learnt = { ...facts, cost: timeCost({ timing: { decode_ms: 10 } }) };
    const timings = [{ ...kind, prefillTokenMs: 9 }, kind];
    const terms = timeTerms({ ...learnt, timings }, { ...idle, kind: 1 });
    expect([terms?.parts.prefill?.ms, terms?.parts.decode?.ms]).toEqual([200, 1000]);
    expect(timeTerms({ ...learnt, timings: [] }, idle)).toBeNull();
    expect(timeTerms(learnt, idle)).toBeNull();
  });
});

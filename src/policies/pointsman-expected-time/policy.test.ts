import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type TrialCandidate, testWorkerSelection } from '../../testing/index.ts';
import { pointsmanExpectedTime } from './policy.ts';

// 10 µs per prompt token, 1 ns per pair of tokens, 5 ms per output token and 50 more as the pool fills; outputs of 100 tokens.
const STATED = {
  prefill_weight: 4,
  timing: { prefill_us_per_token: 10, attention_ns_per_pair: 1, decode_ms: 5, decode_fill_ms: 50 },
  default_output_tokens: 100,
};

async function costsOf(
  candidates: readonly TrialCandidate[],
  parameters: object = STATED,
  trial: object = {},
) {
  const { decisions } = await testWorkerSelection(pointsmanExpectedTime, {
    parameters,
    candidates,
    ...trial,
  });
  return decisions[0].costs;
}
const onDevice = (deviceBlocks: number, hostBlocks = 0) => ({
  cache: { deviceBlocks, hostBlocks, hasTierMatches: true },
});
const backlog = (prefillFrontMs: number) => ({
  phases: { prefillRequests: 2, prefillTokens: 3000, prefillAttention: 2_500_000, prefillFrontMs },
});

describe('pointsman-expected-time', () => {
  // The prompt has 2,048 tokens in blocks of 16. Computing all of it: 2,048 × (10 µs + 1 ns × 1,024) = 22.577 ms, four times that; an
  // output token: 5 + 50 × x × (1 − 0.4766 x), x = 2,048 / 1,048,576, = 5.0976 ms, a twentieth of a hundred of them.
  it.each<[string, TrialCandidate, number]>([
    ['nothing', {}, 115.796435],
    ['half of it on the device', onDevice(64), 72.739283],
    [
      'half of it on the device and three quarters in flight',
      { ...onDevice(64), inFlightBlocks: 96 },
      49.637843,
    ],
    ['all of it: one token is still computed', onDevice(128), 25.536017],
    ['two prompts of 32.5 ms before it, the first under way for 4 ms', backlog(4), 212.027891],
    ['the same, the first overdue: half of them are done at most', backlog(400), 199.777891],
    [
      'ten decodes and a quarter of the pool booked',
      { phases: { decodeRequests: 10, promptTokens: 262_144 } },
      177.506691,
    ],
    ['a quarter on the device and half of it on the host', onDevice(32, 64), 55.006552],
    ['half of it on the device of a pool under pressure', { ...onDevice(64), cachePressure: 0.5 }, 78.645715],
  ])('costs what the formula says with %s', async (_, candidate, expected) => {
    expect((await costsOf([candidate]))[0]).toBeCloseTo(expected, 5);
  });

  it('costs three times on top what comes later than the target, computed or read', async () => {
    const late = await costsOf([backlog(4)], { ...STATED, ttft_target_ms: 40 });
    expect(late[0]).toBeCloseTo(245.259347, 5);
    const read = await costsOf([onDevice(32, 64)], { ...STATED, ttft_target_ms: 10 });
    expect(read[0]).toBeCloseTo(59.225191, 5);
  });

  it('reads from the host only where that is faster than computing', async () => {
    const slow = { ...STATED, host_gbps: 0.1 };
    const [onHost, computed] = await costsOf([onDevice(32, 64), onDevice(32)], slow);
    expect(onHost).toBe(computed);
  });

  // 96 blocks at a peer: 1.61 Gbit at 200 Gbit/s and 1 ms are 9.053 ms, three times that, and four times 6.037504 ms for the last 512 tokens.
  it.each<[string, TrialCandidate, object, number]>([
    ['three quarters at a peer', {}, {}, 76.797034],
    ['the same, half of it on the device', onDevice(64), {}, 60.690907],
    ['the same, copied slower than computed', {}, { peer_gbps: 100, peer_latency_ms: 3 }, 115.796435],
    ['half on the device, copies not asked for', onDevice(64), { peer_copies: false }, 72.739283],
    ['the same, prompts before it', backlog(4), {}, 212.027891],
    ['the same, all of it in flight', { inFlightBlocks: 128 }, {}, 25.536017],
  ])('counts on copies where it is to: %s', async (_, candidate, parameters, expected) => {
    const copyableBlocks = 96 - (candidate.cache?.deviceBlocks ?? 0);
    const copied = { ...candidate, copies: { sourcePrefixBlocks: 96, copyableBlocks } };
    const fast = { ...STATED, peer_copies: true, peer_gbps: 200, peer_latency_ms: 1, ...parameters };
    expect((await costsOf([copied], fast))[0]).toBeCloseTo(expected, 5);
  });

  it('goes by what copies took lately, as far as that is known', async () => {
    const costWith = async (confidence: number) => {
      const link = { latencyMs: 0, blockMs: 9.05306368 / 96, confidence };
      const copies = { sourcePrefixBlocks: 96, copyableBlocks: 96, link };
      return (await costsOf([{ copies }], { ...STATED, peer_copies: true }))[0];
    };
    expect(await costWith(1)).toBeCloseTo(76.797034, 5);
    // Three times the geometric mean of 9.053 ms and the 19.106 ms that are stated.
    expect(await costWith(0.5)).toBeCloseTo(
      76.797034 + 3 * (Math.sqrt(9.05306368 * 19.10612736) - 9.05306368),
      5,
    );
    expect(await costWith(0)).toBeCloseTo(115.796435, 5);
  });

  it('takes the fullest pool for one that is more than full, and multiplies by the preference', async () => {
    const phases = { promptTokens: 10_000_000 };
    const [full, half] = await costsOf([{ phases }, { phases, preferredTaintMultiplier: 0.5 }]);
    expect(full).toBeCloseTo(90.308608 + 5 * (5 + 50 * (1 - 25.74 / 54.01)), 5);
    expect(half).toBeCloseTo(full! / 2, 9);
  });

  it('takes learnt times for those that are not stated, each worker its own kind', async () => {
    const timing = { prefillTokenMs: 0.02, prefillAttentionMs: 2e-6, decodeMs: 10, decodeFillMs: 100 };
    const [fast, slow] = await costsOf([{ timing: { ...timing, prefillTokenMs: 0.01 } }, { timing }], {
      ...{ prefill_weight: 4, default_output_tokens: 100 },
      timing: { attention_ns_per_pair: 1, decode_ms: 5, decode_fill_ms: 50 },
    });
    expect(fast).toBeCloseTo(115.796435, 5);
    expect(slow).toBeCloseTo(115.796435 + 4 * 2048 * 0.01, 5);
  });

  it('asks nobody to learn what is stated', async () => {
    const trial = { candidates: [{}] };
    const needs = async (parameters: object) =>
      (await testWorkerSelection(pointsmanExpectedTime, { ...trial, parameters })).needs;
    expect(await needs(STATED)).toMatchObject({ cache: true, inFlight: true, phases: true, timing: false });
    expect(await needs({})).toMatchObject({ timing: true, outputLength: true, load: false, copies: false });
    expect(await needs({ peer_copies: true })).toMatchObject({ copies: true });
  });

  it('breaks exact ties at random', async () => {
    const { decisions } = await testWorkerSelection(pointsmanExpectedTime, {
      parameters: STATED,
      candidates: [{}, {}, {}],
      decisions: 60,
    });
    expect(new Set(decisions.map(({ row }) => row))).toEqual(new Set([0, 1, 2]));
    expect(decisions[0].ties).toBe(3);
  });

  it('refuses unknown parameters with the nearest name, and times that are none', async () => {
    await expect(costsOf([{}], { prefil_weight: 1 })).rejects.toThrow(/did you mean "prefill_weight"/);
    await expect(costsOf([{}], { timing: { decode_ms: 0 } })).rejects.toThrow(/timing.decode_ms: Too small/);
    await expect(costsOf([{}], { interference_weight: -1 })).rejects.toThrow(
      /interference_weight: Too small/,
    );
  });
});

const blocks = 128;
const candidate = fc
  .record({
    deviceBlocks: fc.nat(blocks),
    hostBlocks: fc.nat(blocks),
    inFlightBlocks: fc.nat(blocks),
    prefillRequests: fc.nat(20),
    tokens: fc.nat(20_000),
    front: fc.nat(5_000),
    decodeRequests: fc.nat(200),
    promptTokens: fc.nat(2_000_000),
    sourceBlocks: fc.nat(blocks),
    cachePressure: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map((given) => ({ ...given, hostBlocks: Math.min(given.hostBlocks, blocks - given.deviceBlocks) }));
type Given = typeof candidate extends fc.Arbitrary<infer T> ? T : never;

function trialOf({ deviceBlocks, hostBlocks, inFlightBlocks, sourceBlocks, ...load }: Given): TrialCandidate {
  const { prefillRequests, tokens, front, decodeRequests, promptTokens, cachePressure } = load;
  return {
    cachePressure,
    ...onDevice(deviceBlocks, hostBlocks),
    inFlightBlocks,
    copies: {
      sourcePrefixBlocks: sourceBlocks,
      copyableBlocks: Math.max(0, sourceBlocks - deviceBlocks - hostBlocks),
    },
    phases: {
      prefillRequests,
      prefillTokens: prefillRequests * tokens,
      prefillAttention: (prefillRequests * tokens * tokens) / 2,
      prefillFrontMs: front,
      decodeRequests,
      promptTokens,
    },
  };
}

describe('the expected time', () => {
  /** Rounding of sums. */
  const grain = 1 + 1e-12;

  it.each<[string, (given: Given) => Given]>([
    [
      'more on the device',
      (given) => ({
        ...given,
        deviceBlocks: Math.min(blocks, given.deviceBlocks + 1),
        hostBlocks: Math.max(0, given.hostBlocks - 1),
      }),
    ],
    ['more in flight', (given) => ({ ...given, inFlightBlocks: Math.min(blocks, given.inFlightBlocks + 1) })],
    ['less computed before it', (given) => ({ ...given, tokens: Math.max(0, given.tokens - 1) })],
    [
      'one prompt less before it',
      (given) => ({ ...given, prefillRequests: Math.max(0, given.prefillRequests - 1) }),
    ],
    ['the front further on', (given) => ({ ...given, front: given.front + 1 })],
    ['one decode less', (given) => ({ ...given, decodeRequests: Math.max(0, given.decodeRequests - 1) })],
    ['less that its pool would forget', (given) => ({ ...given, cachePressure: given.cachePressure / 2 })],
    ['less booked', (given) => ({ ...given, promptTokens: Math.max(0, given.promptTokens - 100) })],
  ])('is never longer with %s', async (_, better) => {
    await fc.assert(
      fc.asyncProperty(fc.array(candidate, { minLength: 1, maxLength: 8 }), async (given) => {
        const before = await costsOf(given.map(trialOf));
        const after = await costsOf(given.map((one) => trialOf(better(one))));
        for (const [row, cost] of after.entries())
          expect(cost).toBeLessThanOrEqual((before[row] ?? 0) * grain);
      }),
      { numRuns: 60 },
    );
  });

  it.each([false, true])('does not depend on the order of candidates (copies: %j)', async (peer_copies) => {
    const parameters = { ...STATED, peer_copies, peer_gbps: 400 };
    await fc.assert(
      fc.asyncProperty(fc.array(candidate, { minLength: 2, maxLength: 8 }), async (given) => {
        const costs = await costsOf(given.map(trialOf), parameters);
        const reversed = await costsOf(given.map(trialOf).reverse(), parameters);
        expect([...reversed].reverse()).toEqual([...costs]);
      }),
      { numRuns: 60 },
    );
  });
});

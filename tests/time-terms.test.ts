// The terms that decision records show of a cost in time sum to what the host reckoned, whatever it reckoned with and however it chose.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createCandidateTable, createSoloRuntime } from '../src/host/index.ts';
import { type DecisionInput, type DecisionRecord, DecisionRing, NO_METRICS } from '../src/observe/index.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  ManualClock,
  NO_LOG,
  seededRng,
  type TimeCostOptions,
  timeCost,
  type WorkerTiming,
} from '../src/plugin/index.ts';
import { selectionFacts } from './support/selection-facts.ts';

/** Even over its range, unlike doubles, of which nearly all are next to 0. */
const time = (max: number) => fc.nat(1_000_000).map((given) => (given / 1_000_000) * max);
const timingArbitrary: fc.Arbitrary<WorkerTiming> = fc.record({
  prefillTokenMs: time(0.2),
  prefillAttentionMs: time(1e-5),
  prefillPassMs: fc.constant(0),
  decodeMs: time(100),
  decodeFillMs: time(500),
  kvReferenceTokens: fc.constant(1_048_576),
  prefillConfidence: fc.constant(0.5),
  decodeConfidence: fc.constant(0.5),
  prefillObservations: fc.constant(9),
  decodeObservations: fc.constant(9),
  prefillError: fc.constant(0),
  decodeError: fc.constant(0),
});
const maybe = (max: number) => fc.option(time(max), { nil: undefined });
const optionsArbitrary: fc.Arbitrary<TimeCostOptions> = fc.record(
  {
    prefill_weight: time(8),
    interference_weight: time(1),
    decode_weight: time(1),
    waiting_weight: time(8),
    crowding_weight: time(8),
    late_weight: time(8),
    ttft_target_ms: time(5000),
    default_output_tokens: fc.integer({ min: 1, max: 4000 }),
    kv_reference_tokens: fc.constantFrom(1000, 100_000, 1_048_576),
    host_gbps: fc.constantFrom(0.1, 10, 200),
    peer_copies: fc.boolean(),
    peer_weight: fc.constantFrom(0, 1, 3),
    peer_gbps: fc.constantFrom(1, 100, 100_000),
    peer_latency_ms: fc.constantFrom(0, 3),
    timing: fc.record({
      prefill_us_per_token: maybe(200),
      attention_ns_per_pair: maybe(10),
      decode_ms: maybe(100),
      decode_fill_ms: maybe(500),
    }),
  },
  { requiredKeys: ['peer_copies'] },
);
const scene = fc.record({
  rows: fc.integer({ min: 1, max: 40 }),
  seed: fc.nat(),
  options: optionsArbitrary,
  kinds: fc.array(timingArbitrary, { minLength: 1, maxLength: 3 }),
  /** What copies took lately. */
  link: fc.option(fc.constantFrom({ latencyMs: 2, blockMs: 0.5, confidence: 0.8 }), { nil: null }),
  /** Output tokens: of finished answers, and foreseen. */
  answers: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: null }),
  foreseen: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: null }),
  prompt: fc.integer({ min: 1, max: 9000 }),
  /** A filter drops rows; a pin leaves one, and takes the taints away. */
  way: fc.constantFrom('all', 'filtered', 'pinned'),
});
type Scene = typeof scene extends fc.Arbitrary<infer T> ? T : never;

/** Candidates by a seed; `nothing` = nothing is cached or in flight anywhere. */
function candidates({ answers, kinds, link, options, rows, seed }: Scene, nothing: boolean) {
  const table = {
    ...createCandidateTable(rows),
    idWords: new Uint32Array(2 * rows),
    activeDecodeBlocks: new Float64Array(rows),
    additionalBlocks: new Float64Array(rows),
  };
  const rng = seededRng(seed);
  table.count = rows;
  table.hasTierMatches = true;
  table.hasCopies = options.peer_copies === true;
  table.copyLink = link;
  table.averageOutputTokens = answers;
  table.timings = kinds;
  for (let row = 0; row < rows; row += 1) {
    const waiting = rng.integer(2) * rng.integer(5);
    table.workerIds[row] = BigInt(row + 1);
    table.idWords[2 * row] = row + 1;
    table.deviceBlocks[row] = rng.integer(400);
    table.hostBlocks[row] = rng.integer(200);
    table.inFlightBlocks[row] = rng.integer(2) * rng.integer(500);
    table.prefillRequests[row] = waiting;
    table.prefillTokens[row] = waiting * rng.integer(9000);
    table.prefillAttention[row] = waiting * rng.integer(40_000_000);
    table.prefillFrontMs[row] = rng.integer(2000);
    table.decodeRequests[row] = rng.integer(200);
    table.bookedPromptTokens[row] = rng.integer(2_000_000);
    table.cachePressure[row] = rng.next();
    table.preferredTaintMultiplier[row] = 0.4 + rng.next();
    table.timingKind[row] = rng.integer(kinds.length);
    table.sourcePrefixBlocks[row] = rng.integer(600);
    table.copyableBlocks[row] = Math.max(
      0,
      table.sourcePrefixBlocks[row]! - table.deviceBlocks[row]! - table.hostBlocks[row]!,
    );
  }
  if (nothing)
    for (const name of ['deviceBlocks', 'hostBlocks', 'inFlightBlocks', 'copyableBlocks'] as const)
      table[name].fill(0);
  return table;
}

/** What a record says besides. */
const REQUEST: Omit<
  DecisionInput,
  'columns' | 'costs' | 'promptTokens' | 'blocks' | 'row' | 'by' | 'droppedBy' | 'ties'
> = {
  ...{ requestId: 'r', attempt: 1, atMs: 0, arrivedMs: 0, door: 'replay', model: 'm', routingGroup: 'g' },
  ...{ role: 'aggregated', mode: 'kv', policy: { type: 'declared', instance: null, version: '1' } },
  ...{ session: null, policyClass: 'default', blockSize: 16, tokensSource: 'client', estimated: null },
  ...{ headLow: null, headHigh: 0, indexVersion: null, eventAges: [], costWeights: null },
  excluded: { count: 0, workerId: () => 0n, rank: () => 0, reason: () => 'gone' },
  ...{ tracksPrefillTokens: true, randomDraw: null, temperature: 0, attemptId: 1, prefillTokens: 0 },
  ...{ decodeBlocks: 0, predictedTokens: null, predictedHostTokens: 0 },
  ...{ tokenizeMicros: 0, hashMicros: 0, lookupMicros: 0, selectMicros: 0 },
};

/** What the host reckons of the candidates, and the record of the decision. */
async function decided(given: Scene, nothing: boolean): Promise<{ costs: number[]; record: DecisionRecord }> {
  const { foreseen: expectedOutputTokens, options, prompt, way } = given;
  const cost = timeCost(options);
  const keepsOdd = filterWorkers({ inputs: [], keep: ({ workerId }) => workerId % 2n === 1n });
  const definition = defineWorkerSelectionPolicy({
    type: 'declared',
    create: () => ({ cost, filters: way === 'filtered' ? [keepsOdd] : [] }),
  });
  const runtime = await createSoloRuntime({
    ...{ selection: { definition }, partition: { model: 'm', routingGroup: 'g' }, role: 'aggregated' },
    ...{ blockSize: 16, clock: new ManualClock(), seed: 3, log: NO_LOG },
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  const table = candidates(given, nothing);
  const pinnedWorker = way === 'pinned' ? { workerId: 1n, rank: null } : null;
  const pick = runtime.select(table, selectionFacts(prompt, { expectedOutputTokens, pinnedWorker }));
  const ring = new DecisionRing({
    ...{ bytes: 2 ** 20, candidates: 64, startMs: 0, metrics: NO_METRICS },
    hashId: (text) => text,
  });
  const { id } = ring.open({
    ...REQUEST,
    columns: table,
    costs: pick.costs,
    promptTokens: prompt,
    blocks: Math.floor(prompt / 16),
    ...{ row: pick.row, by: pick.by, droppedBy: pick.droppedBy, ties: pick.ties },
    timeCost: runtime.timeCost ?? null,
    timings: runtime.needs.timing ? table.timings : null,
    outputTokens: table.averageOutputTokens ?? expectedOutputTokens,
    copyLink: cost.peerCopies ? table.copyLink : null,
  });
  return { costs: [...pick.costs.subarray(0, table.count)], record: ring.get(id) ?? expect.unreachable() };
}

it('the terms of every candidate sum to its cost, and so does their total', async () => {
  let copied = 0;
  await fc.assert(
    fc.asyncProperty(scene, async (given) => {
      const { costs, record } = await decided(given, false);
      // Rounding of the host is relative to what the row would cost with nothing found on it.
      const whole = (await decided(given, true)).costs;
      expect(record.candidates).toHaveLength(given.rows);
      let compared = 0;
      for (const [row, candidate] of record.candidates.entries()) {
        if (!candidate.eligible) continue;
        const { cost, terms, time_inputs: inputs, time_terms: time } = candidate;
        expect(inputs?.source_prefix_blocks !== undefined).toBe(given.options.peer_copies === true);
        expect(terms).toBeNull();
        const parts = Object.values(time?.parts ?? {});
        const sum = parts.reduce((all, { ms, weight }) => all + ms * weight, 0) * (time?.taint ?? Number.NaN);
        expect(sum).toBe(time?.total);
        for (const { ms, weight } of parts) expect(Math.min(ms, weight)).toBeGreaterThanOrEqual(0);
        // A pinned request leaves the others without a cost.
        if (cost === null) continue;
        compared += 1;
        if (time?.parts.peer_copy !== undefined) copied += 1;
        expect(cost).toBe(costs[row]);
        expect(Math.abs(sum - cost)).toBeLessThanOrEqual(1e-12 * (whole[row] ?? 0));
      }
      expect(compared).toBeGreaterThan(0);
    }),
    { numRuns: 300 },
  );
  expect(copied).toBeGreaterThan(0);
});

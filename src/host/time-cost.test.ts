// Holds the declared cost in time to the formula of its README, written here for one worker at a time on the public contract, and the
// scan to the plain loop.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  DECODE_BEND,
  defineWorkerSelectionPolicy,
  expectedCopyMs,
  filterWorkers,
  ManualClock,
  NO_LOG,
  pickLowestCost,
  scoreEachWorker,
  seededRng,
  TIME_COST_DEFAULTS,
  type TimeCostOptions,
  timeCost,
  type WorkerSelectionPolicyDefinition,
  type WorkerTiming,
} from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { createCostColumns, SCAN_FROM } from './cost-scan.ts';
import { chooseFromTable, chooseSampled } from './row-choice.ts';
import { createSoloRuntime } from './solo-runtime.ts';
import { evaluateTimeCost } from './time-cost.ts';
import { shareBehind } from './time-terms.ts';
import type { CandidateTable, SelectionFacts } from './types.ts';

/** The formula of the README, plainly. */
function plainFormula(options: TimeCostOptions): WorkerSelectionPolicyDefinition {
  const weights = { ...TIME_COST_DEFAULTS, ...options };
  const stated = options.timing ?? {};
  return defineWorkerSelectionPolicy({
    type: 'plain-formula',
    create: ({ rng }) => ({
      scorers: [
        scoreEachWorker({
          inputs: [
            'cache',
            'in-flight-blocks',
            'request-phases',
            'cache-pressure',
            'output-length',
            'timing',
            'preferred-taint',
            'kv-copy-locations',
          ],
          cost(worker, request) {
            const { cache, copies, inFlightBlocks, phases, timing, preferredTaintMultiplier } = worker;
            const { promptTokens, blockSize, expectedOutputTokens } = request;
            const a = (stated.prefill_us_per_token ?? timing.prefillTokenMs * 1e3) / 1e3;
            const b = (stated.attention_ns_per_pair ?? timing.prefillAttentionMs * 1e6) / 1e6;
            const decode = stated.decode_ms ?? timing.decodeMs;
            const fill = stated.decode_fill_ms ?? timing.decodeFillMs;
            const device = cache.hasTierMatches ? cache.deviceBlocks : cache.effectiveOverlapBlocks;
            const prefill = (blocks: number) => {
              const c = Math.min(blockSize * blocks, promptTokens - 1);
              const n = promptTokens - c;
              return n * (a + b * (c + n / 2));
            };
            const held = Math.max(device, inFlightBlocks);
            const sum = a * phases.prefillTokens + b * phases.prefillAttention;
            const queue =
              phases.prefillRequests > 0
                ? Math.max(0, sum - Math.min(phases.prefillFrontMs, sum / phases.prefillRequests))
                : 0;
            const weight =
              weights.prefill_weight +
              weights.interference_weight * phases.decodeRequests +
              weights.waiting_weight * phases.prefillRequests +
              weights.crowding_weight * worker.cachePressure;
            const weighed = (wait: number, computing: number) =>
              wait +
              weight * computing +
              weights.late_weight * Math.max(0, wait + computing - weights.ttft_target_ms);
            let time = weighed(queue, prefill(held));
            const onHost = device + cache.hostBlocks - held;
            if (onHost > 0) {
              const bits = onHost * blockSize * weights.kv_bytes_per_token * 8;
              const read = bits / (weights.host_gbps * 1e6);
              time = Math.min(time, weighed(Math.max(queue, read), prefill(held + onHost)));
            }
            if (options.peer_copies === true && copies.copyableBlocks > 0 && queue === 0) {
              const bits = copies.copyableBlocks * blockSize * weights.kv_bytes_per_token * 8;
              const stated = weights.peer_latency_ms + bits / (weights.peer_gbps * 1e6);
              const copy = expectedCopyMs(copies.link, copies.copyableBlocks, stated);
              const rest = prefill(copies.sourcePrefixBlocks);
              const isFaster = copy < prefill(device + cache.hostBlocks) - rest;
              if (isFaster && copies.sourcePrefixBlocks > held)
                time = Math.min(time, weighed(copy, rest) + (weights.peer_weight - 1) * copy);
            }
            const x = Math.min(1, (phases.promptTokens + promptTokens) / weights.kv_reference_tokens);
            const outputs =
              worker.averageOutputTokens ?? expectedOutputTokens ?? weights.default_output_tokens;
            const decoding = weights.decode_weight * outputs * (decode + fill * x * (1 - DECODE_BEND * x));
            return (time + decoding) * preferredTaintMultiplier;
          },
        }),
      ],
      picker: pickLowestCost(rng),
    }),
  });
}

const declared = (options: TimeCostOptions, keepAll: boolean): WorkerSelectionPolicyDefinition =>
  defineWorkerSelectionPolicy({
    type: 'declared',
    create: () => ({
      cost: timeCost(options),
      // A filter takes the declared cost off the direct path.
      filters: keepAll ? [filterWorkers({ keep: () => true })] : [],
    }),
  });

const runtime = (definition: WorkerSelectionPolicyDefinition) =>
  createSoloRuntime({
    selection: { definition },
    partition: { model: 'm', routingGroup: 'g' },
    role: 'aggregated',
    blockSize: 16,
    clock: new ManualClock(),
    seed: 3,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });

/** A table whose columns the scan reads, and the same columns with costs elsewhere, for the plain loop. */
function tables(rows: number): { readonly scanned: CandidateTable; readonly plain: CandidateTable } {
  const scanned = { ...createCandidateTable(rows), ...createCostColumns(rows), count: rows };
  return { scanned, plain: { ...scanned, costs: new Float64Array(rows), scan: null } };
}

/** 0, or far from where doubles lose digits. */
const time = (max: number) =>
  fc.double({ min: 0, max, noNaN: true }).map((given) => (given < 1e-9 ? 0 : given));
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
    waiting_weight: time(8),
    crowding_weight: fc.oneof(fc.constant(0), time(8)),
    late_weight: time(8),
    ttft_target_ms: time(5000),
    decode_weight: time(1),
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
  { requiredKeys: [] },
);
const scene = fc.record({
  /** Seldom so many that the scan goes over them in parts. */
  rows: fc.oneof(
    { weight: 9, arbitrary: fc.integer({ min: 1, max: 90 }) },
    fc.integer({ min: 120, max: 300 }),
  ),
  seed: fc.nat(),
  /** Few distinct numbers make ties, on the way to the lowest cost and at it. */
  values: fc.constantFrom(1, 2, 5, 1000),
  options: optionsArbitrary,
  kinds: fc.array(timingArbitrary, { minLength: 1, maxLength: 3 }),
  /** Rows of a kind that stand together. */
  together: fc.constantFrom(1, 7, 20, 40),
  tiers: fc.boolean(),
  lower: fc.boolean(),
  taints: fc.boolean(),
  copies: fc.boolean(),
  /** Nobody waits and little is found: where copies count. */
  quiet: fc.boolean(),
  /** Most prompt tokens that are booked on a row, and whether the table says so. */
  booked: fc.constantFrom(900, 90_000, 2_000_000),
  roomy: fc.boolean(),
  link: fc.option(fc.constantFrom({ latencyMs: 2, blockMs: 0.5, confidence: 0.8 }), { nil: null }),
  answers: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: null }),
  foreseen: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: null }),
  prompt: fc.oneof(fc.integer({ min: 1, max: 9000 }), fc.integer({ min: 5000, max: 30_000 })),
  blockSize: fc.constantFrom(1, 16, 24, 64),
});
type Scene = typeof scene extends fc.Arbitrary<infer T> ? T : never;

/** Fills all columns by a seed. */
function filled(given: Scene) {
  const both = tables(given.rows);
  const { scanned: table } = both;
  for (const one of [both.scanned, both.plain]) {
    one.hasTierMatches = given.tiers;
    one.hasLowerTierMatches = given.tiers && given.lower;
    one.hasTaintMultipliers = given.taints;
    one.hasCopies = given.copies;
    one.copyLink = given.link;
    one.averageOutputTokens = given.answers;
    one.timings = given.kinds;
    if (given.roomy) one.mostBookedPromptTokens = given.booked;
  }
  const rng = seededRng(given.seed);
  for (let row = 0; row < table.count; row += 1) {
    const number = (most: number) => Math.floor((rng.integer(given.values) / given.values) * most);
    const waiting = given.quiet && row % 4 > 0 ? 0 : number(5);
    table.workerIds[row] = BigInt(row);
    table.deviceBlocks[row] = number(given.quiet ? 40 : 400);
    table.hostBlocks[row] = table.hasLowerTierMatches ? number(200) : 0;
    table.effectiveOverlapBlocks[row] = table.deviceBlocks[row]! + 0.75 * table.hostBlocks[row]!;
    table.inFlightBlocks[row] = given.quiet && row % 4 > 1 ? 0 : number(500);
    table.prefillRequests[row] = waiting;
    table.prefillBehind[row] = shareBehind(waiting);
    table.prefillTokens[row] = waiting * number(9000);
    table.prefillAttention[row] = waiting * number(40_000_000);
    table.prefillFrontMs[row] = number(2000);
    table.decodeRequests[row] = number(200);
    table.bookedPromptTokens[row] = number(given.booked);
    table.cachePressure[row] = rng.integer(given.values) / given.values;
    table.preferredTaintMultiplier[row] = table.hasTaintMultipliers ? 0.4 + rng.next() : 1;
    const own =
      (given.tiers ? table.deviceBlocks : table.effectiveOverlapBlocks)[row]! + table.hostBlocks[row]!;
    table.sourcePrefixBlocks[row] = given.copies ? number(600) : 0;
    table.copyableBlocks[row] = Math.max(0, table.sourcePrefixBlocks[row]! - own);
    table.timingKind[row] = Math.floor(row / given.together) % given.kinds.length;
  }
  const { blockSize, foreseen: expectedOutputTokens } = given;
  const facts: SelectionFacts = { ...selectionFacts(given.prompt), blockSize, expectedOutputTokens };
  return { ...both, facts };
}

/** The same row costs with nothing found on it: what rounding of the formula is relative to. */
function scale(table: CandidateTable, facts: SelectionFacts, options: TimeCostOptions): Float64Array {
  const nothing = new Float64Array(table.count);
  const bare = { ...table, scan: null, deviceBlocks: nothing, hostBlocks: nothing, inFlightBlocks: nothing };
  const costs = new Float64Array(table.count);
  const bared = { ...bare, effectiveOverlapBlocks: nothing, costs };
  evaluateTimeCost(timeCost(options), true, bared, facts, costs, { row: 0, tied: false });
  return costs;
}

describe('the declared cost in time', () => {
  it('equals the plain formula, directly and through the filtering path, with the same choice', async () => {
    await fc.assert(
      fc.asyncProperty(scene, async (given) => {
        const { scanned, facts } = filled(given);
        const { options } = given;
        const direct = (await runtime(declared(options, false))).select(scanned, facts);
        const filtered = (await runtime(declared(options, true))).select(scanned, facts);
        const formula = (await runtime(plainFormula(options))).select(scanned, facts);
        const whole = scale(scanned, facts, options);
        const costs = [...direct.costs.subarray(0, given.rows)];
        expect([...filtered.costs.subarray(0, given.rows)]).toEqual(costs);
        expect([filtered.row, filtered.ties]).toEqual([direct.row, direct.ties]);
        for (const [row, cost] of costs.entries()) {
          const off = Math.abs(cost - formula.costs[row]!);
          expect(off).toBeLessThanOrEqual(1e-12 * whole[row]!);
        }
        const margin = 1e-12 * (whole[direct.row]! + whole[formula.row]!);
        expect(formula.costs[direct.row]! - formula.costs[formula.row]!).toBeLessThanOrEqual(margin);
        expect(costs[direct.row]).toBe(Math.min(...costs));
        expect(direct.ties).toBe(costs.filter((cost) => cost === costs[direct.row]).length);
      }),
      { numRuns: 200 },
    );
  });

  it('is in the scan, to the last bit, what it is in the plain loop: costs, lowest row and ties', () => {
    fc.assert(
      fc.property(scene, fc.boolean(), (given, taints) => {
        const { scanned, plain, facts } = filled({ ...given, rows: given.rows + SCAN_FROM });
        expect(scanned.scan).not.toBeNull();
        const cost = timeCost(given.options);
        const [found, wanted] = [
          { row: 9, tied: true },
          { row: 8, tied: false },
        ];
        const finite = evaluateTimeCost(cost, taints, scanned, facts, scanned.costs, found);
        expect(evaluateTimeCost(cost, taints, plain, facts, plain.costs, wanted)).toBe(finite);
        expect(scanned.costs.subarray(0, scanned.count)).toEqual(plain.costs);
        expect(found).toEqual(wanted);
      }),
      { numRuns: 1000 },
    );
  });

  it('reckons with the times that learning starts at where nothing is learnt', () => {
    const { scanned, facts } = filled(still);
    scanned.timings = [];
    evaluateTimeCost(timeCost(), true, scanned, facts, scanned.costs, { row: 0, tied: false });
    const start = { prefill_us_per_token: 30.36688, attention_ns_per_pair: 1.6839956 };
    const timing = { ...start, decode_ms: 11.48, decode_fill_ms: 108.02 };
    const costs = new Float64Array(still.rows);
    evaluateTimeCost(timeCost({ timing }), true, scanned, facts, costs, { row: 0, tied: false });
    for (const [row, cost] of costs.entries()) expect(scanned.costs[row]).toBeCloseTo(cost, 8);
  });

  it('asks for what it reads: times only where one is not stated', () => {
    const all = { prefill_us_per_token: 1, attention_ns_per_pair: 1, decode_ms: 1, decode_fill_ms: 0 };
    expect(timeCost({ timing: { ...all, decode_ms: undefined } }).inputs).toContain('timing');
    expect(timeCost({ timing: all }).inputs).toEqual([
      'cache',
      'in-flight-blocks',
      'request-phases',
      'output-length',
      'cache-pressure',
      'preferred-taint',
    ]);
    expect(timeCost({ timing: all, crowding_weight: 0 }).inputs).not.toContain('cache-pressure');
  });

  it('asks who could send blocks only where that counts', () => {
    expect(timeCost({ peer_copies: true }).inputs).toContain('kv-copy-locations');
    expect(timeCost({ peer_copies: false, peer_gbps: 400 })).toMatchObject({
      inputs: timeCost().inputs,
      peerCopies: false,
    });
  });

  it('never costs more for a copy, and less only on rows where nobody waits', () => {
    fc.assert(
      fc.property(scene, (given) => {
        const { plain, facts } = filled({ ...given, copies: true });
        const costsOf = (peer_copies: boolean, peer_gbps: number) => {
          const costs = new Float64Array(plain.count);
          const cost = timeCost({ ...given.options, peer_copies, peer_gbps });
          evaluateTimeCost(cost, true, plain, facts, costs, { row: -1, tied: false });
          return costs;
        };
        const [without, slow, fast] = [costsOf(false, 50), costsOf(true, 50), costsOf(true, 5000)];
        for (let row = 0; row < plain.count; row += 1) {
          expect(slow[row]).toBeLessThanOrEqual(without[row]!);
          expect(fast[row]).toBeLessThanOrEqual(slow[row]! + 1e-12 * without[row]!);
          if (plain.prefillRequests[row]! > 1 && plain.prefillTokens[row]! > 0 && waits(given))
            expect(fast[row]).toBe(without[row]);
        }
      }),
    );
  });

  it('says where a cost is not finite, and never takes a row that is no number for the lowest', () => {
    const { scanned, plain, facts } = filled({ ...still, values: 1000, seed: 5 });
    for (const row of [0, 7, 38, 39]) scanned.prefillFrontMs[row] = Number.NaN;
    scanned.decodeRequests[3] = Number.POSITIVE_INFINITY;
    const [found, wanted] = [
      { row: 9, tied: true },
      { row: 8, tied: false },
    ];
    expect(evaluateTimeCost(timeCost(), true, scanned, facts, scanned.costs, found)).toBe(false);
    expect(evaluateTimeCost(timeCost(), true, plain, facts, plain.costs, wanted)).toBe(false);
    expect(scanned.costs.subarray(0, still.rows)).toEqual(plain.costs);
    expect(found).toEqual(wanted);
    expect(Number.isFinite(scanned.costs[found.row])).toBe(true);
  });

  it('passes over no row beside one that is no number, wherever the two stand in a turn', () => {
    for (let at = 0; at < 64; at += 1) {
      const [none, least] = [16 + (at % 8), 16 + Math.floor(at / 8)];
      if (none === least) continue;
      const { scanned, plain, facts } = filled({ ...still, lower: false, values: 1000 });
      scanned.prefillFrontMs[none] = Number.NaN;
      free(scanned, least);
      const [found, wanted] = [
        { row: 9, tied: true },
        { row: 8, tied: false },
      ];
      evaluateTimeCost(timeCost(), true, scanned, facts, scanned.costs, found);
      evaluateTimeCost(timeCost(), true, plain, facts, plain.costs, wanted);
      expect(wanted.row).toBe(least);
      expect(found).toEqual(wanted);
    }
  });

  it('samples what the plain loop would where the scan kept numbers in the room of weights', () => {
    for (let rows = SCAN_FROM; rows < 160; rows += 1) {
      const { scanned, facts } = filled({ ...still, lower: false, values: 1000, rows, seed: rows });
      const lowest = { row: -1, tied: false };
      evaluateTimeCost(timeCost(), true, scanned, facts, scanned.costs, lowest);
      const room = new Float64Array(2 * rows);
      const byScan = chooseFromTable(scanned, 3, lowest, seededRng(rows), room);
      expect(byScan).toEqual(chooseSampled(scanned.costs, rows, 3, seededRng(rows), room));
    }
  });

  it('samples where a temperature is given', async () => {
    const { scanned, facts } = filled({ ...still, values: 1000 });
    const policy = await runtime(declared({ router_temperature: 3 }, false));
    const picks = Array.from({ length: 40 }, () => policy.select(scanned, facts));
    expect(new Set(picks.map(({ by }) => by))).toEqual(new Set(['sampled']));
    expect(new Set(picks.map(({ row }) => row)).size).toBeGreaterThan(5);
  });

  it.each<[TimeCostOptions, string]>([
    [{ prefill_weight: -1 }, 'prefill_weight must be a number from 0 to 1e9, got -1'],
    [{ decode_weight: Number.NaN }, 'decode_weight must be a number from 0 to 1e9, got NaN'],
    [{ peer_gbps: 0 }, 'peer_gbps must be a number above 0 and at most 1e9, got 0'],
    [{ host_gbps: 0 }, 'host_gbps must be a number above 0 and at most 1e9, got 0'],
    [{ timing: { decode_ms: -5 } }, 'timing.decode_ms must be a number from 0 to 1e9, got -5'],
  ])('refuses %j', (options, message) => {
    expect(() => timeCost(options)).toThrow(`timeCost: ${message}`);
  });
});

/** Makes a row that has nothing to do, and all of the prompt. */
function free(table: CandidateTable, row: number): void {
  table.deviceBlocks[row] = 400;
  table.decodeRequests[row] = 0;
  table.prefillRequests[row] = 0;
  table.prefillBehind[row] = 0;
  table.prefillTokens[row] = 0;
  table.prefillAttention[row] = 0;
  table.prefillFrontMs[row] = 0;
  table.bookedPromptTokens[row] = 0;
  table.cachePressure[row] = 0;
}

/** Whether prompts before a request take time. */
function waits({ kinds, options }: Scene): boolean {
  const stated = options.timing?.prefill_us_per_token;
  return stated === undefined ? kinds.every(({ prefillTokenMs }) => prefillTokenMs > 0) : stated > 0;
}

const still: Scene = {
  rows: 40,
  seed: 1,
  values: 5,
  options: {},
  kinds: [
    {
      prefillTokenMs: 0.01,
      prefillAttentionMs: 1e-6,
      prefillPassMs: 0,
      decodeMs: 5,
      decodeFillMs: 50,
      kvReferenceTokens: 1_048_576,
      prefillConfidence: 1,
      decodeConfidence: 1,
      prefillObservations: 9,
      decodeObservations: 9,
      prefillError: 0,
      decodeError: 0,
    },
  ],
  together: 40,
  tiers: true,
  lower: true,
  taints: false,
  copies: false,
  quiet: false,
  booked: 2_000_000,
  roomy: true,
  link: null,
  answers: null,
  foreseen: null,
  prompt: 2048,
  blockSize: 16,
};

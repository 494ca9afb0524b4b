// Holds the declared cost to the plain formula, written here for one worker at a time on the public contract.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  type LinearCostWeights,
  linearCost,
  ManualClock,
  NO_LOG,
  pickLowestCost,
  type Role,
  scoreWorkers,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { evaluateLinearCost } from './linear-cost.ts';
import { lowestRow } from './row-choice.ts';
import { createSoloRuntime } from './solo-runtime.ts';
import type { CandidateTable } from './types.ts';

type Weights = Required<Omit<LinearCostWeights, 'seed' | 'shared_cache_multiplier' | 'router_temperature'>>;

/** The formula of the README, plainly. */
function plainFormula(weights: Weights, role: Role): WorkerSelectionPolicyDefinition {
  return defineWorkerSelectionPolicy({
    type: 'plain-formula',
    create: ({ rng }) => ({
      scorers: [
        scoreWorkers({
          inputs: ['cache', 'load', 'in-flight-blocks', 'preferred-taint'],
          score({ count, cache, inFlightBlocks, load, preferredTaintMultiplier }, costs, request) {
            const looks = weights.overlap_score_credit > 0;
            let least = Number.POSITIVE_INFINITY;
            for (let row = 0; row < count; row += 1) least = Math.min(least, load.activePrefillTokens[row]!);
            for (let row = 0; row < count; row += 1) {
              const cached = looks ? cache.cachedTokens[row]! : 0;
              const found = (cache.hasTierMatches ? cache.deviceBlocks : cache.effectiveOverlapBlocks)[row]!;
              const device = weights.in_flight_blocks ? Math.max(found, inFlightBlocks[row]!) : found;
              const host = Math.max(0, found + cache.hostBlocks[row]! - device);
              const queuedBlocks = Math.max(0, load.activePrefillTokens[row]! - least) / request.blockSize;
              const decay =
                request.tracksPrefillTokens && weights.overlap_score_credit_decay > 0
                  ? 1 / (1 + (weights.overlap_score_credit_decay * queuedBlocks) / request.requestBlocks)
                  : 1;
              const credit = looks
                ? weights.overlap_score_credit * decay * device +
                  weights.host_cache_hit_weight * host +
                  weights.disk_cache_hit_weight * cache.diskBlocks[row]!
                : 0;
              const requests = weights.decode_active_request_weight * load.activeRequests[row]!;
              let tokens = 0;
              if (request.tracksPrefillTokens && load.available[row] === 1) {
                tokens = load.activePrefillTokens[row]! + Math.max(0, request.promptTokens - cached) + cached;
              } else if (request.tracksPrefillTokens) {
                tokens = request.promptTokens;
              }
              const base =
                role === 'decode' && !request.tracksPrefillTokens && looks
                  ? Math.max(0, load.decodeCostBlocks[row]! - credit) + requests
                  : weights.prefill_load_scale * Math.max(0, tokens / request.blockSize - credit) +
                    load.decodeCostBlocks[row]! +
                    requests;
              costs[row] = base * preferredTaintMultiplier[row]!;
            }
          },
        }),
      ],
      picker: pickLowestCost(rng),
    }),
  });
}

const declared = (weights: Weights, keepAll: boolean): WorkerSelectionPolicyDefinition =>
  defineWorkerSelectionPolicy({
    type: 'declared',
    create: () => ({
      cost: linearCost(weights),
      // A filter takes the declared cost off the direct path.
      filters: keepAll ? [filterWorkers({ keep: () => true })] : [],
    }),
  });

const runtime = (definition: WorkerSelectionPolicyDefinition, role: Role) =>
  createSoloRuntime({
    selection: { definition },
    partition: { model: 'm', routingGroup: 'g' },
    role,
    blockSize: 16,
    clock: new ManualClock(),
    seed: 3,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });

const facts = (promptTokens: number, tracksPrefillTokens: boolean) =>
  selectionFacts(promptTokens, { tracksPrefillTokens });

interface Row {
  readonly device: number;
  readonly host: number;
  readonly disk: number;
  readonly flying: number;
  readonly available: boolean;
  readonly prefill: number;
  readonly decode: number;
  readonly requests: number;
  readonly taint: number;
}

function tableOf(rows: readonly Row[], hasTierMatches: boolean): CandidateTable {
  const table = createCandidateTable(rows.length + 3);
  table.count = rows.length;
  table.hasTierMatches = hasTierMatches;
  table.hasLowerTierMatches = rows.some(({ host, disk }) => host + disk > 0);
  table.hasUnknownLoads = rows.some(({ available }) => !available);
  table.hasTaintMultipliers = rows.some(({ taint }) => taint !== 1);
  for (const [at, row] of rows.entries()) {
    const known = row.available ? 1 : 0;
    table.workerIds[at] = BigInt(at);
    table.deviceBlocks[at] = row.device;
    table.hostBlocks[at] = row.host;
    table.diskBlocks[at] = row.disk;
    table.inFlightBlocks[at] = row.flying;
    table.effectiveOverlapBlocks[at] = row.device + 0.75 * row.host + 0.25 * row.disk;
    table.cachedTokens[at] = Math.round(table.effectiveOverlapBlocks[at]! * 16);
    table.loadAvailable[at] = known;
    table.activePrefillTokens[at] = known * row.prefill;
    table.decodeCostBlocks[at] = known * row.decode;
    table.activeRequests[at] = known * row.requests;
    table.preferredTaintMultiplier[at] = row.taint;
  }
  return table;
}

const blocks = fc.nat({ max: 400 });
const weight = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 4, noNaN: true }));
const rowArbitrary: fc.Arbitrary<Row> = fc.record({
  device: blocks,
  host: blocks,
  disk: blocks,
  flying: blocks,
  available: fc.boolean(),
  prefill: fc.nat({ max: 50_000 }),
  decode: fc.nat({ max: 5000 }),
  requests: fc.nat({ max: 64 }),
  taint: fc.double({ min: 0.37, max: 2.71, noNaN: true }),
});
const weightsArbitrary: fc.Arbitrary<Weights> = fc.record({
  overlap_score_credit: weight,
  overlap_score_credit_decay: weight,
  prefill_load_scale: weight,
  decode_active_request_weight: weight,
  host_cache_hit_weight: weight,
  disk_cache_hit_weight: weight,
  in_flight_blocks: fc.boolean(),
});
const roleArbitrary = fc.constantFrom<Role[]>('aggregated', 'prefill', 'decode');
/** Rows as most fleets have them: loads known, nothing below the device tier, no taints asked for. */
const plainRow = rowArbitrary.map((row): Row => ({ ...row, host: 0, disk: 0, available: true, taint: 1 }));
const scene = fc.record({
  rows: fc.oneof(
    fc.array(rowArbitrary, { minLength: 1, maxLength: 12 }),
    fc.array(plainRow, { minLength: 1, maxLength: 12 }),
  ),
  weights: weightsArbitrary,
  role: roleArbitrary,
  tiers: fc.boolean(),
  prompt: fc.integer({ min: 1, max: 9000 }),
  tracks: fc.boolean(),
});

describe('the declared cost', () => {
  it('equals the plain formula, directly and through the filtering path, with the same choice', async () => {
    await fc.assert(
      fc.asyncProperty(scene, async ({ rows, weights, role, tiers, prompt, tracks }) => {
        const table = tableOf(rows, tiers);
        const request = facts(prompt, tracks);
        const direct = await runtime(declared(weights, false), role);
        const filtered = await runtime(declared(weights, true), role);
        const plain = await runtime(plainFormula(weights, role), role);
        const fused = direct.select(table, request);
        const compacted = filtered.select(table, request);
        const formula = plain.select(table, request);
        expect(fused.costs.subarray(0, rows.length)).toEqual(formula.costs.subarray(0, rows.length));
        expect(compacted.costs.subarray(0, rows.length)).toEqual(formula.costs.subarray(0, rows.length));
        expect(compacted.row).toBe(fused.row);
        expect([compacted.ties, formula.ties]).toEqual([fused.ties, fused.ties]);
        expect(fused.costs[formula.row]).toBe(fused.costs[fused.row]);
      }),
      { numRuns: 200 },
    );
  });

  it('finds the lowest row, and whether anything tied on the way, while it evaluates', () => {
    const few = fc.constantFrom(0, 32);
    const alike = rowArbitrary.map((row): Row => ({ ...row, prefill: 0, requests: 0, taint: 1 }));
    const row = fc
      .record({ device: few, decode: few })
      .chain((equal) => alike.map((any) => ({ ...any, ...equal })));
    const plain = row.map((any): Row => ({ ...any, host: 0, disk: 0, available: true }));
    const rows = fc.oneof(
      fc.array(row, { minLength: 1, maxLength: 8 }),
      fc.array(plain, { minLength: 1, maxLength: 8 }),
    );
    fc.assert(
      fc.property(rows, weightsArbitrary, fc.boolean(), (given, weights, defaults) => {
        const table = tableOf(given, true);
        const costs = new Float64Array(given.length);
        const [found, wanted] = [
          { row: 9, tied: true },
          { row: 8, tied: true },
        ];
        const setting = { decode: false, taints: true };
        const cost = linearCost(defaults ? {} : weights);
        expect(evaluateLinearCost(cost, setting, table, facts(2048, true), costs, found)).toBe(true);
        lowestRow(costs, given.length, wanted);
        expect(found).toEqual(wanted);
      }),
    );
  });

  it('is never negative, grows with load and never grows with what is cached', async () => {
    const change = fc.constantFrom('prefill', 'decode', 'requests', 'device', 'host', 'disk');
    await fc.assert(
      fc.asyncProperty(scene, change, fc.integer({ min: 1, max: 300 }), async (given, field, by) => {
        const { weights, role, tiers, prompt, tracks } = given;
        // Decay compares with the idlest candidate, so the changed one must not be alone in moving that mark.
        const idle: Row = { ...given.rows[0]!, available: true, prefill: 0 };
        const before: Row = { ...given.rows[0]!, available: true };
        const after: Row = { ...before, [field]: before[field] + by };
        const policy = await runtime(declared(weights, false), role);
        const pick = policy.select(tableOf([idle, before, after], tiers), facts(prompt, tracks));
        const [, low, high] = pick.costs;
        expect(Math.min(...pick.costs.subarray(0, 3))).toBeGreaterThanOrEqual(0);
        const cached = ['device', 'host', 'disk'].includes(field);
        // Cached tokens beyond the prompt count as prompt to prefill, so credit below 1 need not make up for them.
        const beyond = (before.device + before.host + before.disk + by) * 16 > prompt;
        if (!cached) expect(high).toBeGreaterThanOrEqual(low! - 1e-9 * low!);
        else if (!beyond) expect(high).toBeLessThanOrEqual(low! + 1e-9 * low!);
      }),
    );
  });

  it('does not depend on the order of the candidates', async () => {
    await fc.assert(
      fc.asyncProperty(scene, async ({ rows, weights, role, tiers, prompt, tracks }) => {
        const policy = await runtime(declared(weights, false), role);
        const forward = [
          ...policy.select(tableOf(rows, tiers), facts(prompt, tracks)).costs.subarray(0, rows.length),
        ];
        const backward = policy.select(tableOf(rows.toReversed(), tiers), facts(prompt, tracks));
        expect([...backward.costs.subarray(0, rows.length)].reverse()).toEqual(forward);
      }),
    );
  });

  it('undoes a taint with its opposite: multipliers of +w and −w are reciprocal', async () => {
    await fc.assert(
      fc.asyncProperty(fc.double({ min: -5, max: 5, noNaN: true }), async (sum) => {
        const row = {
          device: 0,
          host: 0,
          disk: 0,
          flying: 0,
          available: true,
          prefill: 160,
          decode: 3,
          requests: 0,
        };
        const multiplier = (weights: number) => Math.exp(-Math.tanh(weights));
        const policy = await runtime(declared({ ...PLAIN }, false), 'aggregated');
        const taints = [multiplier(sum), multiplier(-sum), multiplier(0)];
        const table = tableOf(
          taints.map((taint) => ({ ...row, taint })),
          true,
        );
        const [plus, minus, none] = policy.select(table, facts(160, true)).costs;
        expect((plus! / none!) * (minus! / none!)).toBeCloseTo(1, 10);
        expect(none).toBe(23);
      }),
    );
  });

  it.each([
    ['overlap_score_credit', -1],
    ['router_temperature', Number.NaN],
    ['prefill_load_scale', Number.POSITIVE_INFINITY],
  ])('refuses %s = %d', (name, value) => {
    expect(() => linearCost({ [name]: value })).toThrow(
      `linearCost: ${name} must be a number from 0 to 1e9, got ${value}`,
    );
  });
});

const PLAIN: Weights = {
  overlap_score_credit: 1,
  overlap_score_credit_decay: 0,
  prefill_load_scale: 1,
  decode_active_request_weight: 0,
  host_cache_hit_weight: 0.75,
  disk_cache_hit_weight: 0.25,
  in_flight_blocks: false,
};

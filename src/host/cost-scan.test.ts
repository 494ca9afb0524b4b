// Holds the WebAssembly scan to the plain loops: the same bits, rows and ties from the same columns and draws.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import { type LinearCostWeights, linearCost, seededRng } from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { createCostColumns, SCAN_FROM } from './cost-scan.ts';
import { evaluateLinearCost } from './linear-cost.ts';
import { chooseFromTable } from './row-choice.ts';
import type { CandidateTable } from './types.ts';

const SETTING = { decode: false, taints: true };

/** A table whose columns the scan reads, and the same columns with costs elsewhere, for the plain loops. */
function tables(rows: number): { readonly scanned: CandidateTable; readonly plain: CandidateTable } {
  const scanned = { ...createCandidateTable(rows), ...createCostColumns(rows), count: rows };
  if (scanned.scan === null) throw new Error('this Node has no WebAssembly SIMD');
  return { scanned, plain: { ...scanned, costs: new Float64Array(rows), scan: null } };
}

/** Fills all columns by a seed; few distinct numbers make ties, on the way to the lowest cost and at it. */
function fill(table: CandidateTable, seed: number, values: number): void {
  const rng = seededRng(seed);
  for (let row = 0; row < table.count; row += 1) {
    const number = (most: number) => Math.floor((rng.integer(values) / values) * most);
    table.deviceBlocks[row] = number(400);
    table.hostBlocks[row] = table.hasLowerTierMatches ? number(90) : 0;
    table.diskBlocks[row] = table.hasLowerTierMatches ? number(70) : 0;
    table.inFlightBlocks[row] = number(500);
    table.effectiveOverlapBlocks[row] = table.deviceBlocks[row]! + 0.75 * table.hostBlocks[row]!;
    table.cachedTokens[row] = Math.round(16 * table.effectiveOverlapBlocks[row]!);
    table.loadAvailable[row] = table.hasUnknownLoads ? rng.integer(2) : 1;
    table.activePrefillTokens[row] = number(50_000);
    table.decodeCostBlocks[row] = number(5000);
    table.activeRequests[row] = number(64);
    table.preferredTaintMultiplier[row] = table.hasTaintMultipliers ? 0.4 + rng.next() : 1;
  }
}

const weight = fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 4, noNaN: true }));
const weights: fc.Arbitrary<LinearCostWeights> = fc.record({
  overlap_score_credit: weight,
  overlap_score_credit_decay: weight,
  prefill_load_scale: weight,
  decode_active_request_weight: weight,
  host_cache_hit_weight: weight,
  disk_cache_hit_weight: weight,
  in_flight_blocks: fc.boolean(),
});
const scene = fc.record({
  rows: fc.integer({ min: SCAN_FROM, max: 90 }),
  seed: fc.nat(),
  values: fc.constantFrom(1, 2, 5, 1000),
  weights,
  tiers: fc.boolean(),
  lower: fc.boolean(),
  unknown: fc.boolean(),
  taints: fc.boolean(),
  prompt: fc.integer({ min: 1, max: 9000 }),
  blockSize: fc.constantFrom(1, 16, 24, 64),
});

function sceneTables({ rows, seed, values, tiers, lower, unknown, taints }: SceneFlags) {
  const both = tables(rows);
  for (const table of [both.scanned, both.plain]) {
    table.hasTierMatches = tiers;
    table.hasLowerTierMatches = lower;
    table.hasUnknownLoads = unknown;
    table.hasTaintMultipliers = taints;
  }
  fill(both.scanned, seed, values);
  return both;
}
type SceneFlags = {
  readonly rows: number;
  readonly seed: number;
  readonly values: number;
  readonly tiers: boolean;
  readonly lower: boolean;
  readonly unknown: boolean;
  readonly taints: boolean;
};

describe('the scan', () => {
  it('gives the costs, the lowest row and the ties of the plain loops', () => {
    fc.assert(
      fc.property(scene, (given) => {
        const { scanned, plain } = sceneTables(given);
        const cost = linearCost(given.weights);
        const facts = { ...selectionFacts(given.prompt), blockSize: given.blockSize };
        const [found, wanted] = [
          { row: 9, tied: true },
          { row: 8, tied: false },
        ];
        const finite = evaluateLinearCost(cost, SETTING, scanned, facts, scanned.costs, found);
        expect(evaluateLinearCost(cost, SETTING, plain, facts, plain.costs, wanted)).toBe(finite);
        expect(scanned.costs.subarray(0, given.rows)).toEqual(plain.costs);
        expect(found).toEqual(wanted);
      }),
      { numRuns: 500 },
    );
  });

  it.each([0, 0.01, 0.7, 3])('chooses the same rows with the same draws at temperature %d', (temperature) => {
    fc.assert(
      fc.property(scene, (given) => {
        const { scanned, plain } = sceneTables(given);
        const cost = linearCost(given.weights);
        const facts = selectionFacts(given.prompt);
        const scratch = new Float64Array(given.rows);
        const choices = [scanned, plain].map((table) => {
          const lowest = { row: -1, tied: false };
          const rng = seededRng(given.seed);
          evaluateLinearCost(cost, SETTING, table, facts, table.costs, lowest);
          const several = Array.from({ length: 5 }, () =>
            chooseFromTable(table, temperature, lowest, rng, scratch),
          );
          return { several, next: rng.next() };
        });
        expect(choices[0]).toEqual(choices[1]);
      }),
    );
  });

  it('is not asked where it says less than the formula: prompts not tracked, cache or taints not counted', () => {
    const { scanned, plain } = tables(32);
    fill(scanned, 5, 1000);
    const cases = [
      [linearCost({ overlap_score_credit: 0 }), SETTING, true],
      [linearCost(), { decode: true, taints: true }, false],
      [linearCost(), { decode: false, taints: false }, true],
    ] as const;
    for (const [cost, setting, tracks] of cases) {
      const facts = selectionFacts(2048, { tracksPrefillTokens: tracks });
      for (const table of [scanned, plain]) {
        evaluateLinearCost(cost, setting, table, facts, table.costs, { row: 0, tied: false });
      }
      expect(scanned.costs).toEqual(plain.costs);
    }
  });

  it('says where a cost is not finite, and where only their sum is not', () => {
    const { scanned } = tables(40);
    const cost = linearCost();
    const evaluate = () =>
      evaluateLinearCost(cost, SETTING, scanned, selectionFacts(16), scanned.costs, { row: 0, tied: false });
    for (const row of [0, 7, 38, 39]) {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
        scanned.decodeCostBlocks[row] = value;
        expect(evaluate()).toBe(false);
      }
      scanned.decodeCostBlocks[row] = 0;
    }
    scanned.decodeCostBlocks.fill(Number.MAX_VALUE);
    expect(evaluate()).toBe(true);
  });

  it('never takes a row that is not a number for the lowest', () => {
    const { scanned, plain } = tables(40);
    fill(scanned, 3, 1000);
    for (let row = 0; row < 40; row += 3) scanned.decodeCostBlocks[row] = Number.NaN;
    const [found, wanted] = [
      { row: 9, tied: true },
      { row: 8, tied: false },
    ];
    evaluateLinearCost(linearCost(), SETTING, scanned, selectionFacts(2048), scanned.costs, found);
    evaluateLinearCost(linearCost(), SETTING, plain, selectionFacts(2048), plain.costs, wanted);
    expect(found).toEqual(wanted);
  });

  it('lies in no memory where there are too few rows for it', () => {
    expect(createCostColumns(SCAN_FROM - 1).scan).toBeNull();
  });
});

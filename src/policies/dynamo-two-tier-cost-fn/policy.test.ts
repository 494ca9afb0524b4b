// Golden vectors computed by hand from the rules in README.md, and a naive oracle of the same rules.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock, seededRng } from '../../plugin/index.ts';
import { testWorkerSelection } from '../../testing/index.ts';
import { dynamoTwoTierCostFn } from './policy.ts';

/** Ten blocks of 16 tokens: five of them are exactly half. */
const TEN_BLOCKS = { promptTokens: 160, blockSize: 16 };

type Worker = readonly [deviceBlocks: number, activeRequests: number];

async function decide(workers: readonly Worker[], parameters: object = {}, trial: object = {}) {
  const candidates = workers.map(([deviceBlocks, activeRequests]) => ({
    cache: { deviceBlocks },
    load: { activeRequests },
  }));
  const options = { parameters, candidates, request: TEN_BLOCKS, ...trial };
  return testWorkerSelection(dynamoTwoTierCostFn, options);
}

const rowOf = async (workers: readonly Worker[], parameters: object = {}) =>
  (await decide(workers, parameters)).decisions[0].row;

describe('the two tiers', () => {
  it('asks for cache and load', async () => {
    const { decisions, needs } = await decide([[0, 0]]);
    expect(decisions[0].by).toBe('policy');
    expect(needs).toMatchObject({ cache: true, load: true, occupancy: false, copies: false });
  });

  it.each<[string, Worker[], number]>([
    [
      'a prefix over the threshold outranks a less loaded worker',
      [
        [0, 0],
        [6, 4],
      ],
      1,
    ],
    [
      'a prefix of exactly the threshold does not',
      [
        [0, 0],
        [5, 4],
      ],
      0,
    ],
    [
      'among the holders of the longest prefix the least loaded is taken',
      [
        [8, 9],
        [8, 3],
        [7, 0],
      ],
      1,
    ],
    [
      'a lopsided load ignores the whole prompt cached',
      [
        [0, 0],
        [10, 33],
      ],
      0,
    ],
    [
      'a spread of exactly the absolute threshold is not lopsided',
      [
        [0, 0],
        [10, 32],
      ],
      1,
    ],
    [
      'nor is one within the relative threshold: 704 = 1.1 × 640',
      [
        [0, 640],
        [10, 704],
      ],
      1,
    ],
    [
      'one request more is',
      [
        [0, 640],
        [10, 705],
      ],
      0,
    ],
    [
      'without a prefix the least loaded is taken',
      [
        [0, 5],
        [3, 4],
        [5, 6],
      ],
      1,
    ],
  ])('%s', async (_, workers, row) => {
    expect(await rowOf(workers)).toBe(row);
  });

  it('moves with its thresholds', async () => {
    expect(
      await rowOf([
        [0, 0],
        [3, 4],
      ]),
    ).toBe(0);
    expect(
      await rowOf(
        [
          [0, 0],
          [3, 4],
        ],
        { cache_threshold: 0.2 },
      ),
    ).toBe(1);
    expect(
      await rowOf(
        [
          [0, 0],
          [10, 40],
        ],
        { balance_abs_threshold: 40 },
      ),
    ).toBe(1);
    expect(
      await rowOf(
        [
          [0, 100],
          [10, 140],
        ],
        { balance_rel_threshold: 1.4 },
      ),
    ).toBe(1);
    expect(
      await rowOf(
        [
          [0, 100],
          [10, 140],
        ],
        { balance_rel_threshold: 1.39 },
      ),
    ).toBe(0);
  });

  it('draws ties evenly, from the seeded generator', async () => {
    const trial = { decisions: 3000, seed: 5 };
    const once = (
      await decide(
        [
          [0, 2],
          [0, 1],
          [0, 1],
          [0, 1],
        ],
        {},
        trial,
      )
    ).decisions.map(({ row }) => row);
    const again = (
      await decide(
        [
          [0, 2],
          [0, 1],
          [0, 1],
          [0, 1],
        ],
        {},
        trial,
      )
    ).decisions.map(({ row }) => row);
    expect(again).toEqual(once);
    expect(once).not.toContain(0);
    // 6 standard deviations of a binomial with p = 1/3 are 155.
    for (const row of [1, 2, 3])
      expect(Math.abs(once.filter((one) => one === row).length - 1000)).toBeLessThan(155);
  });

  it('answers as the rules read, whatever the candidates', async () => {
    const worker = fc.tuple(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 60 }));
    const parameters = fc.record({
      cache_threshold: fc.constantFrom(0, 0.3, 0.5, 1),
      balance_abs_threshold: fc.constantFrom(0, 8, 32),
      balance_rel_threshold: fc.constantFrom(1, 1.1, 2),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(worker, { minLength: 1, maxLength: 9 }),
        parameters,
        async (workers, given) => {
          const { decisions } = await decide(workers, given, { decisions: 8 });
          const allowed = twoTierRows(workers, given);
          for (const { row } of decisions) expect(allowed).toContain(row);
        },
      ),
      { numRuns: 200 },
    );
  });
});

/** Every row the rules allow. */
function twoTierRows(
  workers: readonly Worker[],
  given: { cache_threshold: number; balance_abs_threshold: number; balance_rel_threshold: number },
): number[] {
  const loads = workers.map(([, load]) => load);
  const [min, max] = [Math.min(...loads), Math.max(...loads)];
  const longest = Math.max(...workers.map(([blocks]) => blocks));
  let rows = workers.map((_, row) => row);
  const lopsided = max - min > given.balance_abs_threshold && max > given.balance_rel_threshold * min;
  if (!lopsided && longest / 10 > given.cache_threshold)
    rows = rows.filter((row) => workers[row]?.[0] === longest);
  const least = Math.min(...rows.map((row) => loads[row]!));
  return rows.filter((row) => loads[row] === least);
}

describe('the adaptive form', () => {
  const adaptive = { adaptive: {} };

  it('weighs prefix against load: by hand, 10 of 10 blocks against 0, 40 requests against 0', async () => {
    // imbalance 40/72, pressure 0: w = 0.1 + 0.8/(1 + e^(−10/18)) = 0.6083…; costs 1 − w = 0.3917 and w·40/72 = 0.3380
    expect(
      await rowOf(
        [
          [0, 0],
          [10, 40],
        ],
        adaptive,
      ),
    ).toBe(1);
    // imbalance 60/92: w = 0.7569; costs 0.2431 and 0.4936
    expect(
      await rowOf(
        [
          [0, 0],
          [10, 60],
        ],
        adaptive,
      ),
    ).toBe(0);
    // The same spread over busy workers presses the cap: min 200, max 260, w = 0.1144; costs 0.8856 and 0.0746
    expect(
      await rowOf(
        [
          [0, 200],
          [10, 260],
        ],
        adaptive,
      ),
    ).toBe(1);
  });

  it('counts a prefix longer than the prompt as the whole of it', async () => {
    const { decisions } = await decide(
      [
        [10, 3],
        [25, 3],
      ],
      adaptive,
      { decisions: 40 },
    );
    expect(new Set(decisions.map(({ row }) => row))).toEqual(new Set([0, 1]));
  });

  it('sets the weight anew once per interval only, on the injected clock', () => {
    const clock = new ManualClock();
    const policy = created({ update_interval_ms: 100, load_scale: 32 }, clock);
    // The first decision sets a weight of 0.1 + 0.8/(1 + e^5): load hardly counts.
    expect(
      policy([
        [0, 0],
        [10, 0],
      ]),
    ).toBe(1);
    clock.advanceTo(99);
    expect(
      policy([
        [0, 0],
        [10, 60],
      ]),
    ).toBe(1);
    clock.advanceTo(100);
    expect(
      policy([
        [0, 0],
        [10, 60],
      ]),
    ).toBe(0);
    // And the heavy weight stays for as long, although the loads are even again.
    clock.advanceTo(199);
    expect(
      policy([
        [0, 0],
        [2, 20],
      ]),
    ).toBe(0);
    clock.advanceTo(200);
    expect(
      policy([
        [0, 0],
        [2, 20],
      ]),
    ).toBe(1);
  });

  it('answers as the formula reads, whatever the candidates and however time passes', () => {
    const worker = fc.tuple(fc.integer({ min: 0, max: 14 }), fc.integer({ min: 0, max: 400 }));
    const step = fc.record({
      workers: fc.array(worker, { minLength: 1, maxLength: 8 }),
      waitMs: fc.integer({ min: 0, max: 120 }),
    });
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 1, maxLength: 12 }),
        fc.constantFrom(1, 32, 100),
        (steps, scale) => {
          const clock = new ManualClock();
          const policy = created({ update_interval_ms: 100, load_scale: scale }, clock);
          let weight = Number.NaN;
          let setAt = Number.NEGATIVE_INFINITY;
          for (const { workers, waitMs } of steps) {
            clock.advanceTo(clock.now() + waitMs);
            const loads = workers.map(([, load]) => load);
            const [min, max] = [Math.min(...loads), Math.max(...loads)];
            if (clock.now() - setAt >= 100) {
              const sigma = 1 / (1 + Math.exp(-10 * ((max - min) / (max + scale) - 0.5)));
              weight = 0.1 + sigma * (0.9 - 0.4 * (min / (min + scale)) - 0.1);
              setAt = clock.now();
            }
            const costs = workers.map(([blocks, load]) => {
              const affinity = Math.min(1, blocks / 10);
              return (1 - weight) * (1 - affinity) + (weight * (load - min)) / (scale + max - min);
            });
            expect(costs[policy(workers)]).toBeCloseTo(Math.min(...costs), 12);
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  /** The policy itself, on a clock of the test's. */
  function created(given: { update_interval_ms: number; load_scale: number }, clock: ManualClock) {
    const parameters = {
      cache_threshold: 0.5,
      balance_abs_threshold: 32,
      balance_rel_threshold: 1.1,
      adaptive: given,
    };
    const { picker } = dynamoTwoTierCostFn.create({ parameters, clock, rng: seededRng(1) } as never);
    return (workers: readonly Worker[]): number => {
      const table = {
        count: workers.length,
        cache: { deviceBlocks: Float64Array.from(workers, ([blocks]) => blocks) },
        load: { activeRequests: Float64Array.from(workers, ([, load]) => load) },
      };
      return Number(picker?.pick(table as never, { requestBlocks: 10 } as never));
    };
  }
});

describe('parameters', () => {
  it.each<[object, string]>([
    [{ cache_threshold: 1.1 }, 'cache_threshold: Too big: expected number to be <=1'],
    [{ balance_rel_threshold: 0.9 }, 'balance_rel_threshold: Too small: expected number to be >=1'],
    [{ balance_abs_threshold: -1 }, 'balance_abs_threshold: Too small: expected number to be >=0'],
    [
      { adaptive: { update_interval_ms: 0 } },
      'adaptive.update_interval_ms: Too small: expected number to be >=1',
    ],
    [{ adaptive: { load_scale: 0.5 } }, 'adaptive.load_scale: Too small: expected number to be >=1'],
    [{ adaptive: { load_scal: 2 } }, 'unknown key "load_scal" (did you mean "load_scale"?)'],
    [
      { adaptive: {}, cache_threshold: 0.4 },
      'cache_threshold: adaptive works without thresholds: remove cache_threshold or leave it at 0.5, or remove adaptive',
    ],
  ])('%j are refused', async (parameters, text) => {
    await expect(decide([[0, 0]], parameters)).rejects.toThrow(text);
  });

  it('may be spelled out beside adaptive, and adaptive may be null', async () => {
    expect(
      await rowOf(
        [
          [0, 0],
          [6, 4],
        ],
        { cache_threshold: 0.5, adaptive: { load_scale: 8 } },
      ),
    ).toBe(1);
    expect(
      await rowOf(
        [
          [0, 0],
          [6, 4],
        ],
        { cache_threshold: 0.7, adaptive: null },
      ),
    ).toBe(0);
  });
});

// Figures of the policy lab: ratios of replays that differ in the policy alone, capacity, and whether the aims are met. Pure.
import { BOUND, CORE, conditionOf, LAB_TRACES, USUAL_NIC } from './lab-grid.mjs';
import { geometricMean } from './table-parts.mjs';

/** What is compared, by name. */
const FIGURES = {
  ttft: (run) => run.ttft.mean,
  p99: (run) => run.ttft.p99,
  e2e: (run) => run.e2e,
  resumed: (run) => run.resumed?.mean ?? null,
};

/** Service levels at which capacity is read, ms. */
export const LEVELS = {
  conversation: [
    ['TTFT mean ≤ 1 s', 'ttft', 1000],
    ['TTFT p99 ≤ 6 s', 'p99', 6000],
    ['E2E mean ≤ 20 s', 'e2e', 20_000],
  ],
  synthetic: [
    ['TTFT mean ≤ 1 s', 'ttft', 1000],
    ['TTFT p99 ≤ 6 s', 'p99', 6000],
    ['E2E mean ≤ 5 s', 'e2e', 5000],
  ],
};

/** Policies whose mean TTFT differs by less are not in an order. */
const CLEAR = 0.98;

/** Finished cells, found by condition and policy. */
export class LabResults {
  #runs = new Map();
  /** @type {import('./lab-grid.d.mts').FinishedLabCell[]} */
  finished;

  constructor(finished) {
    this.finished = finished;
    for (const { cell, run } of finished) this.#runs.set(`${cell.policy} ${conditionOf(cell)}`, run);
  }

  /** Null = it was not run. */
  runOf(cell) {
    return this.#runs.get(`${cell.policy} ${conditionOf(cell)}`) ?? null;
  }

  /** Cells with these words, each word one value or a list of values. */
  select(words) {
    return this.finished
      .map(({ cell }) => cell)
      .filter((cell) =>
        Object.entries(words).every(([field, value]) => [value].flat().includes(cell[field])),
      );
  }

  /**
   * Each cell's figure over that of the same condition under another policy, which may change the condition, too: of those that both were
   * run with, none of which is 0.
   */
  ratios(cells, figure, against) {
    const read = FIGURES[figure];
    return cells.flatMap((cell) => {
      const base = { ...cell, ...(typeof against === 'string' ? { policy: against } : against) };
      const [above, below] = [this.runOf(cell), this.runOf(base)];
      const value = above === null || below === null ? null : read(above) / read(below);
      return value !== null && value > 0 && value < Number.POSITIVE_INFINITY ? [{ cell, value }] : [];
    });
  }

  /** Their geometric mean; null = there are none. */
  overall(cells, figure, against) {
    const ratios = this.ratios(cells, figure, against);
    return ratios.length === 0 ? null : meanOf(ratios);
  }

  /** Of sessions: each default's cell and its figure where nothing is evicted and copies take no time, over its own. */
  boundOf(trace, timing) {
    const cells = this.select({ study: 'sessions', trace, timing, policy: 'default' });
    return this.ratios(cells, 'resumed', BOUND).map(({ cell, value }) => ({ cell, value: 1 / value }));
  }

  /** The highest load up to which a level holds at every step; null = at none, undefined = a step on the way was not run. */
  capacity(trace, policy, figure, most) {
    const cells = this.select({
      study: ['main', 'capacity'],
      trace,
      policy,
      timing: '8b',
      workers: 8,
      ratio: 2,
    });
    const first = Math.min(...cells.map(({ seed }) => seed));
    let highest = null;
    for (const load of LAB_TRACES[trace].steps) {
      const cell = cells.find((one) => one.seed === first && one.load === load);
      if (cell === undefined) return undefined;
      const value = FIGURES[figure](this.runOf(cell));
      if (value === null || value > most) break;
      highest = load;
    }
    return highest;
  }

  /** Core policies by their mean TTFT against the default, best first: with a variant and without it, on the same cells. */
  orders(study, plain) {
    const cells = this.select({ study, policy: CORE });
    const both = cells.filter((cell) => this.runOf({ ...cell, ...plain }) !== null);
    const conditions = groupedBy(both, conditionOf);
    const complete = [...conditions.values()].filter((group) => group.length === CORE.length).flat();
    const means = (change) =>
      CORE.map((policy) => {
        const own = complete.filter((cell) => cell.policy === policy).map((cell) => ({ ...cell, ...change }));
        return { policy, ttft: this.overall(own, 'ttft', 'default') };
      }).filter(({ ttft }) => ttft !== null);
    return { conditions: complete.length / CORE.length, without: means(plain), with: means({}) };
  }
}

/** Geometric mean in which each load has the same weight, however many cells of it were run. */
export function meanOf(ratios) {
  const byLoad = groupedBy(ratios, ({ cell }) => cell.load);
  return geometricMean([...byLoad.values()].map((group) => geometricMean(group.map(({ value }) => value))));
}

/** One ratio per cell, the geometric mean over its seeds, with the number of them. */
export function overSeeds(ratios) {
  const cells = groupedBy(ratios, ({ cell }) => JSON.stringify({ ...cell, study: null, seed: null }));
  return [...cells.values()].map((group) => ({
    cell: group[0].cell,
    seeds: group.length,
    value: geometricMean(group.map(({ value }) => value)),
  }));
}

/** Whether policies that are clearly apart stay in their order. */
export function keepsOrder({ with: changed, without }) {
  if (without.length < 2) return null;
  const after = new Map(changed.map(({ policy, ttft }) => [policy, ttft]));
  return without.every((better) =>
    without.every(
      (worse) => better.ttft / worse.ttft >= CLEAR || after.get(better.policy) < after.get(worse.policy),
    ),
  );
}

function groupedBy(cells, keyOf) {
  const groups = new Map();
  for (const cell of cells) groups.set(keyOf(cell), [...(groups.get(keyOf(cell)) ?? []), cell]);
  return groups;
}

const expected = (results, words) => results.select({ policy: 'expected-time', ...words });
const MAIN = { study: 'main', timing: '8b' };

/**
 * What was aimed at, what was measured and which cells miss it. `value` null = it was not measured.
 * @param {LabResults} results
 */
export function labAims(results) {
  const aims = [];
  const overall = (name, cells, figure, against, most) => {
    const ratios = results.ratios(cells, figure, against);
    const value = ratios.length === 0 ? null : meanOf(ratios);
    const misses = ratios.filter((one) => one.value > most);
    aims.push({
      name,
      most,
      value,
      cells: ratios.length,
      met: value === null ? null : value <= most,
      misses,
    });
  };
  const everywhere = (name, ratios, most) => {
    const misses = ratios.filter((one) => one.value > most);
    const value = ratios.length === 0 ? null : Math.max(...ratios.map((one) => one.value));
    aims.push({
      name,
      most,
      value,
      cells: ratios.length,
      met: value === null ? null : value <= most,
      misses,
    });
  };
  const each = [
    ['conversation', 0.72, 0.75],
    ['synthetic', 0.55, 0.55],
  ];
  for (const [trace, ttft, e2e] of each) {
    const cells = expected(results, { ...MAIN, trace });
    overall(`${trace}: mean TTFT / default`, cells, 'ttft', 'default', ttft);
    overall(`${trace}: mean E2E / default`, cells, 'e2e', 'default', e2e);
    const tails = results.ratios(cells, 'p99', 'default');
    everywhere(`${trace}: p99 TTFT / default, every cell`, overSeeds(tails), 1.02);
    everywhere(`${trace}: p99 TTFT / default, every single replay`, tails, 1.02);
    overall(`${trace}: mean TTFT / tuned-cost`, cells, 'ttft', 'tuned-cost', 1);
    overall(`${trace}: mean E2E / tuned-cost`, cells, 'e2e', 'tuned-cost', 0.9);
  }
  for (const [study, name] of [
    ['sessions', 'all sessions'],
    ['held-out', 'all sessions, seeds held out'],
  ]) {
    const sessions = expected(results, { study });
    overall(`${name}: mean TTFT of resumed turns / default`, sessions, 'resumed', 'default', 0.5);
  }
  for (const trace of ['agentic', 'subagent']) {
    for (const timing of ['8b', '70b']) {
      const cells = expected(results, { study: 'sessions', trace, timing });
      overall(`${trace}, ${timing}: mean TTFT of resumed turns / default`, cells, 'resumed', 'default', 0.5);
    }
  }
  for (const { name, shift, cells } of timingShifts(results)) {
    const value = shift === null ? null : Math.abs(shift);
    aims.push({ name, most: 0.08, value, cells, met: value === null ? null : value <= 0.08, misses: [] });
  }
  fetchAims(results, overall, everywhere);
  return aims;
}

/** By how much the ratio of mean TTFT to the default moves when the policy is told wrong times. */
function timingShifts(results) {
  return ['conversation', 'synthetic'].flatMap((trace) =>
    ['slow', 'fast'].map((how) => {
      const wrong = results
        .select({ trace, policy: `expected-time-${how}` })
        .filter((cell) => results.runOf({ ...cell, policy: 'expected-time' }) !== null);
      const right = wrong.map((cell) => ({ ...cell, policy: 'expected-time' }));
      const [moved, still] = [wrong, right].map((cells) => results.overall(cells, 'ttft', 'default'));
      return {
        name: `${trace}: stated times 3 times too ${how === 'slow' ? 'long' : 'short'} move mean TTFT / default by`,
        shift: moved === null || still === null ? null : moved - still,
        cells: wrong.length,
      };
    }),
  );
}

function fetchAims(results, overall, everywhere) {
  const plain = { policy: 'expected-time', nic: USUAL_NIC };
  for (const trace of ['conversation', 'synthetic']) {
    const fetching = (nic) => results.select({ study: 'fetch', policy: 'expected-time-fetch', trace, nic });
    overall(
      `${trace}: with fetch from 12.5 GB/s / without, mean TTFT`,
      fetching([100, 200]),
      'ttft',
      plain,
      0.95,
    );
    everywhere(
      `${trace}: with fetch at 3 GB/s / without, mean TTFT, every cell`,
      overSeeds(results.ratios(fetching(24), 'ttft', plain)),
      1.05,
    );
  }
}

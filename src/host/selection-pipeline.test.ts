import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  type LogFields,
  linearCost,
  PointsmanError,
  pickLowestCost,
  pickWorker,
  scoreEachWorker,
  scoreWorkers,
  type WorkerPicker,
  type WorkerSelectionPolicy,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { type SelectionTrial, type TrialCandidate, testWorkerSelection } from '../testing/index.ts';

type Made = (context: {
  readonly rng: { integer(n: number): number; next(): number };
}) => WorkerSelectionPolicy;

const policy = (create: Made): WorkerSelectionPolicyDefinition =>
  defineWorkerSelectionPolicy({ type: 'mine', create });

const first = pickWorker({ pick: () => 0 });
const byRequests = scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests });
const requests = (...counts: number[]): TrialCandidate[] =>
  counts.map((activeRequests) => ({ load: { activeRequests } }));

async function decide(create: Made, trial: SelectionTrial) {
  return (await testWorkerSelection(policy(create), trial)).decisions[0];
}

async function failure(create: Made, trial: SelectionTrial = { candidates: requests(1, 2) }) {
  try {
    await decide(create, trial);
  } catch (thrown) {
    if (thrown instanceof PointsmanError) return thrown;
    throw thrown;
  }
  throw new Error('the policy did not fail');
}

describe('filters', () => {
  const under = (limit: number, name?: string) =>
    filterWorkers({
      ...(name === undefined ? {} : { name }),
      inputs: ['load'],
      keep: ({ load }) => load.activeRequests < limit,
    });

  it('keep what all keep; the first to drop a candidate is the one on record', async () => {
    const decision = await decide(
      ({ rng }) => ({
        filters: [under(5, 'acme-limit'), under(3)],
        scorers: [byRequests],
        picker: pickLowestCost(rng),
      }),
      { candidates: requests(9, 4, 2, 1) },
    );
    expect(decision).toMatchObject({
      row: 3,
      workerId: 4n,
      costs: [Number.NaN, Number.NaN, 2, 1],
      droppedBy: ['acme-limit', 'filter 2', null, null],
    });
  });

  it('stop at the first that drops a candidate', async () => {
    const asked: string[] = [];
    const filter = (name: string, keeps: (id: bigint) => boolean) =>
      filterWorkers({
        keep({ workerId }) {
          asked.push(`${name}${workerId}`);
          return keeps(workerId);
        },
      });
    await decide(
      () => ({ filters: [filter('a', (id) => id !== 1n), filter('b', () => true)], picker: first }),
      { candidates: [{}, {}] },
    );
    expect(asked).toEqual(['a1', 'a2', 'b2']);
  });

  it('that leave nobody fail the request', async () => {
    const error = await failure(() => ({ filters: [under(0)], picker: first }));
    expect(error.code).toBe('PM_SELECTION_ALL_FILTERED');
    expect(error.message).toBe(
      'the filters of worker-selection policy mine dropped all 2 eligible workers of role aggregated',
    );
    expect(error.status).toBe(503);
  });

  it('must answer true or false', async () => {
    const async = filterWorkers({ keep: (async () => true) as never });
    const error = await failure(() => ({ filters: [async], picker: first }));
    expect(error.code).toBe('PM_PLUGIN_INVALID');
    expect(error.message).toBe(
      'filter 1 of worker-selection policy mine must answer true or false, got a promise',
    );
  });
});

describe('scorers', () => {
  it('are each called once with all survivors and summed', async () => {
    const calls: number[] = [];
    const constant = (value: number) =>
      scoreWorkers({
        score({ count }, costs) {
          calls.push(count);
          expect(costs).toHaveLength(count);
          expect([...costs].every(Number.isNaN)).toBe(true);
          costs.fill(value);
        },
      });
    const decision = await decide(
      () => ({
        filters: [filterWorkers({ keep: ({ workerId }) => workerId !== 2n })],
        scorers: [constant(2), constant(0.5)],
        picker: first,
      }),
      { candidates: [{}, {}, {}] },
    );
    expect(calls).toEqual([2, 2]);
    expect(decision.costs).toEqual([2.5, Number.NaN, 2.5]);
  });

  it.each([
    ['leaves a slot unwritten', Number.NaN, 'left row 1 without a number'],
    ['writes infinity', Number.POSITIVE_INFINITY, 'made the cost of row 1 Infinity'],
  ])('fail the request when one %s', async (_, value, text) => {
    const scorer = scoreWorkers({
      score(_candidates, costs) {
        costs[0] = 1;
        costs[1] = value;
      },
    });
    const error = await failure(() => ({ scorers: [byRequests, scorer], picker: first }));
    expect(error.code).toBe('PM_SELECTION_NON_FINITE_COST');
    expect(error.message).toBe(
      `scorer 2 of worker-selection policy mine ${text}; every cost and every sum must be finite`,
    );
    expect(error.details).toEqual({ policy: 'mine', role: 'aggregated', component: 'scorer 2', row: 1 });
  });

  it('fail the request when finite costs sum to infinity', async () => {
    const huge = scoreWorkers({ score: (_, costs) => void costs.fill(1.7e308) });
    const error = await failure(() => ({ scorers: [huge, huge], picker: first }));
    expect(error.code).toBe('PM_SELECTION_NON_FINITE_COST');
  });

  it('that throw or answer something are blamed only when those before them wrote finite costs', async () => {
    const unwritten = scoreWorkers({ score: () => undefined });
    const throwing = scoreWorkers({
      score() {
        throw new Error('boom');
      },
    });
    const error = await failure(() => ({ scorers: [byRequests, unwritten, throwing], picker: first }));
    expect(error.message).toContain('scorer 2 of worker-selection policy mine left row 0 without a number');
  });

  it('must not be asynchronous', async () => {
    const scorer = scoreWorkers({ score: (async () => Promise.reject(new Error('late'))) as never });
    const error = await failure(() => ({ scorers: [scorer], picker: first }));
    expect(error.message).toBe('scorer 1 of worker-selection policy mine must return nothing, got a promise');
  });

  it('over each worker see the same numbers as scorers over all', async () => {
    const row = fc.record({ deviceBlocks: fc.nat(99), diskBlocks: fc.nat(99), activeRequests: fc.nat(9) });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 20 }), async (rows) => {
        const each = scoreEachWorker({
          inputs: ['cache', 'load', 'occupancy', 'preferred-taint'],
          cost: ({ cache, load, occupancy, preferredTaintMultiplier, rank, workerId }) =>
            cache.deviceBlocks * 2 +
            cache.diskBlocks +
            load.activeRequests * preferredTaintMultiplier +
            occupancy +
            rank * Number(workerId),
        });
        const candidates = rows.map(({ activeRequests, ...cache }, at) => ({
          cache,
          load: { activeRequests },
          occupancy: at,
          preferredTaintMultiplier: 0.5,
          rank: 3,
        }));
        const { costs } = await decide(() => ({ scorers: [each], picker: first }), { candidates });
        expect(costs).toEqual(
          rows.map((r, at) => r.deviceBlocks * 2 + r.diskBlocks + r.activeRequests * 0.5 + at + 3 * (at + 1)),
        );
      }),
    );
  });
});

describe('the picker', () => {
  it('may take any row, whatever it costs', async () => {
    const dearest = pickWorker({
      pick: ({ count, costs }) => (costs[count - 1]! > costs[0]! ? count - 1 : 0),
    });
    const decision = await decide(() => ({ scorers: [byRequests], picker: dearest }), {
      candidates: requests(1, 1, 7),
    });
    expect(decision).toMatchObject({ row: 2, by: 'policy', ties: 2 });
  });

  it.each([[2], [-1], [0.5], [Number.NaN], ['0'], [undefined], [null]])(
    'is refused when it answers %s',
    async (answer) => {
      const error = await failure(() => ({ picker: pickWorker({ pick: () => answer as never }) }));
      expect(error.code).toBe('PM_SELECTION_INVALID_PICK');
      expect(error.message).toMatch(
        /^the picker of worker-selection policy mine must answer a row from 0 to 1, got /,
      );
    },
  );

  it('that takes the lowest cost is not asked where nothing is tied, with the same rows and draws as if it were', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 8 }),
        async (counts) => {
          const asked = (lowest: WorkerPicker) =>
            pickWorker({ pick: (table, request) => Number(lowest.pick(table as never, request)) });
          const trial = { candidates: requests(...counts), decisions: 6 };
          const rows = async (wrap: (lowest: WorkerPicker) => WorkerPicker) =>
            (
              await testWorkerSelection(
                policy(({ rng }) => ({ scorers: [byRequests], picker: wrap(pickLowestCost(rng)) })),
                trial,
              )
            ).decisions.map(({ row, ties }) => ({ row, ties }));
          expect(await rows((lowest) => lowest)).toEqual(await rows(asked));
        },
      ),
    );
  });

  it('made of that one with a pick of its own is asked', async () => {
    const decision = await decide(
      ({ rng }) => ({ scorers: [byRequests], picker: { ...pickLowestCost(rng), pick: () => 0 } }),
      { candidates: requests(5, 1) },
    );
    expect(decision.row).toBe(0);
  });

  it('answers a row among those left by the filters', async () => {
    const decision = await decide(
      () => ({ filters: [filterWorkers({ keep: ({ workerId }) => workerId > 1n })], picker: first }),
      { candidates: [{}, {}, {}] },
    );
    expect(decision.row).toBe(1);
  });
});

describe('a policy that throws', () => {
  const boom = () => {
    throw new Error('boom');
  };
  it.each<[string, WorkerSelectionPolicy]>([
    ['acme', { filters: [filterWorkers({ name: 'acme', keep: boom })], picker: first }],
    ['scorer 1', { scorers: [scoreWorkers({ score: boom })], picker: first }],
    ['scorer 1', { scorers: [scoreEachWorker({ cost: boom })], picker: first }],
    ['the picker', { picker: pickWorker({ pick: boom }) }],
  ])('in %s is named, and what it threw stays the cause', async (component, made) => {
    const error = await failure(() => made);
    expect(error.code).toBe('PM_PLUGIN_THREW');
    expect(error.message).toBe(`${component} of worker-selection policy mine threw for role aggregated`);
    expect(error.details).toEqual({ policy: 'mine', role: 'aggregated', component });
    expect(error.cause).toEqual(new Error('boom'));
  });

  it('leaves nothing behind for the next decision', async () => {
    let calls = 0;
    const moody = filterWorkers({
      keep({ workerId }) {
        calls += 1;
        if (calls === 2) throw new Error('once');
        return workerId === 3n;
      },
    });
    const { SelectionPipeline } = await import('./selection-pipeline.ts');
    const { createCandidateTable } = await import('./candidate-table.ts');
    const lines: LogFields[] = [];
    const log = {
      debug() {},
      info() {},
      warn() {},
      error: (_: string, fields?: LogFields) => lines.push(fields ?? {}),
    };
    const pipeline = new SelectionPipeline({
      policy: 'mine',
      role: 'decode',
      exclusiveAffinity: false,
      filters: [moody],
      scorers: [],
      picker: first,
      cost: null,
      commits: false,
      rng: { next: () => 0, integer: () => 0 },
      log,
    });
    const table = createCandidateTable(3);
    table.count = 3;
    table.workerIds.set([1n, 2n, 3n]);
    const facts = selectionFacts(1);
    expect(() => pipeline.select(table, facts)).toThrow('filter 1 of worker-selection policy mine threw');
    expect(pipeline.select(table, facts)).toMatchObject({
      row: 2,
      droppedBy: ['filter 1', 'filter 1', null],
    });
    expect(lines).toEqual([{ policy: 'mine', role: 'decode', component: 'filter 1', error: 'once' }]);
  });
});

it('nobody eligible is an error before any policy runs', async () => {
  const error = await failure(() => ({ picker: first }), { candidates: [] });
  expect(error.code).toBe('PM_SELECTION_NO_ENDPOINTS');
  expect(error.message).toBe('no worker for role aggregated: none is eligible');
});

it('columns grow with the fleet and shrink with it', async () => {
  const made = await testWorkerSelection(
    policy(() => ({
      filters: [filterWorkers({ keep: ({ workerId }) => workerId % 2n === 0n })],
      cost: linearCost(),
    })),
    { candidates: Array.from({ length: 300 }, (_, at) => ({ load: { decodeCostBlocks: 300 - at } })) },
  );
  expect(made.decisions[0]).toMatchObject({ row: 299, by: 'lowest_cost', ties: 1 });
});

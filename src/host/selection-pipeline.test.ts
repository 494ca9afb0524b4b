import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
  type WorkerSelectionPolicy,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { type SelectionTrial, type TrialCandidate, testWorkerSelection } from '../testing/index.ts';

type Made = (context: {
  readonly rng: { integer(n: number): number; next(): number };
}) => WorkerSelectionPolicy;

const policy = (
  create: Made,
  options: { exclusiveAffinity?: boolean } = {},
): WorkerSelectionPolicyDefinition => defineWorkerSelectionPolicy({ type: 'mine', ...options, create });

const first = pickWorker({ pick: () => 0 });
const byRequests = scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests });
const requests = (...counts: number[]): TrialCandidate[] =>
  counts.map((activeRequests) => ({ load: { activeRequests } }));

async function decide(create: Made, trial: SelectionTrial, options: { exclusiveAffinity?: boolean } = {}) {
  return (await testWorkerSelection(policy(create, options), trial)).decisions[0];
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

describe('what a component sees', () => {
  it('is what it declared and nothing else', async () => {
    const seen: string[][] = [];
    const look = (object: object): boolean => {
      const names: string[] = [];
      for (const name of ['cache', 'load', 'occupancy', 'preferredTaintMultiplier']) {
        if (name in object) names.push(name);
      }
      seen.push(names);
      return true;
    };
    await decide(
      () => ({
        filters: [filterWorkers({ inputs: ['occupancy'], keep: (one) => look(one) })],
        scorers: [
          scoreWorkers({ inputs: ['cache'], score: (all, costs) => void costs.fill(look(all) ? 1 : 2) }),
        ],
        picker: pickWorker({ inputs: ['load'], pick: (table) => (look(table) ? 0 : 1) }),
      }),
      { candidates: [{}] },
    );
    expect(seen).toEqual([['occupancy'], ['cache'], ['load']]);
  });

  it('is a copy: writing to a column changes nothing outside the policy', async () => {
    let calls = 0;
    const vandal = scoreWorkers({
      inputs: ['load'],
      score({ load }, costs) {
        calls += 1;
        if (calls === 1) Reflect.set(load.activeRequests, 0, 99);
        costs.fill(0);
      },
    });
    const result = await testWorkerSelection(
      policy(() => ({ scorers: [vandal, byRequests], picker: first })),
      { candidates: requests(1), decisions: 2 },
    );
    // Seen by the policy's own later component, gone by the next decision over the same table.
    expect(result.decisions.map(({ costs }) => costs[0])).toEqual([99, 1]);
  });

  it('is exactly what the host prepares', async () => {
    const { needs } = await testWorkerSelection(
      policy(() => ({
        filters: [filterWorkers({ inputs: ['occupancy'], keep: () => true })],
        scorers: [byRequests],
        picker: first,
      })),
      { candidates: [{}] },
    );
    expect(Object.entries(needs).filter(([, needed]) => needed)).toEqual([
      ['load', true],
      ['occupancy', true],
    ]);
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
      rng: { next: () => 0, integer: () => 0 },
      log,
    });
    const table = createCandidateTable(3);
    table.count = 3;
    table.workerIds.set([1n, 2n, 3n]);
    const facts = {
      requestId: 'r',
      promptTokens: 1,
      requestBlocks: 1,
      blockSize: 16,
      tracksPrefillTokens: true,
      session: null,
      affinityTarget: null,
      pinnedWorker: null,
      expectedOutputTokens: null,
      priority: 0,
      strictPriority: 0,
      temperatureOverride: null,
    };
    expect(() => pipeline.select(table, facts)).toThrow('filter 1 of worker-selection policy mine threw');
    expect(pipeline.select(table, facts)).toMatchObject({
      row: 2,
      droppedBy: ['filter 1', 'filter 1', null],
    });
    expect(lines).toEqual([{ policy: 'mine', role: 'decode', component: 'filter 1', error: 'once' }]);
  });
});

describe('pins', () => {
  const never = pickWorker({
    pick: () => {
      throw new Error('the picker must not be asked');
    },
  });
  const ranks: TrialCandidate[] = [
    { workerId: 1n, rank: 0, load: { activeRequests: 0 } },
    { workerId: 2n, rank: 0, load: { activeRequests: 5 } },
    { workerId: 2n, rank: 1, load: { activeRequests: 4 } },
    { workerId: 2n, rank: 2, load: { activeRequests: 4 } },
  ];
  const pin = (workerId: bigint, rank: number | null) => ({ pinnedWorker: { workerId, rank } });

  it('decide without the picker', async () => {
    const decision = await decide(() => ({ scorers: [byRequests], picker: never }), {
      candidates: ranks,
      request: pin(2n, 0),
    });
    expect(decision).toMatchObject({ row: 1, by: 'pinned', costs: [Number.NaN, 5, Number.NaN, Number.NaN] });
  });

  it('that leave the rank open take its cheapest rank, the first of equals', async () => {
    const decision = await decide(() => ({ scorers: [byRequests], picker: never }), {
      candidates: ranks,
      request: pin(2n, null),
    });
    expect(decision).toMatchObject({ row: 2, by: 'pinned' });
  });

  it('to a worker that is not eligible fail', async () => {
    const error = await failure(() => ({ picker: first }), { candidates: ranks, request: pin(9n, null) });
    expect(error.code).toBe('PM_SELECTION_NO_ENDPOINTS');
    expect(error.message).toBe(
      'no worker for role aggregated: the pinned worker is not among the eligible ones',
    );
  });

  it('by affinity hold only for policies that are exclusive about it, and only while the target is there', async () => {
    const made: Made = ({ rng }) => ({ scorers: [byRequests], picker: pickLowestCost(rng) });
    const trial = (workerId: bigint) => ({
      candidates: ranks,
      request: { affinityTarget: { workerId, rank: null } },
    });
    expect((await decide(made, trial(2n), { exclusiveAffinity: true })).row).toBe(2);
    expect((await decide(made, trial(2n))).row).toBe(0);
    expect((await decide(made, trial(9n), { exclusiveAffinity: true })).row).toBe(0);
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

describe('what create returns', () => {
  it.each<[string, unknown, string]>([
    [
      'disopse',
      { picker: first, disopse() {} },
      'returned the unknown member "disopse" (did you mean "dispose"?)',
    ],
    ['no picker', {}, 'returned no picker; add picker: pickWorker({...}) or pickLowestCost(rng)'],
    [
      'a cost and a picker',
      { cost: linearCost(), picker: first },
      'returned cost together with scorers or a picker; a declared cost brings its own',
    ],
    ['a promise', Promise.resolve({ picker: first }), 'must return a policy, got a promise'],
    [
      'a bare scorer',
      { scorers: [{ score() {} }], picker: first },
      ': scorers[0] must be made with scoreWorkers or scoreEachWorker',
    ],
    ['a list as filters', { filters: {}, picker: first }, ': filters must be a list, got an object'],
    ['a plain cost', { cost: {} }, ': cost must be made with linearCost'],
  ])('is refused with %s', async (_, made, text) => {
    const error = await failure(() => made as never);
    expect(error.code).toBe('PM_PLUGIN_INVALID');
    expect(error.message).toBe(`create of worker-selection policy mine ${text}`.replace(' :', ':'));
  });

  it('is refused when a component declares an input that does not exist', async () => {
    const scorer = scoreWorkers({ inputs: ['loda'] as never, score: () => undefined });
    const error = await failure(() => ({ scorers: [scorer], picker: first }));
    expect(error.message).toBe(
      'scorers[0] of worker-selection policy mine: unknown input "loda"; known: cache, load, preferred-taint, occupancy (did you mean "load"?)',
    );
  });

  it('may be an instance of a class with fields of its own', async () => {
    class Turns {
      readonly turn = 1;
      readonly picker = pickWorker({ pick: () => this.turn });
    }
    expect((await decide(() => new Turns() as never, { candidates: [{}, {}] })).row).toBe(1);
  });
});

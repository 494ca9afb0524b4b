// A worker-selection policy that gives away arrays it is shown: that decision fails in its name, and the next one has arrays again.
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  linearCost,
  ManualClock,
  NO_LOG,
  pickWorker,
  scoreWorkers,
  WORKER_INPUTS,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { createSoloRuntime } from './solo-runtime.ts';
import type { SelectionFacts } from './types.ts';

const FACTS = selectionFacts(32);

/** Gives away every array that can be reached. */
function giveAll(value: unknown): void {
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteLength } = value;
    if (buffer instanceof ArrayBuffer && byteLength > 0) structuredClone(buffer, { transfer: [buffer] });
  } else if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) giveAll(one);
}

/** Decides over workers of which the third is the least busy. */
async function decider(policy: WorkerSelectionPolicy, workers = 3) {
  const runtime = await createSoloRuntime({
    selection: { definition: defineWorkerSelectionPolicy({ type: 'mine', create: () => policy }) },
    partition: { model: 'm', routingGroup: 'default' },
    role: 'aggregated',
    blockSize: 16,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  const table = createCandidateTable(workers);
  table.count = workers;
  table.hasCopies = true;
  for (let row = 0; row < workers; row += 1) table.workerIds[row] = BigInt(row + 1);
  table.activeRequests.fill(6).set([5, 4, 3]);
  const before = structuredClone(table);
  return (facts: Partial<SelectionFacts> = {}): string => {
    try {
      const { row } = runtime.select(table, { ...FACTS, ...facts });
      return `row ${row}`;
    } catch (thrown) {
      return String(thrown instanceof Error ? thrown.message : thrown);
    } finally {
      expect(table).toEqual(before);
    }
  };
}

const byRequests = scoreWorkers({
  inputs: ['load'],
  score({ count, load }, costs) {
    for (let row = 0; row < count; row += 1) costs[row] = load.activeRequests[row] ?? Number.NaN;
  },
});
const cheapest = pickWorker({
  pick({ count, costs }) {
    const sums = Array.from(costs).slice(0, count);
    return sums.indexOf(Math.min(...sums));
  },
});

const broke = (component: string) =>
  `${component} of worker-selection policy mine must not transfer an array it is shown; send a copy of it`;

/** What comes of four decisions, of which the first and the third are to give something away. */
function inTurn(decide: Awaited<ReturnType<typeof decider>>): readonly string[] {
  const outcomes: string[] = [];
  for (let at = 0; at < 4; at += 1) {
    turn = at;
    outcomes.push(decide());
  }
  return outcomes;
}
let turn = 0;
const isTurn = () => turn % 2 === 0;

describe('a policy that gives away what it is shown fails that decision, and the next is as if it had not', () => {
  it.each<[string, string, (candidates: object, costs: Float64Array) => void]>([
    ['its costs', 'scorer 2', (_, costs) => giveAll(costs)],
    ['columns', 'a scorer', giveAll],
  ])('a scorer: %s', async (_, who, gives) => {
    const scorer = scoreWorkers({
      inputs: WORKER_INPUTS,
      score(candidates, costs) {
        costs.fill(1);
        if (isTurn()) gives(candidates, costs);
      },
    });
    const decide = await decider({ scorers: [byRequests, scorer], picker: cheapest });
    const fault = broke(who);
    expect(inTurn(decide)).toEqual([fault, 'row 2', fault, 'row 2']);
  });

  it('a scorer that throws besides is said to have thrown', async () => {
    const scorer = scoreWorkers({
      score(_, costs) {
        giveAll(costs);
        throw new Error('besides');
      },
    });
    const decide = await decider({ scorers: [byRequests, scorer], picker: cheapest });
    const fault = 'scorer 2 of worker-selection policy mine threw for role aggregated';
    expect(inTurn(decide)).toEqual([fault, fault, fault, fault]);
  });

  it.each<[string, (table: { readonly costs: unknown }) => void]>([
    ['costs', ({ costs }) => giveAll(costs)],
    ['columns', ({ costs: _, ...columns }) => giveAll(columns)],
  ])('a picker: %s', async (_, gives) => {
    const picker = pickWorker({
      inputs: WORKER_INPUTS,
      pick(table) {
        if (isTurn()) gives(table);
        return isTurn() ? 0 : 2;
      },
    });
    const decide = await decider({ scorers: [byRequests], picker });
    const fault = broke('the picker');
    expect(inTurn(decide)).toEqual([fault, 'row 2', fault, 'row 2']);
  });

  it.each([1, 2])('a filter among %i, before a declared cost', async (filters) => {
    const filter = {
      ...filterWorkers({ name: 'given', inputs: WORKER_INPUTS, keep: () => true }),
      keep(candidates: object, row: number) {
        if (isTurn() && row === 0) giveAll(candidates);
        return row > 1;
      },
    };
    const decide = await decider({ filters: Array(filters).fill(filter), cost: linearCost({}) });
    const fault = broke(filters === 1 ? 'given' : 'a filter');
    expect(inTurn(decide)).toEqual([fault, 'row 2', fault, 'row 2']);
  });

  it('a filter, where a pin leaves the picker nothing to do', async () => {
    const filter = {
      ...filterWorkers({ inputs: WORKER_INPUTS, keep: () => true }),
      keep(candidates: object) {
        if (isTurn()) giveAll(candidates);
        return true;
      },
    };
    const decide = await decider({ filters: [filter], scorers: [byRequests], picker: cheapest });
    const pinnedWorker = { workerId: 2n, rank: null };
    const fault = broke('filter 1');
    expect(inTurn(() => decide({ pinnedWorker }))).toEqual([fault, 'row 1', fault, 'row 1']);
  });
});

it('what is given away between two decisions is there again in the next', async () => {
  const kept: unknown[] = [];
  const scorer = scoreWorkers({
    inputs: WORKER_INPUTS,
    score(candidates, costs) {
      costs.fill(0);
      kept.push({ ...candidates }, costs);
    },
  });
  const picker = pickWorker({
    pick(table) {
      kept.push(table.costs);
      return table.count - 1;
    },
  });
  const decide = await decider({ scorers: [byRequests, scorer], picker });
  for (let at = 0; at < 3; at += 1) {
    expect(decide()).toBe('row 2');
    for (const one of kept.splice(0)) giveAll(one);
  }
});

it.each([3, 200])(
  'what is made of the arrays themselves has no part in decisions among %i workers',
  async (workers) => {
    const strip = (value: unknown): void => {
      if (ArrayBuffer.isView(value)) Object.setPrototypeOf(value, null);
      else if (typeof value === 'object' && value !== null)
        for (const one of Object.values(value)) strip(one);
    };
    const scorer = scoreWorkers({
      inputs: WORKER_INPUTS,
      score(candidates, costs) {
        for (let row = 0; row < candidates.count; row += 1) costs[row] = 1;
        strip([candidates, costs]);
      },
    });
    const picker = pickWorker({
      inputs: WORKER_INPUTS,
      pick(table) {
        strip(table);
        return table.count - 1;
      },
    });
    const decide = await decider({ scorers: [byRequests, scorer], picker }, workers);
    const last = `row ${workers - 1}`;
    expect(inTurn(decide)).toEqual([last, last, last, last]);
  },
);

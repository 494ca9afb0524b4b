// What a selection allocates must not grow with the candidates, whatever the policy is made of: counted in bytes of the heap over
// some decisions without a collection. The least of many rounds counts, as code that is not compiled yet boxes every number.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { selectionFacts } from '../../tests/support/selection-facts.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  linearCost,
  linearCostWithCopies,
  ManualClock,
  NO_LOG,
  pickLowestCost,
  pickWorker,
  scoreEachWorker,
  scoreWorkers,
  timeCost,
  type WorkerSelectionPolicy,
} from '../plugin/index.ts';
import { createCandidateTable } from './candidate-table.ts';
import { createSoloRuntime } from './solo-runtime.ts';

setFlagsFromString('--expose-gc');
const collect: (options: { type: 'minor' }) => void = runInNewContext('gc');

type Policy = WorkerSelectionPolicy<'kv-copy'>;

const FEW = 32;
const MANY = 1024;
/** The smallest object, a boxed number, takes this. */
const LEAST_OBJECT_BYTES = 12;
const DECISIONS = 60;
const WARM_UP = 2000;
const MOST_ROUNDS = 100;

const facts = selectionFacts(2048);

function candidates(count: number) {
  const table = createCandidateTable(count);
  table.count = count;
  table.hasCopies = true;
  for (let row = 0; row < count; row += 1) {
    table.workerIds[row] = (1n << 63n) + BigInt(row);
    table.loadAvailable[row] = 1;
    table.activePrefillTokens[row] = 16.5 * row;
    table.decodeCostBlocks[row] = row % 127;
    table.activeRequests[row] = row % 17;
    table.cachedTokens[row] = 64 * (row % 32);
    table.effectiveOverlapBlocks[row] = 4.5 * (row % 32);
    table.copyableBlocks[row] = row % 5;
  }
  return table;
}

/** Bytes of the heap per decision, the least of some rounds; ends early when `enough`. */
async function bytes(create: () => Policy, count: number, enough: number): Promise<number> {
  const runtime = await createSoloRuntime({
    selection: {
      definition: defineWorkerSelectionPolicy({ type: 'mine', commitments: ['kv-copy'], create }),
    },
    partition: { model: 'm', routingGroup: 'default' },
    role: 'aggregated',
    blockSize: 16,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  const table = candidates(count);
  for (let decision = 0; decision < WARM_UP; decision += 1) runtime.select(table, facts);
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < MOST_ROUNDS && least > enough; round += 1) {
    // Room in the young generation, so that no collection falls into the round.
    collect({ type: 'minor' });
    const before = process.memoryUsage().heapUsed;
    for (let decision = 0; decision < DECISIONS; decision += 1) runtime.select(table, facts);
    const grown = (process.memoryUsage().heapUsed - before) / DECISIONS;
    if (grown > 0) least = Math.min(least, grown);
  }
  return least;
}

const inputs = ['cache', 'load'] as const;
const keepAll = filterWorkers({ inputs, keep: ({ load }) => load.activeRequests < 100 });
const keepHalf = filterWorkers({ inputs, keep: ({ load }) => load.activeRequests < 8 });
const batch = scoreWorkers({
  inputs,
  score({ count, cache, load }, costs) {
    for (let row = 0; row < count; row += 1) {
      costs[row] = load.activePrefillTokens[row]! / 16 - cache.effectiveOverlapBlocks[row]! + 0.25;
    }
  },
});
const each = scoreEachWorker({
  inputs,
  cost: ({ cache, load }) => load.activePrefillTokens / 16 - cache.effectiveOverlapBlocks + 0.25,
});
const rng = { next: () => 0.5, integer: () => 0 };

describe('a selection allocates nothing per candidate', () => {
  it.each<[string, () => Policy]>([
    ['a declared cost', () => ({ cost: linearCost() })],
    [
      'a declared cost that credits copies',
      () => ({ cost: linearCostWithCopies({ shared_cache_multiplier: 0.5 }) }),
    ],
    ['a declared cost that samples', () => ({ cost: linearCost({ router_temperature: 0.5 }) })],
    ['a declared cost in time', () => ({ cost: timeCost() })],
    ['a declared cost in time with copies', () => ({ cost: timeCost({ peer_copies: true }) })],
    ['a declared cost behind a filter', () => ({ filters: [keepHalf], cost: linearCost() })],
    ['three batch scorers', () => ({ scorers: [batch, batch, batch], picker: pickLowestCost(rng) })],
    ['a callback per worker', () => ({ scorers: [each], picker: pickLowestCost(rng) })],
    [
      'filters, scorers and a picker',
      () => ({
        filters: [keepAll, keepHalf],
        scorers: [batch, each],
        picker: pickWorker({
          inputs,
          pick: ({ count, load }) => (load.activeRequests[0]! > 0 ? count - 1 : 0),
        }),
      }),
    ],
  ])('with %s', async (_, create) => {
    const few = await bytes(create, FEW, 0);
    const most = few + LEAST_OBJECT_BYTES * (MANY - FEW);
    expect(await bytes(create, MANY, most)).toBeLessThan(most);
  });

  it('and would be caught if it did', async () => {
    const boxes: unknown[] = [];
    const boxing = scoreEachWorker({
      inputs,
      cost({ load }) {
        boxes.length = 0;
        boxes.push({ requests: load.activeRequests });
        return load.activeRequests;
      },
    });
    const create = () => ({ scorers: [boxing], picker: pickLowestCost(rng) });
    const few = await bytes(create, FEW, 0);
    const most = few + LEAST_OBJECT_BYTES * (MANY - FEW);
    expect(await bytes(create, MANY, most)).toBeGreaterThan(most);
  });
});

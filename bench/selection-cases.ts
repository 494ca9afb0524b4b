// The cases of Dynamo's `worker_selection` benchmark over ours: the default cost through the plugin host at two temperatures and two
// decays, the same without the host, and a custom policy with and without a filter.
import { createSoloRuntime } from '../src/host/index.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  type LinearCostWeights,
  linearCost,
  ManualClock,
  NO_LOG,
  pickLowestCost,
  scoreWorkers,
  seededRng,
  type WorkerSelectionPolicyDefinition,
} from '../src/plugin/index.ts';
import { dynamoDefaultCostFn, pointsmanExpectedTime, pointsmanTunedCost } from '../src/policies/index.ts';
import { DefaultChoice, type PlacementTable } from '../src/scheduling/index.ts';
import { BLOCK_SIZE, candidates, FACTS } from './selection-fixture.ts';

/** One case: decides once and answers the row. */
export interface NamedSelection {
  readonly name: string;
  readonly choose: () => number;
  /** Null where it is drawn. */
  readonly expected: number | null;
}

/** The default selection, and without the host around it. */
export async function defaultSelections(workers: number): Promise<NamedSelection[]> {
  const table = candidates(workers);
  const winner = workers === 2 ? 1 : 31;
  const cases: NamedSelection[] = [];
  for (const [group, overlap_score_credit_decay] of [
    ['direct', 0],
    ['filtered_prefill_baseline', 1],
  ] as const) {
    for (const router_temperature of [0, 0.7]) {
      const weights = { overlap_score_credit_decay, router_temperature };
      cases.push({
        name: `default_worker_selection/${group}/temperature_${router_temperature}`,
        choose: await throughHost(dynamoDefaultCostFn, table, weights),
        expected: router_temperature === 0 ? winner : null,
      });
    }
  }
  const direct = new DefaultChoice(linearCost(), seededRng(1));
  cases.push({
    name: 'default_policy_wrapper/direct',
    choose: () => direct.select(table, FACTS, 'prefill').row,
    expected: winner,
  });
  cases.push({
    name: 'default_policy_wrapper/policy',
    choose: await throughHost(dynamoDefaultCostFn, table, {}),
    expected: winner,
  });
  return cases;
}

/** Our own policies beside the default: costs declared on the public contract, as the default is. */
export async function ownSelections(workers: number): Promise<NamedSelection[]> {
  const table = candidates(workers);
  const cases: NamedSelection[] = [];
  for (const definition of [pointsmanExpectedTime, pointsmanTunedCost]) {
    cases.push({ name: definition.type, choose: await throughHost(definition, table), expected: null });
  }
  return cases;
}

/** A policy of somebody else's: the same formula as a scorer over columns. */
export async function customSelections(workers: number): Promise<NamedSelection[]> {
  const table = candidates(workers);
  return [
    {
      name: 'custom_worker_selection/custom_no_filter',
      choose: await throughHost(custom, table),
      expected: 31,
    },
    {
      name: 'custom_worker_selection/custom_keep_all_filter',
      choose: await throughHost(customKeepAll, table),
      expected: 31,
    },
  ];
}

const scorer = scoreWorkers({
  inputs: ['cache', 'load'],
  score({ count, cache, load }, costs, { promptTokens, blockSize }) {
    const { cachedTokens, effectiveOverlapBlocks } = cache;
    const { activePrefillTokens, decodeCostBlocks } = load;
    for (let row = 0; row < count; row += 1) {
      const tokens = activePrefillTokens[row]! + Math.max(promptTokens, cachedTokens[row]!);
      const prefill = Math.max(0, tokens / blockSize - effectiveOverlapBlocks[row]!);
      costs[row] = prefill + decodeCostBlocks[row]!;
    }
    return undefined;
  },
});
const custom = defineWorkerSelectionPolicy({
  type: 'custom-no-filter',
  create: ({ rng }) => ({ scorers: [scorer], picker: pickLowestCost(rng) }),
});
const customKeepAll = defineWorkerSelectionPolicy({
  type: 'custom-keep-all-filter',
  create: ({ rng }) => ({
    filters: [filterWorkers({ keep: () => true })],
    scorers: [scorer],
    picker: pickLowestCost(rng),
  }),
});

async function throughHost(
  definition: WorkerSelectionPolicyDefinition,
  table: PlacementTable,
  parameters?: LinearCostWeights,
): Promise<() => number> {
  const runtime = await createSoloRuntime({
    selection: { definition, parameters },
    partition: { model: 'bench', routingGroup: 'default' },
    role: 'prefill',
    blockSize: BLOCK_SIZE,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  return () => runtime.select(table, FACTS).row;
}

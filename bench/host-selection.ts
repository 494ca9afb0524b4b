// What the public contract costs a selection: the default cost through the host and called directly, three batch scorers and
// per-worker callbacks beside the default cost that the host evaluates as a whole.
import { createSoloRuntime, type SelectionPick } from '../src/host/index.ts';
import {
  defineWorkerSelectionPolicy,
  linearCost,
  ManualClock,
  NO_LOG,
  pickLowestCost,
  scoreEachWorker,
  scoreWorkers,
  seededRng,
  type WorkerSelectionPolicyDefinition,
} from '../src/plugin/index.ts';
import { dynamoDefaultCostFn } from '../src/policies/index.ts';
import { DefaultChoice, type PlacementTable } from '../src/scheduling/index.ts';
import { type Compared, type Comparison, type Contender, compare } from './interleaved.ts';
import { BLOCK_SIZE, candidates, FACTS, PROMPT_TOKENS } from './selection-fixture.ts';

const REQUEST_WEIGHT = 0;
const SLICES: Comparison = { turns: 601, sliceNs: 100_000 };

/** The default cost through the host beside the same cost called directly. */
export async function compareWrapper(workers: number): Promise<readonly Compared[]> {
  const table = candidates(workers);
  const direct = new DefaultChoice(linearCost(), seededRng(1));
  return compareSelections(workers, [
    ['default cost called directly', () => direct.select(table, FACTS, 'prefill')],
    ['default policy wrapper', await throughHost(dynamoDefaultCostFn, table)],
  ]);
}

/** The same formula in three batch scorers, and in a callback per worker. */
export async function compareScorers(workers: number): Promise<readonly Compared[]> {
  const table = candidates(workers, 'heap');
  return compareSelections(workers, [
    ['the default cost in one loop of the host', await throughHost(dynamoDefaultCostFn, table)],
    ['three batch scorers', await throughHost(batchScorers, table)],
    ['per-worker adapter', await throughHost(workerByWorker, table)],
  ]);
}

/** Decides with the default cost through the host. */
export async function chooseAmong(workers: number): Promise<() => void> {
  const choose = await throughHost(dynamoDefaultCostFn, candidates(workers));
  return () => {
    last = choose();
  };
}

const batchScorers = defineWorkerSelectionPolicy({
  type: 'batch-scorers',
  create: ({ rng }) => ({
    scorers: [
      scoreWorkers({
        inputs: ['cache', 'load'],
        score({ count, cache, load }, costs, { promptTokens, blockSize }) {
          const { cachedTokens, effectiveOverlapBlocks } = cache;
          const { activePrefillTokens } = load;
          for (let row = 0; row < count; row += 1) {
            const tokens = activePrefillTokens[row]! + Math.max(promptTokens, cachedTokens[row]!);
            costs[row] = Math.max(0, tokens / blockSize - effectiveOverlapBlocks[row]!);
          }
          return undefined;
        },
      }),
      scoreWorkers({
        inputs: ['load'],
        score({ count, load: { decodeCostBlocks } }, costs) {
          for (let row = 0; row < count; row += 1) costs[row] = decodeCostBlocks[row]!;
          return undefined;
        },
      }),
      scoreWorkers({
        inputs: ['load'],
        score({ count, load: { activeRequests } }, costs) {
          for (let row = 0; row < count; row += 1) costs[row] = REQUEST_WEIGHT * activeRequests[row]!;
          return undefined;
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});

const workerByWorker = defineWorkerSelectionPolicy({
  type: 'worker-by-worker',
  create: ({ rng }) => ({
    scorers: [
      scoreEachWorker({
        inputs: ['cache', 'load'],
        cost({ cache, load }, { promptTokens, blockSize }) {
          const tokens = load.activePrefillTokens + Math.max(promptTokens, cache.cachedTokens);
          const prefill = Math.max(0, tokens / blockSize - cache.effectiveOverlapBlocks);
          return prefill + load.decodeCostBlocks + REQUEST_WEIGHT * load.activeRequests;
        },
      }),
    ],
    picker: pickLowestCost(rng),
  }),
});

async function throughHost(
  definition: WorkerSelectionPolicyDefinition,
  table: PlacementTable,
): Promise<Choose> {
  const runtime = await createSoloRuntime({
    selection: { definition },
    partition: { model: 'bench', routingGroup: 'default' },
    role: 'prefill',
    blockSize: BLOCK_SIZE,
    clock: new ManualClock(),
    seed: 1,
    log: NO_LOG,
    fleet: { workerOfSlot: () => null, slotRank: () => -1 },
  });
  return () => runtime.select(table, FACTS);
}

/** Decides once. */
type Choose = () => SelectionPick;

/** The last choice: every one is kept for a moment, as scheduling does, so that none of its work can be left out. */
let last: SelectionPick | null = null;

function compareSelections(
  workers: number,
  variants: readonly (readonly [name: string, choose: Choose])[],
): readonly Compared[] {
  if (new Set(variants.map(([, choose]) => choose().row)).size !== 1) {
    throw new Error(`the variants disagree among ${workers} workers on ${PROMPT_TOKENS} tokens`);
  }
  const contenders = variants.map(([name, choose]): Contender => {
    return {
      name,
      once: () => {
        last = choose();
      },
    };
  });
  const figures = compare(contenders, SLICES);
  if (last === null) throw new Error('nothing was chosen');
  return figures;
}

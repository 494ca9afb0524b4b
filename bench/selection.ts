// Choosing a worker with the default cost among 2, 32, 1,024 and 10,000 candidates, on the fixture of Dynamo's published
// `default_worker_selection` benchmark. Timed: the pure decision over facts at hand; no hashing, index, queue or booking. Variants
// take turns within a round, so that noise of the machine falls on all of them.
import { type CandidateTable, createSoloRuntime } from '../src/host/index.ts';
import {
  defineWorkerSelectionPolicy,
  filterWorkers,
  linearCost,
  ManualClock,
  NO_LOG,
} from '../src/plugin/index.ts';
import { dynamoDefaultCostFn } from '../src/policies/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { BLOCK_SIZE, candidates, FACTS, PROMPT_TOKENS } from './selection-fixture.ts';

const WORKERS = [2, 32, 1024, 10_000];
const ROUNDS = 61;
const WARM_UP_ROUNDS = 10;
/** Short, so that on a busy machine most samples fit between two interruptions. */
const SAMPLE_NS = 250_000;

const DECLARED = 'declared cost on columns';
const FILTERED = 'declared cost behind a filter that keeps all';
const NAIVE = 'Map of objects, one lookup per fact';

/** Decides once and returns the chosen worker's id. */
type DecideOnce = () => bigint;

interface Variant {
  readonly name: string;
  readonly once: DecideOnce;
  /** Nanoseconds per decision. */
  readonly samples: number[];
}

const benchmark: Benchmark = { name: 'selection', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const rows: BenchRow[] = [];
  for (const workers of WORKERS) {
    const table = candidates(workers);
    const variants = [
      variant(DECLARED, await throughHost(dynamoDefaultCostFn, table)),
      variant(FILTERED, await throughHost(keepAll, table)),
      variant(NAIVE, naive(workers)),
    ];
    const winners = new Set(variants.map(({ once }) => once()));
    if (winners.size !== 1) throw new Error(`the variants disagree among ${workers} workers`);
    measure(variants);
    const naiveNs = median(variants[2]!.samples);
    for (const { name, samples } of variants) {
      const ns = median(samples);
      const compared = name === NAIVE ? null : NAIVE;
      rows.push({
        case: `${workers} workers: ${name}`,
        unit: 'ns/decision',
        value: ns,
        ratio: compared === null ? null : naiveNs / ns,
        against: compared,
      });
    }
  }
  return {
    name: 'selection',
    rows,
    notes: [
      'Fixture: cached tokens (i mod 32) × 64 without tier maps, 16 × i active prefill tokens, i mod 127 decode blocks, prompt 2,048 tokens in blocks of 16, temperature 0. All variants pick the same worker.',
      `"${NAIVE}" keeps overlaps and loads in maps by worker id, as a router without slots would, and builds no columns.`,
      'Filling the columns is outside: scheduling does it while it projects loads, whatever the policy.',
    ],
  };
}

const keepAll = defineWorkerSelectionPolicy({
  type: 'keep-all',
  create: () => ({ filters: [filterWorkers({ keep: () => true })], cost: linearCost() }),
});

async function throughHost(
  definition: typeof dynamoDefaultCostFn,
  table: CandidateTable,
): Promise<DecideOnce> {
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
  return () => table.workerIds[runtime.select(table, FACTS).row]!;
}

/** The same decision as it is written first: facts in maps by worker id, an object per candidate. */
function naive(workers: number): DecideOnce {
  const ids = Array.from({ length: workers }, (_, i) => BigInt(i));
  const overlaps = new Map(ids.map((id, i) => [id, ((i % 32) * 64) / BLOCK_SIZE]));
  const cachedTokens = new Map(ids.map((id, i) => [id, (i % 32) * 64]));
  const loads = new Map(
    ids.map((id, i) => [id, { prefillTokens: 16 * i, decodeBlocks: i % 127, requests: i % 17 }]),
  );
  return () => {
    const costed = ids.map((id) => {
      const cached = cachedTokens.get(id) ?? 0;
      const load = loads.get(id);
      const tokens = load ? load.prefillTokens + Math.max(0, PROMPT_TOKENS - cached) + cached : PROMPT_TOKENS;
      const prefill = Math.max(0, tokens / BLOCK_SIZE - (overlaps.get(id) ?? 0));
      return { id, cost: prefill + (load?.decodeBlocks ?? 0) + 0 * (load?.requests ?? 0) };
    });
    const lowest = costed.reduce((least, { cost }) => Math.min(least, cost), Number.POSITIVE_INFINITY);
    return costed.filter(({ cost }) => cost === lowest)[0]!.id;
  };
}

function variant(name: string, once: DecideOnce): Variant {
  return { name, once, samples: [] };
}

function measure(variants: readonly Variant[]): void {
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    for (const { once, samples } of variants) {
      const sample = timed(once);
      if (round >= WARM_UP_ROUNDS) samples.push(sample);
    }
  }
}

/** Nanoseconds per decision over about {@link SAMPLE_NS}. */
function timed(once: DecideOnce): number {
  let decisions = 0;
  let batch = 1;
  const start = process.hrtime.bigint();
  let elapsed = 0;
  while (elapsed < SAMPLE_NS) {
    for (let at = 0; at < batch; at += 1) once();
    decisions += batch;
    batch *= 2;
    elapsed = Number(process.hrtime.bigint() - start);
  }
  return elapsed / decisions;
}

function median(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN;
}

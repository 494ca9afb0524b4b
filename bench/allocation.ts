// What a whole decision allocates, with its record: bytes of the JavaScript heap and of array buffers, for few and many workers and
// short and long prompts. Nothing may be allocated per worker or per block except the hashes of the prompt, which the booking keeps.
import { seededRng } from '../src/plugin/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { BLOCK, HELD, makeBenchRoad } from './bench-road.ts';

const WORKERS = [32, 1024];
const BLOCKS = [16, 2048];
const PROMPTS = 128;
const WARM_UP = 4000;
const ROUNDS = 21;
/** Few enough that their garbage fits the young generation: no collection falls into a round. */
const PER_ROUND = 60;
/** An object or boxed number per worker or block would take at least this. */
const LEAST_OBJECT_BYTES = 12;

const benchmark: Benchmark = { name: 'allocation', run };
export default benchmark;

interface Growth {
  readonly workers: number;
  readonly blocks: number;
  /** Bytes of the heap per decision. */
  readonly heap: number;
  /** Bytes of array buffers per decision. */
  readonly buffers: number;
}

async function run(): Promise<BenchResult> {
  const collect = globalThis.gc;
  if (collect === undefined) throw new Error('run this with --expose-gc, as scripts/bench.mjs does');
  const growths: Growth[] = [];
  for (const workers of WORKERS) {
    for (const blocks of BLOCKS) growths.push(await measure(workers, blocks, () => collect()));
  }
  const heapOf = (workers: number, blocks: number) =>
    growths.find((growth) => growth.workers === workers && growth.blocks === blocks)?.heap ?? Number.NaN;
  const [few = 0, many = 0] = WORKERS;
  const [short = 0, long = 0] = BLOCKS;
  const perWorker = (heapOf(many, short) - heapOf(few, short)) / (many - few);
  const perBlock = (heapOf(few, long) - heapOf(few, short)) / (long - short);
  const verdict = Math.max(perWorker, perBlock) < LEAST_OBJECT_BYTES ? 'no object' : 'MORE than an object';
  return {
    name: 'allocation',
    rows: growths.flatMap(({ workers, blocks, heap, buffers }): BenchRow[] => {
      const row = (what: string, value: number): BenchRow => ({
        case: `${workers} workers, ${blocks} blocks: ${what}`,
        unit: 'bytes/decision',
        value,
        ratio: null,
        against: null,
      });
      return [row('heap', heap), row('array buffers', buffers)];
    }),
    notes: [
      `Median growth over ${ROUNDS} rounds of ${PER_ROUND} recorded decisions without a collection in between; ${HELD} bookings held, ${PROMPTS} prompts, half of each resident.`,
      `Heap per further worker: ${perWorker.toFixed(2)} bytes; per further block: ${perBlock.toFixed(2)} bytes: ${verdict} per worker or block, as the smallest takes ${LEAST_OBJECT_BYTES}.`,
      'Array buffers: the hashes of the prompt, 16 bytes per block, which its booking keeps. They and the rows of the decision record lie in larger buffers that many decisions share.',
    ],
  };
}

async function measure(workers: number, blocks: number, collect: () => void): Promise<Growth> {
  const rng = seededRng(workers + blocks);
  const prompts = Array.from({ length: PROMPTS }, () =>
    Uint32Array.from({ length: blocks * BLOCK }, () => rng.integer(150_000)),
  );
  const road = await makeBenchRoad({ prompts, workers, resident: blocks / 2, records: true });
  let turn = 0;
  for (let warm = 0; warm < WARM_UP; warm += 1) road.decide(turn++);
  const heaps: number[] = [];
  const buffers: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    collect();
    const before = process.memoryUsage();
    for (let count = 0; count < PER_ROUND; count += 1) road.decide(turn++);
    const after = process.memoryUsage();
    heaps.push((after.heapUsed - before.heapUsed) / PER_ROUND);
    buffers.push((after.arrayBuffers - before.arrayBuffers) / PER_ROUND);
  }
  return { workers, blocks, heap: median(heaps), buffers: median(buffers) };
}

function median(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN;
}

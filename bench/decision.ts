// A whole routing decision, from tokens to a dispatched request and back to an empty booking: 4,096 tokens in blocks of 16, 32
// workers, the default cost, a prefix index with half a million stored blocks. Beside it the part nobody can avoid: hashing the
// prompt with its copies. The road runs as in a router; only the engines are a transport that answers at once.
import { PerformanceObserver } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { type PrefixIndex, ROUTER_SEED, TIERS } from '../src/kv/index.ts';
import { seededRng } from '../src/plugin/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { BLOCK, HELD, hasher, makeBenchRoad } from './bench-road.ts';
import { DECISION, makePrompts } from './decision-prompts.ts';

const { tokens: TOKENS, prompts: PROMPTS, resident: RESIDENT, workers: WORKERS } = DECISION;
const ROUNDS = 41;
const PER_ROUND = 400;
const WARM_UP = 3000;
const AIM = 2.5;
/** Decisions timed one by one, and most times the median that one in a hundred may take. */
const TIMED = 1_000_000;
const TAIL_AIM = 4;

const benchmark: Benchmark = { name: 'decision', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const prompts = makePrompts(seededRng(1));
  const road = { prompts, workers: WORKERS, resident: RESIDENT };
  const recorded = await makeBenchRoad({ ...road, records: true });
  const bare = await makeBenchRoad({ ...road, records: false });
  const watched = await makeBenchRoad({ ...road, records: false, busyThresholds: NEVER_BUSY });
  const variants: readonly {
    readonly name: string;
    readonly once: (turn: number) => void;
    readonly samples: number[];
  }[] = [
    { name: HASHING, once: (turn) => hash(prompts[turn % PROMPTS]!), samples: [] },
    { name: LOOKING_UP, once: (turn) => lookUp(bare.index, prompts[turn % PROMPTS]!), samples: [] },
    { name: DECIDING, once: bare.decide, samples: [] },
    { name: RECORDING, once: recorded.decide, samples: [] },
    { name: WATCHING, once: watched.decide, samples: [] },
  ];
  let turn = 0;
  for (const { once } of variants) for (let warm = 0; warm < WARM_UP; warm += 1) once(turn++);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { once, samples } of variants) {
      const start = process.cpuUsage();
      for (let count = 0; count < PER_ROUND; count += 1) once(turn++);
      const { user, system } = process.cpuUsage(start);
      samples.push((user + system) / PER_ROUND);
    }
  }
  const { tail, quietTail, collections, inCollections, medianMs, waits } = await timeOneByOne(
    bare.decide,
    turn,
  );
  const loop = await timeOneByOne(loopOf(medianMs), 0);
  const floor = median(variants[0]!.samples);
  const rows = variants.map(({ name, samples }): BenchRow => {
    const value = median(samples);
    const against = name === HASHING ? null : name === WATCHING ? DECIDING : HASHING;
    const base = against === DECIDING ? median(variants[2]!.samples) : floor;
    return {
      case: name,
      unit: 'µs',
      value: rounded(value),
      ratio: against === null ? null : rounded(base / value),
      against,
    };
  });
  if (sunk === 1) throw new Error('unreachable in practice');
  const times = median(variants[2]!.samples) / floor;
  return {
    name: 'decision',
    rows,
    notes: [
      `${TOKENS} tokens, blocks of ${BLOCK}, ${WORKERS} workers, ${PROMPTS} prompts, ${PROMPTS * RESIDENT} blocks stored, ${HELD} bookings held; kernel: ${hasher.kind}.`,
      'Microseconds of processor time, garbage collection on all its threads included.',
      'A decision is one call of the road: hash, look up, project loads, choose, book, hint stage without policies, dispatch; and the end of an older request, which frees its booking.',
      `Of ${TIMED.toLocaleString('en-US')} decisions timed one by one the 99th of a hundred takes ${tail.toFixed(2)} times the median, whatever else the machine does included; the aim is at most ${TAIL_AIM}${tail > TAIL_AIM ? ', which this run missed' : ''}.`,
      `Of the slowest hundredth of them ${(100 * inCollections).toFixed(1)} % were decided while garbage was collected, which happened ${collections.toLocaleString('en-US')} times; without all such decisions the 99th takes ${quietTail.toFixed(2)} times the median.`,
      `Meanwhile the thread gave up its core by itself ${waits.toLocaleString('en-US')} times. A loop that takes as long as the median decision, allocates nothing and reads no memory, timed the same way right after, gave it up ${loop.waits.toLocaleString('en-US')} times, and its 99th takes ${loop.tail.toFixed(2)} times its median.`,
      `A whole decision takes ${times.toFixed(2)} times hashing and copying alone; the aim is at most ${AIM}${times > AIM ? ', which this run missed' : ''}.`,
    ],
  };
}

const HASHING = 'hash and copy alone';
const LOOKING_UP = 'hash and look up';
const DECIDING = 'whole decision, no record';
const RECORDING = 'whole decision with record';
const WATCHING = 'whole decision with busy thresholds that nobody reaches';
const NEVER_BUSY = { activeDecodeBlocks: null, activePrefillTokens: 1e12, activePrefillTokensFrac: null };

/** Keeps results alive, so that no work can be left out; shown in no figure. */
let sunk = 0;

function hash(tokens: Uint32Array): void {
  sunk ^= hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED).sequence[0]!;
}

function lookUp(index: PrefixIndex, tokens: Uint32Array): void {
  const { local, sequence } = hasher.hashPrompt(tokens, BLOCK, ROUTER_SEED);
  sunk ^= index.find(local, sequence, TIERS).count;
}

/** Arithmetic that takes about so long, ms: what is slow about it is the machine's. */
function loopOf(milliseconds: number): () => void {
  const spin = (steps: number): void => {
    let mixed = 1;
    for (let step = 0; step < steps; step += 1) mixed = Math.imul(mixed ^ step, 0x9e3779b1);
    sunk ^= mixed;
  };
  const probe = 1e7;
  spin(probe);
  const start = performance.now();
  spin(probe);
  const steps = Math.max(1, Math.round((probe * milliseconds) / (performance.now() - start)));
  return () => spin(steps);
}

/** What single decisions took. */
interface Tail {
  readonly medianMs: number;
  /** Times that the thread waited for another one, or slept. */
  readonly waits: number;
  /** p99 over p50. */
  readonly tail: number;
  /** The same of the decisions that no collection fell into. */
  readonly quietTail: number;
  readonly collections: number;
  /** Of the slowest hundredth, the share that a collection fell into. */
  readonly inCollections: number;
}

/** Wall time of single decisions, without records. */
async function timeOneByOne(decide: (turn: number) => void, firstTurn: number): Promise<Tail> {
  const times = new Float64Array(TIMED);
  const starts = new Float64Array(TIMED);
  const collections: { readonly start: number; readonly end: number }[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      collections.push({ start: startTime, end: startTime + duration });
  });
  observer.observe({ entryTypes: ['gc'] });
  const before = process.resourceUsage().voluntaryContextSwitches;
  for (let at = 0; at < TIMED; at += 1) {
    const start = performance.now();
    decide(firstTurn + at);
    times[at] = performance.now() - start;
    starts[at] = start;
  }
  const waits = process.resourceUsage().voluntaryContextSwitches - before;
  // Collections are told of once the event loop turns.
  await setTimeout(100);
  observer.disconnect();
  collections.sort((a, b) => a.start - b.start);
  const quiet = new Float64Array(TIMED);
  const slow = quantile(Float64Array.from(times).sort(), 0.99);
  let quietOnes = 0;
  let slowInCollections = 0;
  let next = 0;
  for (let at = 0; at < TIMED; at += 1) {
    const start = starts[at]!;
    while (next < collections.length && collections[next]!.end < start) next += 1;
    const isHit = next < collections.length && collections[next]!.start <= start + times[at]!;
    if (!isHit) quiet[quietOnes++] = times[at]!;
    else if (times[at]! >= slow) slowInCollections += 1;
  }
  const sorted = times.sort();
  const quietSorted = quiet.subarray(0, quietOnes).sort();
  return {
    medianMs: quantile(sorted, 0.5),
    waits,
    tail: slow / quantile(sorted, 0.5),
    quietTail: quantile(quietSorted, 0.99) / quantile(quietSorted, 0.5),
    collections: collections.length,
    inCollections: slowInCollections / (TIMED / 100),
  };
}

function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.floor(sorted.length * share)]!;
}

function median(samples: readonly number[]): number {
  return [...samples].sort((a, b) => a - b)[samples.length >> 1]!;
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

// Where the time of building a hint goes: the hint part of selection_core under a sampling profiler, by the files it is spent in, beside
// what no way of writing the stage could leave out: memory of its own for the array of hashes that the policy is given.
import { type Profiler, Session } from 'node:inspector';
import { kvFetch } from '../src/policies/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { makeBenchRoad } from './bench-road.ts';
import { coreParts } from './core-parts.ts';
import { compare } from './interleaved.ts';

const WORKERS = 8;
const BLOCKS = 16;
const TOKENS = Uint32Array.from({ length: 256 }, (_, at) => at + 1);
const SAMPLED = 600_000;
const COUNTED = 1000;
/** Microseconds between samples. */
const EVERY = 100;

/** Parts by what stands in the path of the files they are in; the first that fits. */
const PARTS: readonly { readonly name: string; readonly files: RegExp }[] = [
  { name: 'hashes read from the index', files: /\/kv\// },
  { name: 'source chosen, copy made for the policy', files: /\/(copy-locations|copy-peers|source-choice)\./ },
  { name: 'context of the policy', files: /\/(hint-context|frozen-session)\./ },
  { name: 'policy', files: /\/policies\// },
  { name: 'output judged, payload copied', files: /\/(hint-output|hint-payload|kept-hashes)\./ },
  { name: 'envelope and account', files: /\/hint-draft\./ },
  { name: 'stage', files: /\/hint-stage\./ },
  { name: 'collector', files: /^\(garbage collector\)$/ },
];
const REST = 'rest';

const benchmark: Benchmark = { name: 'hint-profile', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const road = await makeBenchRoad({
    prompts: [TOKENS],
    workers: WORKERS,
    resident: BLOCKS,
    records: false,
    held: 0,
    reserves: true,
    takesHints: true,
    hints: [{ definition: kvFetch }],
    pinnedTo: 2n,
    fetches: BLOCKS,
  });
  const { parts, used } = coreParts(road, TOKENS, 2n);
  const hint = parts.find(({ name }) => name === 'hint');
  if (hint === undefined) throw new Error('no hint is built');
  let kept: BigUint64Array | null = null;
  const memory = () => {
    kept = new BigUint64Array(BLOCKS);
  };
  const [, building, array] = compare(
    [{ name: 'whole', once: road.decide }, hint, { name: 'array', once: memory }],
    { turns: 401, sliceNs: 100_000 },
  );
  const bytes = bytesOf(hint.once);
  const shares = profile(hint.once);
  if (!used() || kept === null) throw new Error('nothing was built');
  const ns = building!.ns;
  const rows = shares.map(({ name, share }): BenchRow => {
    return { case: `hint: ${name}`, unit: '% of it', value: 100 * share, ratio: null, against: null };
  });
  return {
    name: 'hint-profile',
    rows,
    notes: [
      `One kv.fetch with ${BLOCKS} hashes by kv_fetch, in the hint stage alone: ${(ns / 1000).toFixed(2)} µs, ${(100 * building!.times).toFixed(1)} % of a whole walk of selection_core/hints/${WORKERS}, ${bytes} bytes of heap.`,
      `Samples every ${EVERY} µs over ${SAMPLED.toLocaleString('en-US')} hints, by the files they fall into.`,
      `A new BigUint64Array of ${BLOCKS} alone takes ${array!.ns.toFixed(0)} ns: ${((100 * array!.ns) / ns).toFixed(1)} % of building the hint, ${(100 * array!.times).toFixed(1)} % of the whole. The policy is given one.`,
    ],
  };
}

/** Bytes of heap that one call takes, from the growth over calls between collections. */
function bytesOf(once: (turn: number) => void): number {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let turn = 0; turn < COUNTED; turn += 1) once(turn);
  return Math.round((process.memoryUsage().heapUsed - before) / COUNTED);
}

/** Shares of self time, the largest first. */
function profile(once: (turn: number) => void): { name: string; share: number }[] {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.setSamplingInterval', { interval: EVERY });
  session.post('Profiler.start');
  for (let turn = 0; turn < SAMPLED; turn += 1) once(turn);
  let taken: Profiler.Profile | null = null;
  session.post('Profiler.stop', (_, result) => {
    taken = result.profile;
  });
  session.disconnect();
  return sharesOf(taken);
}

function sharesOf(taken: Profiler.Profile | null): { name: string; share: number }[] {
  if (taken === null) throw new Error('the profiler did not answer');
  const { nodes, samples = [], timeDeltas = [] } = taken;
  const partOf = new Map(nodes.map(({ id, callFrame }) => [id, partNamed(callFrame)]));
  const times = new Map<string, number>();
  let total = 0;
  for (const [at, id] of samples.entries()) {
    const part = partOf.get(id) ?? REST;
    const micros = timeDeltas[at] ?? 0;
    times.set(part, (times.get(part) ?? 0) + micros);
    total += micros;
  }
  return [...times]
    .map(([name, micros]) => ({ name, share: micros / total }))
    .sort((a, b) => b.share - a.share);
}

function partNamed({ url, functionName }: { url: string; functionName: string }): string {
  const place = url === '' ? functionName : url;
  return PARTS.find(({ files }) => files.test(place))?.name ?? REST;
}

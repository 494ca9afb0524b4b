// Choosing a worker, on the fixtures and under the names of Dynamo's published `worker_selection` benchmark. Timed: the pure decision
// over facts at hand; no hashing, index, queue or booking. Beside it the same decision over a JavaScript Map of objects and, where a
// Rust compiler is present, over plain arrays in Rust.
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { type Compared, type Comparison, compare } from './interleaved.ts';
import { buildNative, type NativeProgram } from './native-program.ts';
import { customSelections, defaultSelections, ownSelections } from './selection-cases.ts';
import { mapOfObjects } from './selection-map.ts';

const WORKERS = [2, 32, 1024, 10_000];
const SLICES: Comparison = { turns: 201, sliceNs: 100_000 };
/** Runs of the native program among our slices; it takes a median of its own each time. */
const NATIVE_RUNS = 5;
const NATIVE_SAMPLES = 201;

const MAP = 'Map of objects';
const RUST = 'arrays in Rust';
const ARG_MIN = 'default_worker_selection/direct/temperature_0';
const SAMPLED = 'default_worker_selection/direct/temperature_0.7';

/** Most times its baseline's time that the default selection may take, by workers. */
const AGAINST_MAP = new Map([
  [2, 1],
  [32, 1],
  [1024, 0.15],
  [10_000, 0.15],
]);
const AGAINST_RUST = new Map([
  [1024, 1.5],
  [10_000, 1],
]);
const SAMPLED_AIM = 4;
const EXPECTED_TIME = 'pointsman-expected-time';
const TUNED_COST = 'pointsman-tuned-cost';
/** Most times the default's time that `pointsman-expected-time` may take, by workers. */
const EXPECTED_TIME_AIM = new Map([
  [32, 2],
  [1024, 2],
]);

const benchmark: Benchmark = { name: 'selection', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const rows: BenchRow[] = [];
  const verdicts: string[] = [];
  const rust = buildNative('selection-native.rs');
  try {
    for (const workers of WORKERS) await measure(workers, rust, rows, verdicts);
  } finally {
    rust?.remove();
  }
  return {
    name: 'selection',
    rows,
    notes: [
      'Fixture: cached tokens (i mod 32) × 64 without tier maps, 16 × i active prefill tokens, i mod 127 decode blocks, i mod 17 requests, prompt of 2,048 tokens in blocks of 16. `direct` has no credit decay, `filtered_prefill_baseline` decay 1. Every winner is the expected one: worker 1 of 2, worker 31 of more.',
      `"${MAP}": Maps from worker id to its load, its overlap and its cached tokens, gone over without allocating a thing per candidate; ties by reservoir. It keeps no cost per candidate for the record, as ours do.`,
      `"${RUST}": structure of arrays with a mask and reservoir ties, opt-level 3, no target-cpu; keeps no cost per candidate either.`,
      'In this fixture three workers tie for the lowest cost of `pointsman-tuned-cost` from 1,024 on: all costs are then gone over again to draw one, which the others, with one lowest, are spared. `pointsman-expected-time` reads ten columns where the default reads four.',
      'Filling the columns is outside: scheduling does it while it projects loads, whatever the policy.',
      'Wall time in slices of 0.1 ms that take turns; a ratio is the median over all turns.',
      ...verdicts,
      ...(rust === null ? ['rustc is not present: no rows beside Rust.'] : []),
    ],
  };
}

async function measure(
  workers: number,
  rust: NativeProgram | null,
  rows: BenchRow[],
  verdicts: string[],
): Promise<void> {
  const cases = await defaultSelections(workers);
  cases.push(...(await ownSelections(workers)));
  if (workers === 10_000) cases.push(...(await customSelections(workers)));
  for (const { name, choose, expected } of cases) {
    const chosen = choose();
    if (expected !== null && chosen !== expected) throw new Error(`${name}/${workers} chose row ${chosen}`);
  }
  const naive = mapOfObjects(workers);
  if (naive() !== cases[0]!.expected) throw new Error(`${MAP} disagrees among ${workers} workers`);
  const native: number[] = [];
  const timeNative = () => {
    if (rust === null) return;
    const [ns, row] = rust.run([workers, NATIVE_SAMPLES]);
    if (Number(row) !== cases[0]!.expected) throw new Error(`${RUST} disagrees among ${workers} workers`);
    native.push(Number(ns));
  };
  timeNative();
  const contenders = [{ name: MAP, choose: naive }, ...cases].map(({ name, choose }) => ({
    name,
    once: () => {
      kept = choose();
    },
  }));
  const compared = compare(contenders, SLICES);
  for (let run = 1; run < NATIVE_RUNS; run += 1) timeNative();
  if (kept < 0) throw new Error('nothing was chosen');
  rows.push(...compared.map((one, at): BenchRow => rowOf(workers, one, at > 0)));
  const direct = compared.find(({ name }) => name === ARG_MIN)!;
  verdicts.push(judged(`${workers} workers: default selection`, direct.times, MAP, AGAINST_MAP.get(workers)));
  if (native.length > 0) {
    const ns = native.sort((a, b) => a - b)[native.length >> 1]!;
    rows.push({
      case: `${RUST}/${workers}`,
      unit: 'ns/decision',
      value: ns,
      ratio: direct.ns / ns,
      against: ARG_MIN,
    });
    verdicts.push(
      judged(`${workers} workers: default selection`, direct.ns / ns, RUST, AGAINST_RUST.get(workers)),
    );
  }
  for (const [policy, aim] of [
    [EXPECTED_TIME, EXPECTED_TIME_AIM.get(workers)],
    [TUNED_COST, undefined],
  ] as const) {
    const { ns } = compared.find(({ name }) => name === policy)!;
    verdicts.push(judged(`${workers} workers: ${policy}`, ns / direct.ns, ARG_MIN, aim));
  }
  const sampled = compared.find(({ name }) => name === SAMPLED)!;
  verdicts.push(
    judged(`${workers} workers: temperature 0.7`, sampled.ns / direct.ns, 'temperature 0', SAMPLED_AIM),
  );
}

/** The row chosen last, kept so that no work can be left out. */
let kept = -1;

function rowOf(workers: number, { name, ns, times }: Compared, isOurs: boolean): BenchRow {
  return {
    case: `${name}/${workers}`,
    unit: 'ns/decision',
    value: ns,
    ratio: isOurs ? 1 / times : null,
    against: isOurs ? MAP : null,
  };
}

function judged(what: string, times: number, against: string, aim: number | undefined): string {
  const said = `${what} takes ${times.toPrecision(3)} times the time of ${against}`;
  if (aim === undefined) return `${said}.`;
  return `${said}; aim at most ${aim}${times > aim ? ', which this run missed' : ''}.`;
}

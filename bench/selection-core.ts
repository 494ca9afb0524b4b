// The whole core under the name of Dynamo's published `selection_core` benchmark: hash 256 tokens, look them up, project loads, choose
// among 8, 64 and 512 workers, book, build the hint where there is one, hand over, keep a reservation's row, and free the booking. Beside it its parts, each alone.

import { kvFetch } from '../src/policies/index.ts';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { makeBenchRoad } from './bench-road.ts';
import { coreParts } from './core-parts.ts';
import { type Compared, type Comparison, compare } from './interleaved.ts';

const WORKERS = [8, 64, 512];
const SLICES: Comparison = { turns: 401, sliceNs: 100_000 };
const BLOCKS = 16;
const TOKENS = Uint32Array.from({ length: 256 }, (_, at) => at + 1);
/** Most times the sum of its parts that the whole may take, and most of it that building the hint may. */
const PARTS_AIM = 3;
const HINT_AIM = 0.1;
const PARTS = 'the sum of its parts alone';
const WHOLE = 'whole';

const benchmark: Benchmark = { name: 'selection-core', run };
export default benchmark;

async function run(): Promise<BenchResult> {
  const rows: BenchRow[] = [];
  const verdicts: string[] = [];
  for (const hints of [false, true]) {
    for (const workers of WORKERS) await measure(workers, hints, rows, verdicts);
  }
  return {
    name: 'selection-core',
    rows,
    notes: [
      'Tokens 1 to 256 in blocks of 16; a booking ends before the next request comes. `no_hints`: the index is empty. `hints`: worker 1 holds the whole prompt, every request is pinned to worker 2, and every booking was seen to carry one `kv.fetch` with 16 hashes.',
      'The whole is a walk of the road from arrival to the end of the booking, with everything a routed request pays: exchange, dispatch, counters. Parts are the same functions called alone on the same facts. No queue: requests are admitted directly.',
      'Wall time in slices of 0.1 ms that take turns.',
      ...verdicts,
    ],
  };
}

async function measure(workers: number, hints: boolean, rows: BenchRow[], verdicts: string[]): Promise<void> {
  const name = `selection_core/${hints ? 'hints' : 'no_hints'}/${workers}`;
  const options = {
    prompts: [TOKENS],
    workers,
    resident: hints ? BLOCKS : 0,
    records: false,
    held: 0,
    reserves: true,
  };
  const hinted = { takesHints: true, hints: [{ definition: kvFetch }], pinnedTo: 2n, fetches: BLOCKS };
  const road = await makeBenchRoad(hints ? { ...options, ...hinted } : options);
  const { parts, used } = coreParts(road, TOKENS, hints ? 2n : null);
  const compared = compare([{ name: WHOLE, once: road.decide }, ...parts], SLICES);
  if (!used()) throw new Error('the parts did nothing');
  const [whole, ...alone] = compared;
  const sum = alone.reduce((total, { times }) => total + times, 0);
  rows.push(rowOf(name, whole!, sum), ...alone.map((part) => rowOf(`${name}: ${part.name}`, part, null)));
  const times = 1 / sum;
  verdicts.push(
    `${name} takes ${times.toFixed(2)} times ${PARTS}; aim at most ${PARTS_AIM}${times > PARTS_AIM ? ', which this run missed' : ''}. Shares of the whole: ${alone.map((part) => `${part.name} ${percent(part.times)}`).join(', ')}.`,
  );
  const hint = alone.find((part) => part.name === 'hint');
  if (hint === undefined) return;
  verdicts.push(
    `${name}: building the hint is ${percent(hint.times)} of the whole; aim at most ${percent(HINT_AIM)}${hint.times > HINT_AIM ? ', which this run missed' : ''}.`,
  );
}

function rowOf(name: string, { ns }: Compared, ratio: number | null): BenchRow {
  return { case: name, unit: 'µs', value: ns / 1000, ratio, against: ratio === null ? null : PARTS };
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

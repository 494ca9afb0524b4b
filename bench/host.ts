// What being pluggable costs: the default policy behind the public contract, policies made of scorers, and the hint stage where
// nothing is hinted. Each comparison runs in several processes; the median of their ratios stands.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Benchmark, BenchResult, BenchRow } from './bench-result.ts';
import { COMPARISONS } from './host-pass.ts';
import type { Compared } from './interleaved.ts';

const PASSES = 3;

/** Most times its baseline's time that a variant may take, by its name in the comparisons. */
const AIMS: ReadonlyMap<string, number> = new Map([
  ['default policy wrapper', 1.05],
  ['three batch scorers', 2.5],
  ['per-worker adapter', 8],
  ['selection', 1.02],
  ['select + book + free', 1.02],
  ['with a hint policy that answers nothing', 1.03],
  ['with a classifier that overrides nothing', 1.03],
]);

const benchmark: Benchmark = { name: 'host', run };
export default benchmark;

function run(): BenchResult {
  const passes = Array.from({ length: PASSES }, () =>
    Object.keys(COMPARISONS).map((name) => ({ name, compared: inProcess(name) })),
  );
  const rows: BenchRow[] = [];
  const verdicts: string[] = [];
  for (const [at, { name, compared }] of passes[0]!.entries()) {
    for (const [row, { name: variant }] of compared.entries()) {
      const seen = passes.map((pass) => pass[at]!.compared[row]!);
      const times = sorted(seen.map((one) => one.times));
      const middle = times[times.length >> 1]!;
      rows.push({
        case: `${name}: ${variant}`,
        unit: 'ns',
        value: sorted(seen.map(({ ns }) => ns))[seen.length >> 1]!,
        ratio: row === 0 ? null : Number((1 / middle).toPrecision(3)),
        against: row === 0 ? null : compared[0]!.name,
      });
      if (row > 0) verdicts.push(verdict(name, variant, times, seen));
    }
  }
  return {
    name: 'host',
    rows,
    notes: [
      'Selections: the fixture of the selection table, its choice kept. Directly: the same cost without a policy, as scheduling falls back on it. Scorers: the same formula in three, or in a callback per worker, with `pickLowestCost`, beside the plain loop; the selection table has them beside the scan.',
      'Wall time in slices of 0.1 to 0.15 ms, so that collections of garbage fall into few of them; what is allocated is counted in the allocation table.',
      'Select + book + free: a walk of the road with 256 tokens among 8 workers, hash and look-up included, no record; whole decision: 4,096 tokens among 32 workers that take hints.',
      'Copies: whole decisions over 4,096 tokens, of which every other worker holds an eighth and one worker three quarters.',
      'Compiled out: a copy of the build with the call of the hint stage replaced; the same build once more shows what the comparison itself cannot tell apart.',
      `Times the baseline takes in the same turn, median of ${PASSES} processes (least–most of them; quartiles of all turns):`,
      ...verdicts,
    ],
  };
}

function inProcess(name: string): readonly Compared[] {
  const script = fileURLToPath(new URL('host-pass.js', import.meta.url));
  const figures: readonly Compared[] = JSON.parse(
    execFileSync(process.execPath, [script, name], { encoding: 'utf8' }),
  );
  return figures;
}

function verdict(name: string, variant: string, times: readonly number[], seen: readonly Compared[]): string {
  const middle = times[times.length >> 1]!;
  const aim = AIMS.get(variant);
  const judged =
    aim === undefined ? '' : `; aim at most ${aim}${middle > aim ? ', which this run missed' : ''}`;
  const low = Math.min(...seen.map((one) => one.low));
  const high = Math.max(...seen.map((one) => one.high));
  return `${name}: ${variant} ${middle.toFixed(3)} (${times[0]!.toFixed(3)}–${times.at(-1)!.toFixed(3)}; ${low.toFixed(2)}–${high.toFixed(2)})${judged}.`;
}

function sorted(values: readonly number[]): readonly number[] {
  return values.toSorted((a, b) => a - b);
}

// Long random lives of the prefix index beside the radix model, and hours of churn under a cap, for `npm run soak -- --index`. No
// benchmark: it measures nothing.
import { createBlockHasher, createPrefixIndex, u64ToBigInt } from '../src/kv/index.ts';
import { type ChurnState, churn } from '../src/kv/residency/index-churn.fixtures.ts';
import { type IndexLifeOptions, leadIndexLife } from '../src/kv/residency/random-index-ops.fixtures.ts';

/** Kinds of lives, in turn: few and many owners, shallow and deep chains, with caps and without. */
const KINDS = [
  { owners: 3, depth: 12, countStores: true, inPieces: true, caps: {} },
  { owners: 3, depth: 12, countStores: true, inPieces: true, caps: { maxHoldings: 90 } },
  { owners: 12, depth: 30, countStores: false, inPieces: true, caps: {} },
  { owners: 12, depth: 30, countStores: true, inPieces: false, caps: { maxBytes: 160_000 } },
  { owners: 70, depth: 24, countStores: true, inPieces: false, caps: {} },
  { owners: 70, depth: 24, countStores: false, inPieces: true, caps: { maxHoldings: 700 } },
  { owners: 70, depth: 150, countStores: false, inPieces: true, caps: {} },
  { owners: 70, depth: 150, countStores: true, inPieces: true, caps: { maxBytes: 500_000 } },
] as const;
/** Operations of one life: then a new one begins, of another kind and seed. */
const LIFE = 250_000;

/**
 * Leads lives of so many operations in all.
 * @returns operations done.
 * @throws IndexDiffers with operation and seed where the index and the model first say different things.
 */
export function soakIndex(operations: number, seed: number, report: (done: number) => void): number {
  let done = 0;
  for (let life = 0; done < operations; life++) {
    const { inPieces, caps, ...kind } = KINDS[life % KINDS.length]!;
    const pieces: (() => void)[] = [];
    const evicted: { owner: number; external: bigint }[] = [];
    const options: IndexLifeOptions = {
      ...kind,
      evicted,
      seed: seed + life,
      operations: Math.min(LIFE, operations - done),
      pieces,
      progress: (ofLife) => report(done + ofLife),
    };
    const index = createPrefixIndex({
      hasher: createBlockHasher(),
      countStores: kind.countStores,
      evicted: (owner, external) => void evicted.push({ owner, external: u64ToBigInt(external) }),
      ...caps,
      ...(inPieces ? { later: (work: () => void) => void pieces.push(work), sweepPlaces: 64 } : {}),
    });
    leadIndexLife(index, options);
    done += options.operations;
    report(done);
  }
  return done;
}

/** Sizes of the churn: pools hold half as much again as 64 MiB of index do. */
const CHURN = { maxBytes: 64 * 2 ** 20, workers: 16, sessions: 6000, pool: 120_000 };

/**
 * Leads a churn of so many block events under a cap of 64 MiB.
 * @returns what must hold and does not: bytes at the end within 2 % of those after the first tenth, and the hit rate of the last tenth
 *   within 1 % of that of an index built anew.
 */
export function soakChurn(events: number, seed: number, print: (line: string) => void): string[] {
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const say = (name: string, { bytes, holdings, evicted, hitRate }: ChurnState): void =>
    print(
      `${name.padEnd(12)} ${bytes} bytes, ${holdings} held, ${evicted} evicted, hit rate ${percent(hitRate)}`,
    );
  const { tenths, fresh } = churn({
    ...CHURN,
    events,
    seed,
    progress: (tenth, state) => say(`tenth ${tenth}`, state),
  });
  say('built anew', fresh);
  const first = tenths[0]!;
  const last = tenths.at(-1)!;
  const growth = last.bytes / first.bytes - 1;
  const loss = 1 - last.hitRate / fresh.hitRate;
  print(`\nbytes ${percent(growth)} more than after the first tenth (at most 2 % either way)`);
  print(`hit rate ${percent(loss)} lower than that of an index built anew (at most 1 % either way)`);
  const most = Math.max(...tenths.map(({ bytes }) => bytes));
  print(`at most ${percent(most / CHURN.maxBytes)} of the cap`);
  const faults: string[] = [];
  if (most > CHURN.maxBytes) faults.push(`the index held ${most} bytes`);
  if (Math.abs(growth) > 0.02) faults.push(`bytes changed by ${percent(growth)}`);
  if (Math.abs(loss) > 0.01) faults.push(`the hit rate differs by ${percent(loss)}`);
  return faults;
}

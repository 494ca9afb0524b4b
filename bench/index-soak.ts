// Long random lives of the prefix index beside the radix model, for `npm run soak -- --index`. No benchmark: it measures nothing.
import { createBlockHasher, createPrefixIndex } from '../src/kv/index.ts';
import { type IndexLifeOptions, leadIndexLife } from '../src/kv/residency/random-index-ops.fixtures.ts';

/** Kinds of lives, in turn: few and many owners, shallow and deep chains. */
const KINDS = [
  { owners: 3, depth: 12, countStores: true, inPieces: true },
  { owners: 12, depth: 30, countStores: false, inPieces: true },
  { owners: 70, depth: 24, countStores: true, inPieces: false },
  { owners: 70, depth: 150, countStores: false, inPieces: true },
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
    const { inPieces, ...kind } = KINDS[life % KINDS.length]!;
    const pieces: (() => void)[] = [];
    const options: IndexLifeOptions = {
      ...kind,
      seed: seed + life,
      operations: Math.min(LIFE, operations - done),
      pieces,
      progress: (ofLife) => report(done + ofLife),
    };
    const index = createPrefixIndex({
      hasher: createBlockHasher(),
      countStores: kind.countStores,
      ...(inPieces ? { later: (work: () => void) => void pieces.push(work), sweepPlaces: 64 } : {}),
    });
    leadIndexLife(index, options);
    done += options.operations;
    report(done);
  }
  return done;
}

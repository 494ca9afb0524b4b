// The kinds of random lives that prefix indexes are led through beside the radix model: few and many owners, shallow and deep chains,
// counted stores or not, clears in pieces or at once; without caps, under one, and behind the event applier.
import {
  type CopyableIndex,
  createBlockHasher,
  createPrefixIndex,
  createReferenceHasher,
  type PrefixIndexOptions,
  u64ToBigInt,
} from '../src/kv/index.ts';
import type { IndexLifeTally } from '../src/kv/residency/index-life-options.fixtures.ts';
import { NaivePrefixIndex } from '../src/kv/residency/naive-prefix-index.fixtures.ts';
import { leadIndexLife } from '../src/kv/residency/random-index-ops.fixtures.ts';
import { APPLIER_ROADS } from './index-life-applier.ts';

/** One kind. */
export interface LifeKind {
  readonly owners: number;
  /** Blocks of the longest chain. */
  readonly depth: number;
  readonly countStores: boolean;
  /** Clears are done in pieces. */
  readonly inPieces: boolean;
  readonly caps?: Pick<PrefixIndexOptions, 'maxBytes' | 'maxHoldings'>;
  /** Events come through the event applier, which holds back what has no parent yet. */
  readonly isApplied?: boolean;
  /** Operations between two snapshots on average. */
  readonly copyEvery: number;
}

export const LIFE_KINDS: readonly LifeKind[] = [
  { owners: 3, depth: 12, countStores: true, inPieces: true, copyEvery: 2000 },
  { owners: 3, depth: 12, countStores: true, inPieces: true, copyEvery: 2000, caps: { maxHoldings: 90 } },
  { owners: 3, depth: 12, countStores: false, inPieces: false, copyEvery: 2000, isApplied: true },
  { owners: 12, depth: 30, countStores: false, inPieces: true, copyEvery: 4000 },
  { owners: 12, depth: 30, countStores: true, inPieces: false, copyEvery: 4000, caps: { maxBytes: 160_000 } },
  { owners: 12, depth: 30, countStores: true, inPieces: true, copyEvery: 4000, isApplied: true },
  { owners: 70, depth: 24, countStores: true, inPieces: false, copyEvery: 60_000 },
  {
    owners: 70,
    depth: 24,
    countStores: false,
    inPieces: true,
    copyEvery: 60_000,
    caps: { maxHoldings: 700 },
  },
  { owners: 70, depth: 24, countStores: true, inPieces: true, copyEvery: 60_000, isApplied: true },
  { owners: 70, depth: 150, countStores: false, inPieces: true, copyEvery: 60_000 },
  {
    owners: 70,
    depth: 150,
    countStores: true,
    inPieces: true,
    copyEvery: 60_000,
    caps: { maxBytes: 500_000 },
  },
  { owners: 70, depth: 150, countStores: false, inPieces: true, copyEvery: 60_000, isApplied: true },
];

/** How long a life is, and which. */
export interface LifeLength {
  readonly seed: number;
  readonly operations: number;
  /** Operations between two snapshots on average; default the kind's. */
  readonly copyEvery?: number;
  /** The naive index leads it instead. */
  readonly isNaive?: boolean;
  readonly progress?: (done: number) => void;
}

/** A kind in words. */
export function nameOf({ caps, depth, isApplied = false, owners }: LifeKind): string {
  const cap = caps === undefined ? '' : ', capped';
  return `${owners} owners on chains of ${depth} blocks${cap}${isApplied ? ', through the event applier' : ''}`;
}

/** Leads one life. @throws IndexDiffers with operation and seed where the index and the model first say different things. */
export function leadLife(kind: LifeKind, { isNaive = false, ...length }: LifeLength): IndexLifeTally {
  const { caps, inPieces, isApplied = false, ...shape } = kind;
  const pieces: (() => void)[] = [];
  const evicted: { owner: number; external: bigint }[] = [];
  const later = (work: () => void): void => void pieces.push(work);
  const makeIndex = (): CopyableIndex =>
    createPrefixIndex({
      hasher: createBlockHasher(),
      countStores: kind.countStores,
      evicted: (owner, external) => void evicted.push({ owner, external: u64ToBigInt(external) }),
      ...caps,
      ...(inPieces ? { later, sweepPlaces: 64 } : {}),
    });
  const makeNaive = (): CopyableIndex => new NaivePrefixIndex(createReferenceHasher(), kind.countStores);
  return leadIndexLife(isNaive ? makeNaive : makeIndex, {
    ...shape,
    ...length,
    evicted,
    pieces,
    isCapped: caps !== undefined,
    ...(isApplied ? { roads: APPLIER_ROADS } : {}),
  });
}

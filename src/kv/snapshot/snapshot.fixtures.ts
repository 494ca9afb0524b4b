// A small world of chains and events for tests of snapshots: engine hashes are made of owner and content, as engines make them.
import fc from 'fast-check';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import type { HashPairs } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64ToBigInt } from '../hashing/u64.ts';
import {
  type CopyableIndex,
  type DumpedBlock,
  type PrefixIndex,
  TIERS,
  type Tier,
} from '../residency/types.ts';
import type { SnapshotOwner } from './layout.ts';
import { SnapshotWriter } from './snapshot-writer.ts';

export const hasher = createReferenceHasher();
export const OWNERS = [0, 1, 5] as const;

/** One event of a stream. */
export type Step =
  | {
      readonly kind: 'store' | 'remove';
      readonly owner: number;
      readonly tier: Tier;
      readonly chain: readonly number[];
      readonly from: number;
    }
  | { readonly kind: 'clear'; readonly owner: number };

const owner = fc.constantFrom(...OWNERS);
const chain = fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 1, maxLength: 7 });
const block = fc.record({
  kind: fc.constantFrom('store' as const, 'store' as const, 'remove' as const),
  owner,
  tier: fc.constantFrom(TIERS[0], TIERS[0], TIERS[1], TIERS[2]),
  chain,
  from: fc.nat(6),
});
/** Any event; clears are rare. */
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 30, arbitrary: block },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), owner }) },
);

export const localsOf = (contents: readonly number[]): HashPairs =>
  fromBigUint64Array(BigUint64Array.from(contents, (content) => BigInt(content) * 0x1234567890abcdn));

export function sequencesOf(contents: readonly number[]): HashPairs {
  const local = localsOf(contents);
  const sequence = new Uint32Array(local.length);
  hasher.chain(null, local, sequence);
  return sequence;
}

/** The engine's hashes of a chain: owner 0 names blocks as the router does, the others have their own. */
export function namesOf(of: number, contents: readonly number[]): HashPairs {
  const sequences = toBigUint64Array(sequencesOf(contents));
  return fromBigUint64Array(
    sequences.map((hash) => (of === 0 ? hash : hash ^ (BigInt(of) * 0x9e3779b97f4a7c15n))),
  );
}

/** Applies one event; false for a store whose parent is not known, which no engine sends unless an event was lost. */
export function apply(index: PrefixIndex, event: Step): boolean {
  if (event.kind === 'clear') {
    index.clear(event.owner, 'all');
    return true;
  }
  const { chain: contents, from, owner: of, tier } = event;
  const names = namesOf(of, contents);
  const at = Math.min(from, contents.length - 1);
  if (event.kind === 'remove') {
    index.remove(of, tier, names.subarray(2 * at, 2 * at + 2));
    return true;
  }
  const parent = at === 0 ? null : { lo: names[2 * at - 2]!, hi: names[2 * at - 1]! };
  const outcome = index.store(of, tier, parent, names.subarray(2 * at), localsOf(contents).subarray(2 * at));
  return outcome !== 'unknown-parent';
}

/** What an owner of the fixture says of itself. */
export function ownerOf(slot: number, watermark = 0): SnapshotOwner {
  return {
    workerId: 2n ** 64n - 1n - BigInt(slot),
    rank: slot,
    model: 'tiny',
    routingGroup: 'default',
    blockSize: 16,
    epoch: slot === 5 ? null : `life-${slot}`,
    watermark,
    watermarkTime: null,
    stale: false,
    partial: false,
  };
}

/** A writer for all owners of the fixture. */
export function writerOf(index: CopyableIndex, rowsPerPiece: number, watermark = 0): SnapshotWriter {
  return new SnapshotWriter({
    index,
    owners: new Map(OWNERS.map((slot) => [slot, ownerOf(slot, watermark)])),
    takenAtMs: 1_700_000_000_000,
    rowsPerPiece,
  });
}

/** All rows of an index as sorted text. */
export function rowsOf(index: PrefixIndex): string[] {
  const rows: string[] = [];
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page = index.dump(cursor, 1000);
    rows.push(...page.blocks.map(asText));
    cursor = page.cursor;
  }
  return rows.sort();
}

function asText(row: DumpedBlock): string {
  const hashes = [row.external, row.sequence, row.local, row.parent].map((hash) =>
    hash === null ? 'root' : u64ToBigInt(hash).toString(16),
  );
  return [row.owner, row.tier, row.position, ...hashes].join(' ');
}

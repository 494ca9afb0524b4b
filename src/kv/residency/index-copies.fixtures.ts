// A snapshot of an index in the middle of a random life, and an index filled from its bytes, both compared with the model. What a
// snapshot does not keep (copies of one name, evictions, counters, bindings, the order of a block's names) the model is told.
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { u64ToBigInt } from '../hashing/u64.ts';
import { restoreSnapshot } from '../snapshot/restore-snapshot.ts';
import { readSnapshot } from '../snapshot/snapshot-reader.ts';
import { SnapshotWriter } from '../snapshot/snapshot-writer.ts';
import { slotOf } from './index-life-options.fixtures.ts';
import type { IndexUniverse } from './index-universe.fixtures.ts';
import type { RadixPrefixIndex } from './radix-prefix-index.fixtures.ts';
import { type CopyableIndex, type DumpedBlock, TIERS } from './types.ts';

/** What is copied and compared. */
export interface CopySource {
  readonly index: CopyableIndex;
  /** Gives an empty index like it. */
  readonly make: () => CopyableIndex;
  readonly model: RadixPrefixIndex;
  readonly universe: IndexUniverse;
  readonly owners: number;
  /** Whether a copy may lack rows. */
  readonly isCapped: boolean;
  readonly rowsPerPiece: number;
  readonly same: (what: string, said: unknown, expected: unknown) => void;
}

/**
 * Copies an index through a snapshot. Where the copy is whole the model is that of the copy from then on.
 * @returns the copy, null where it lacks rows for want of room, and how many it lacks.
 */
export function checkedCopy(source: CopySource): {
  readonly copy: CopyableIndex | null;
  readonly left: number;
} {
  const { isCapped, make, model, owners, same, universe } = source;
  const bytes = bytesOf(source);
  const copy = make();
  const { restored, left } = fill(copy, bytes, owners);
  const rows = rowsOf(copy);
  same('rows restored', restored, rows.length);
  same('rows restored and left', restored + left, model.rows());
  if (!isCapped) same('rows left', left, 0);
  for (const { owner, tier, external } of rows) {
    const number = universe.number(u64ToBigInt(external));
    same('row', model.knows(owner / slotOf(1), number, TIERS.indexOf(tier)), true);
  }
  if (left > 0) return { copy: null, left };
  model.restored(copy.stats().version);
  tellOrder(source, bytes);
  for (let owner = 0; owner < owners; owner++) {
    const worker = model.workerOf(owner);
    if (worker !== undefined) copy.bindOwner(slotOf(owner), worker);
  }
  return { copy, left };
}

function bytesOf({ index, owners, rowsPerPiece }: CopySource): Buffer {
  const owner = (rank: number) => ({
    workerId: 1n,
    rank,
    model: 'model',
    routingGroup: 'default',
    blockSize: 2,
    epoch: null,
    watermark: 0,
    watermarkTime: null,
    stale: false,
    partial: false,
  });
  const slots = Array.from({ length: owners }, (_, rank) => [slotOf(rank), owner(rank)] as const);
  const writer = new SnapshotWriter({ index, owners: new Map(slots), takenAtMs: 0, rowsPerPiece });
  return Buffer.concat([...writer.pieces()]);
}

function fill(index: CopyableIndex, bytes: Buffer, owners: number): ReturnType<typeof restoreSnapshot> {
  return restoreSnapshot(readSnapshot(bytes), index, createBlockHasher(), (owner) =>
    owner < owners ? slotOf(owner) : null,
  );
}

function rowsOf(index: CopyableIndex): DumpedBlock[] {
  const rows: DumpedBlock[] = [];
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page = index.dump(cursor, 10_000);
    rows.push(...page.blocks);
    cursor = page.cursor;
  }
  return rows;
}

/** Takes the names of blocks with several off one more index filled from the same bytes, the newest first: so they lie in the copy. */
function tellOrder({ make, model, owners, same, universe }: CopySource, bytes: Buffer): void {
  const other = make();
  fill(other, bytes, owners);
  const out = new BigUint64Array(1);
  const seen = new Set<number>();
  for (const { blocks, contents, sequence } of universe.chains) {
    for (const { owner, at, names } of model.severalNames(contents)) {
      const place = owners * blocks[at]! + owner;
      if (seen.has(place)) continue;
      seen.add(place);
      const order: number[] = [];
      while (
        order.length < names.length &&
        other.externalHashes(slotOf(owner), sequence, at, at + 1, out) > 0
      ) {
        order.unshift(universe.number(out[0]!));
        const newest = new Uint32Array(out.slice().buffer);
        for (const tier of TIERS) other.remove(slotOf(owner), tier, newest);
      }
      const sorted = (list: number[]): string => list.toSorted((a, b) => a - b).join();
      same('names of a block', sorted(order), sorted(names));
      model.reorder(owner, order);
    }
  }
}

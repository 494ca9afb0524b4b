// Fills an index from a snapshot.
import { PointsmanError } from '../../plugin/index.ts';
import type { BlockHasher, HashPairs } from '../hashing/types.ts';
import type { CopyableIndex, OwnerSlot } from '../residency/types.ts';
import { ROW } from './layout.ts';
import { OrderedRuns, type SnapshotRun } from './ordered-runs.ts';
import type { Snapshot, SnapshotRows } from './snapshot-reader.ts';

/** What became of the rows of the owners that were asked for. */
export interface RestoredRows {
  /** Rows that are in the index now. */
  readonly restored: number;
  /** Rows that are not: the index is full, or evicted them for others, or an engine hash stood for two contents. */
  readonly left: number;
}

/**
 * Puts the rows of some owners into an index, those behind blocks that nobody holds included.
 * @param slotOf slot of an owner by its number in the snapshot; null leaves its rows out.
 */
export function restoreSnapshot(
  { owners, rows }: Snapshot,
  index: CopyableIndex,
  hasher: Pick<BlockHasher, 'chain'>,
  slotOf: (owner: number) => OwnerSlot | null,
): RestoredRows {
  const slots = owners.map((owner, number) => (owner.isVoid ? null : slotOf(number)));
  const runs = new OrderedRuns(rows, hasher, (owner) => (slots[owner] ?? null) !== null);
  let isFull = false;
  for (const run of runs) {
    const slot = slots[rows.owner(run.first)] ?? null;
    if (slot === null) continue;
    isFull ||= !hasRoom(() => restoreRun(run, slot, rows, runs, index, slots));
    if (isFull) break;
  }
  return counted(rows, index, slots);
}

/** Counts at the end: what went in may have been evicted by what came later. */
function counted(
  rows: SnapshotRows,
  index: CopyableIndex,
  slots: readonly (OwnerSlot | null)[],
): RestoredRows {
  let restored = 0;
  let left = 0;
  for (let row = 0; row < rows.count; row++) {
    const slot = slots[rows.owner(row)] ?? null;
    if (slot === null) continue;
    if (index.hasRow(slot, rows.tier(row), rows.hash(row, ROW.EXTERNAL))) restored++;
    else left++;
  }
  return { restored, left };
}

/** False when the index is full. */
function hasRoom(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_KV_INDEX_FULL') return false;
    throw thrown;
  }
}

function restoreRun(
  run: SnapshotRun,
  owner: OwnerSlot,
  rows: SnapshotRows,
  runs: OrderedRuns,
  index: CopyableIndex,
  slots: readonly (OwnerSlot | null)[],
): void {
  const tier = rows.tier(run.first);
  if (!run.hole) {
    storeRows(index, owner, rows, run.first, run.count, run.parent);
    return;
  }
  const anyBefore = runs.anyBefore(run.first);
  const other = anyBefore < 0 ? null : (slots[rows.owner(anyBefore)] ?? null);
  const isIn = index.restoreBlock(
    {
      owner,
      tier,
      external: rows.hash(run.first, ROW.EXTERNAL),
      sequence: runs.sequence(run.first),
      local: rows.hash(run.first, ROW.LOCAL),
      parent: rows.hash(run.first, ROW.PARENT),
      position: rows.position(run.first),
    },
    other === null ? null : { owner: other, external: rows.hash(anyBefore, ROW.EXTERNAL) },
  );
  if (!isIn || run.count === 1) return;
  storeRows(index, owner, rows, run.first + 1, run.count - 1, rows.hash(run.first, ROW.EXTERNAL));
}

function storeRows(
  index: CopyableIndex,
  owner: OwnerSlot,
  rows: SnapshotRows,
  first: number,
  count: number,
  parent: Parameters<CopyableIndex['store']>[2],
): void {
  const external = hashesOf(rows, first, count, ROW.EXTERNAL);
  const local = hashesOf(rows, first, count, ROW.LOCAL);
  index.store(owner, rows.tier(first), parent, external, local);
}

/** One of the hashes of rows that follow each other. */
function hashesOf(rows: SnapshotRows, first: number, count: number, place: number): HashPairs {
  const hashes = new Uint32Array(2 * count);
  for (let at = 0; at < count; at++) {
    const { lo, hi } = rows.hash(first + at, place);
    hashes[2 * at] = lo;
    hashes[2 * at + 1] = hi;
  }
  return hashes;
}

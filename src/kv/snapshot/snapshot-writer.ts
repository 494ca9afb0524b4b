// Writes a prefix index piece by piece while it goes on changing.
//
// The watermarks are those at the start, and every row that was there then is in the file, beside some that came later: a row either
// lies where the dump finds it, or is written when an event takes it away. To read such a file and apply the events after the watermarks
// once more gives the index as it is then. For each engine hash and tier, either the last of these events that names it decides, or
// none does and its row never changed; and a store finds its parent as it did the first time, for a parent that was there is in
// the file and one that came is stored again. It rests on an engine hash standing for one content between two clears, as the
// index itself does. Watermarks from the end would skip events whose rows the dump had passed already.
import { createHash } from 'node:crypto';
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import type { U64 } from '../hashing/types.ts';
import { type CopyableIndex, type DumpedBlock, type OwnerSlot, TIERS } from '../residency/types.ts';
import {
  COUNT_BYTES,
  HASH_SCHEME,
  MAGIC,
  MAX_OWNERS,
  PREAMBLE_BYTES,
  ROW,
  ROW_BYTES,
  type SnapshotOwner,
  VERSION,
} from './layout.ts';
import { SnapshotRows } from './snapshot-reader.ts';

/** Rows of a piece: about a millisecond of work. */
const ROWS_PER_PIECE = 2048;
/** Rows taken away between two pieces that are kept; an owner that loses more is left out. */
const MAX_REMOVED = 65_536;

/** What is written. */
export interface SnapshotSource {
  readonly index: CopyableIndex;
  /** Owners by slot, with their watermarks of this moment; rows of others are left out. */
  readonly owners: ReadonlyMap<OwnerSlot, SnapshotOwner>;
  /** Wall clock, ms since 1970. */
  readonly takenAtMs: number;
  readonly rowsPerPiece?: number;
}

/** Rows that were copied. */
export interface CopiedRows {
  /** An owner's number is its place in the source's list. */
  readonly rows: SnapshotRows;
  /** Whether an owner was cleared meanwhile, or lost more than could be kept: its rows do not count. */
  isVoid(slot: OwnerSlot): boolean;
}

/** A snapshot under way. It hears every change of the index from its construction until `close`. */
export class SnapshotWriter {
  readonly #source: SnapshotSource;
  /** Numbers of owners in the file, by slot. */
  readonly #numbers = new Map<OwnerSlot, number>();
  readonly #void = new Set<OwnerSlot>();
  readonly #unwatch: () => void;
  #removed: DumpedBlock[] = [];
  #rows = 0;

  /** @throws PM_SNAPSHOT_WRITE for more owners than a file holds. */
  constructor(source: SnapshotSource) {
    this.#source = source;
    if (source.owners.size > MAX_OWNERS) {
      throw new PointsmanError(
        'PM_SNAPSHOT_WRITE',
        `a snapshot holds ${MAX_OWNERS} worker ranks at most, not ${source.owners.size}`,
      );
    }
    for (const slot of source.owners.keys()) this.#numbers.set(slot, this.#numbers.size);
    this.#unwatch = source.index.watch({
      removing: (row) => this.#removing(row),
      forgotten: (owner) => {
        if (this.#numbers.has(owner)) this.#void.add(owner);
      },
    });
  }

  /** Rows written so far. */
  get rows(): number {
    return this.#rows;
  }

  /** Stops listening. Idempotent. */
  close(): void {
    this.#unwatch();
    this.#removed = [];
  }

  /** The bytes of the file, in order; the index may change between two pieces. */
  *pieces(): Generator<Uint8Array, void> {
    const checksum = createHash('sha256');
    const checked = (bytes: Uint8Array): Uint8Array => {
      checksum.update(bytes);
      return bytes;
    };
    try {
      yield checked(this.#header());
      for (const piece of this.#rowPieces()) yield checked(piece);
      yield checked(this.#trailer());
      yield checksum.digest();
    } finally {
      this.close();
    }
  }

  /** The rows alone, step by step, for those who read them in this process; the index may change between two steps. */
  *copyRows(): Generator<void, CopiedRows> {
    const pieces: Uint8Array[] = [];
    try {
      for (const piece of this.#rowPieces()) {
        pieces.push(piece);
        yield;
      }
    } finally {
      this.close();
    }
    const bytes = new Uint8Array(this.#rows * ROW_BYTES);
    yield;
    let at = 0;
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
      yield;
    }
    return { rows: new SnapshotRows(bytes), isVoid: (slot) => this.#void.has(slot) };
  }

  *#rowPieces(): Generator<Uint8Array, void> {
    const limit = this.#source.rowsPerPiece ?? ROWS_PER_PIECE;
    for (let cursor: number | null = 0; cursor !== null; ) {
      const page = this.#source.index.dump(cursor, limit);
      cursor = page.cursor;
      // What went before this page was read comes first.
      const piece = this.#encode([...this.#removed.splice(0), ...page.blocks]);
      if (piece.length > 0) yield piece;
    }
  }

  #removing(row: DumpedBlock): void {
    if (!this.#numbers.has(row.owner) || this.#void.has(row.owner)) return;
    if (this.#removed.length < MAX_REMOVED) this.#removed.push(row);
    else this.#void.add(row.owner);
  }

  #header(): Uint8Array {
    const owners = [...this.#source.owners.values()].map((owner) => ({
      worker_id: owner.workerId,
      rank: owner.rank,
      model: owner.model,
      routing_group: owner.routingGroup,
      block_size: owner.blockSize,
      epoch: owner.epoch,
      watermark: owner.watermark,
      watermark_time: owner.watermarkTime,
      stale: owner.stale,
      partial: owner.partial,
    }));
    const text = exactJsonStringify({
      taken_at_ms: Math.floor(this.#source.takenAtMs),
      hash_scheme: HASH_SCHEME,
      owners,
    });
    const header = Buffer.from(text);
    const bytes = Buffer.alloc(PREAMBLE_BYTES + header.length);
    bytes.write(MAGIC, 'latin1');
    bytes.writeUInt32LE(VERSION, 8);
    bytes.writeUInt32LE(header.length, 12);
    header.copy(bytes, PREAMBLE_BYTES);
    return bytes;
  }

  #encode(rows: readonly DumpedBlock[]): Uint8Array {
    const bytes = Buffer.alloc(rows.length * ROW_BYTES);
    let at = 0;
    for (const row of rows) {
      const owner = this.#numbers.get(row.owner);
      if (owner === undefined || this.#void.has(row.owner)) continue;
      writeU64(bytes, at + ROW.EXTERNAL, row.external);
      writeU64(bytes, at + ROW.LOCAL, row.local);
      writeU64(bytes, at + ROW.PARENT, row.parent ?? { lo: 0, hi: 0 });
      bytes.writeUInt32LE(row.position, at + ROW.POSITION);
      bytes.writeUInt16LE(owner, at + ROW.OWNER);
      bytes.writeUInt8(TIERS.indexOf(row.tier), at + ROW.TIER);
      at += ROW_BYTES;
      this.#rows++;
    }
    return bytes.subarray(0, at);
  }

  #trailer(): Uint8Array {
    const gone = [...this.#void].map((slot) => this.#numbers.get(slot) ?? 0);
    const bytes = Buffer.alloc(2 * gone.length + COUNT_BYTES);
    for (const [index, owner] of gone.entries()) bytes.writeUInt16LE(owner, 2 * index);
    bytes.writeUInt32LE(this.#rows, 2 * gone.length);
    bytes.writeUInt32LE(gone.length, 2 * gone.length + 4);
    return bytes;
  }
}

function writeU64(bytes: Buffer, at: number, { lo, hi }: U64): void {
  bytes.writeUInt32LE(lo >>> 0, at);
  bytes.writeUInt32LE(hi >>> 0, at + 4);
}

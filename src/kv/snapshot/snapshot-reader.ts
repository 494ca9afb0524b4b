// Reads a snapshot: everything is checked before anything is used, and rows stay where they lie in the file's bytes.
import { createHash } from 'node:crypto';
import { parseExactJson } from '../../config/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { U64 } from '../hashing/types.ts';
import { TIERS, type Tier } from '../residency/types.ts';
import {
  CHECKSUM_BYTES,
  COUNT_BYTES,
  HASH_SCHEME,
  MAGIC,
  MAX_OWNERS,
  PREAMBLE_BYTES,
  type ReadOwner,
  ROW,
  ROW_BYTES,
  VERSION,
} from './layout.ts';

/** A header has less than this per owner and one more; names are short. */
const MAX_HEADER_BYTES = 64 * 1024 * 1024;
const MAX_NAME = 1024;
const MAX_U64 = 0xffffffffffffffffn;

/** The rows of a snapshot. */
export class SnapshotRows {
  readonly #bytes: DataView;
  /** Number of rows. */
  readonly count: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.count = bytes.byteLength / ROW_BYTES;
  }

  /** Number of a row's owner in the snapshot's list. */
  owner(row: number): number {
    return this.#bytes.getUint16(row * ROW_BYTES + ROW.OWNER, true);
  }

  /** Number of a row's tier in `TIERS`. */
  tierNumber(row: number): number {
    return this.#bytes.getUint8(row * ROW_BYTES + ROW.TIER);
  }

  /** A row's tier. */
  tier(row: number): Tier {
    return TIERS[this.tierNumber(row)] ?? 'device';
  }

  /** 0-based place of a row's block in its chain. */
  position(row: number): number {
    return this.#bytes.getUint32(row * ROW_BYTES + ROW.POSITION, true);
  }

  /** A hash of a row, by its place. */
  hash(row: number, place: number): U64 {
    const at = row * ROW_BYTES + place;
    return { lo: this.#bytes.getUint32(at, true), hi: this.#bytes.getUint32(at + 4, true) };
  }
}

/** A snapshot that was read. */
export interface Snapshot {
  /** Wall clock when it was begun, ms since 1970. */
  readonly takenAtMs: number;
  readonly owners: readonly ReadOwner[];
  readonly rows: SnapshotRows;
}

/**
 * Reads the bytes of a file.
 * @throws PM_SNAPSHOT_UNUSABLE, naming what is wrong: no snapshot, another version or hash scheme, cut off, or changed on the way.
 */
export function readSnapshot(bytes: Uint8Array): Snapshot {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < PREAMBLE_BYTES || buffer.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw unusable(`it does not begin as a snapshot does (${buffer.length} bytes)`);
  }
  const version = buffer.readUInt32LE(8);
  if (version !== VERSION) {
    throw unusable(`it has version ${version}, and this program reads version ${VERSION}`);
  }
  if (buffer.length < PREAMBLE_BYTES + COUNT_BYTES + CHECKSUM_BYTES) {
    throw unusable(`it is cut off after ${buffer.length} bytes`);
  }
  const end = buffer.length - CHECKSUM_BYTES;
  if (!createHash('sha256').update(buffer.subarray(0, end)).digest().equals(buffer.subarray(end))) {
    throw unusable('its checksum does not fit: it is cut off or was changed');
  }
  return readParts(buffer, end - COUNT_BYTES);
}

/** The parts of a file whose checksum fits: what is wrong here was written so. */
function readParts(buffer: Buffer, counts: number): Snapshot {
  const headerBytes = buffer.readUInt32LE(12);
  const rowCount = buffer.readUInt32LE(counts);
  const voidCount = buffer.readUInt32LE(counts + 4);
  const rowsAt = PREAMBLE_BYTES + headerBytes;
  const voidAt = rowsAt + rowCount * ROW_BYTES;
  if (headerBytes > MAX_HEADER_BYTES || voidCount > MAX_OWNERS || voidAt + 2 * voidCount !== counts) {
    throw unusable(
      `its parts do not add up: a header of ${headerBytes} bytes, ${rowCount} rows and ${voidCount} owners left out`,
    );
  }
  const { takenAtMs, owners } = readHeader(buffer.toString('utf8', PREAMBLE_BYTES, rowsAt));
  const gone = new Set<number>();
  for (let at = voidAt; at < counts; at += 2) gone.add(buffer.readUInt16LE(at));
  const rows = new SnapshotRows(buffer.subarray(rowsAt, voidAt));
  for (let row = 0; row < rows.count; row++) {
    if (rows.owner(row) >= owners.length || rows.tierNumber(row) >= TIERS.length) {
      throw unusable(
        `row ${row} names owner ${rows.owner(row)} of ${owners.length} and tier ${rows.tierNumber(row)}`,
      );
    }
  }
  return {
    takenAtMs,
    owners: owners.map((owner, index) =>
      gone.has(index) ? { ...owner, stale: true, partial: true, isVoid: true } : owner,
    ),
    rows,
  };
}

function readHeader(text: string): { takenAtMs: number; owners: ReadOwner[] } {
  let header: unknown;
  try {
    header = parseExactJson(text);
  } catch (cause) {
    throw unusable('its header is no JSON', cause);
  }
  const scheme = field(header, 'hash_scheme');
  if (scheme !== HASH_SCHEME) {
    throw unusable(
      `its hashes are of scheme "${String(scheme).slice(0, 64)}", and this router's of "${HASH_SCHEME}"`,
    );
  }
  const list = field(header, 'owners');
  if (!Array.isArray(list) || list.length > MAX_OWNERS) throw unusable('its header lists no owners');
  return { takenAtMs: whole(header, 'taken_at_ms'), owners: list.map(readOwner) };
}

function readOwner(value: unknown): ReadOwner {
  const id = field(value, 'worker_id');
  const workerId = typeof id === 'number' && Number.isSafeInteger(id) ? BigInt(id) : id;
  if (typeof workerId !== 'bigint' || workerId < 0n || workerId > MAX_U64) throw badField('worker_id');
  const epoch = field(value, 'epoch');
  return {
    workerId,
    rank: whole(value, 'rank'),
    model: name(field(value, 'model'), 'model'),
    routingGroup: name(field(value, 'routing_group'), 'routing_group'),
    blockSize: whole(value, 'block_size'),
    epoch: epoch === null ? null : name(epoch, 'epoch'),
    watermark: whole(value, 'watermark'),
    watermarkTime: time(value, 'watermark_time'),
    stale: flag(value, 'stale'),
    partial: flag(value, 'partial'),
    isVoid: false,
  };
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

function whole(value: unknown, key: string): number {
  const found = field(value, key);
  if (typeof found !== 'number' || !Number.isSafeInteger(found) || found < 0) throw badField(key);
  return found;
}

function time(value: unknown, key: string): number | null {
  const found = field(value, key) ?? null;
  if (found !== null && (typeof found !== 'number' || !Number.isFinite(found))) throw badField(key);
  return found;
}

function flag(value: unknown, key: string): boolean {
  const found = field(value, key);
  if (typeof found !== 'boolean') throw badField(key);
  return found;
}

function name(found: unknown, key: string): string {
  if (typeof found !== 'string' || found.length > MAX_NAME) throw badField(key);
  return found;
}

function badField(key: string): PointsmanError {
  return unusable(`the field ${key} of its header has a wrong value`);
}

function unusable(problem: string, cause?: unknown): PointsmanError {
  return new PointsmanError(
    'PM_SNAPSHOT_UNUSABLE',
    `the snapshot of the prefix index cannot be used: ${problem}`,
    {
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

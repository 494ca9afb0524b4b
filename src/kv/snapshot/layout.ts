// How a snapshot of the prefix index lies in its file, little-endian throughout:
//
//   magic (8) · version (u32) · bytes of the header (u32) · header · rows · void owners (u16 each) · rows (u32) · void owners (u32) ·
//   SHA-256 of everything before it (32)
//
// The header is JSON in UTF-8 with exact 64-bit integers: small, and readable with `strings`. A row has a fixed size, so that millions
// of them are read where they lie.

/** The first bytes of every snapshot. */
export const MAGIC = 'PMKVSNAP';
/** Version of the layout that this program writes and reads. */
export const VERSION = 1;
/** Bytes before the header. */
export const PREAMBLE_BYTES = 16;
/** Places of the parts of a row: engine hash, local hash and sequence hash before it, 8 bytes each; position u32; owner u16; tier u8. */
export const ROW = { EXTERNAL: 0, LOCAL: 8, PARENT: 16, POSITION: 24, OWNER: 28, TIER: 30 } as const;
/** Bytes of a row. */
export const ROW_BYTES = 31;
/** Bytes of the counts at the end. */
export const COUNT_BYTES = 8;
/** Bytes of the checksum behind them. */
export const CHECKSUM_BYTES = 32;
/** Most owners of one snapshot. */
export const MAX_OWNERS = 65_536;
/** What local and sequence hashes are made with; another scheme's hashes match nothing. */
export const HASH_SCHEME = 'xxh3-64, seed 1337, chained';

/** What a snapshot says of one worker rank. */
export interface SnapshotOwner {
  readonly workerId: bigint;
  readonly rank: number;
  /** Name of the model it serves. */
  readonly model: string;
  readonly routingGroup: string;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Life of its engine, as it advertised; null = it did not say. */
  readonly epoch: string | null;
  /** Sequence number of the last batch of its event stream that the rows certainly have. */
  readonly watermark: number;
  /** Time stamp of that batch, seconds by the engine's clock; null = not known. */
  readonly watermarkTime: number | null;
  /** Batches were missed, so rows may be wrong. */
  readonly stale: boolean;
  /** Something is missing: its history was not complete, or it was cleared while the snapshot was taken. */
  readonly partial: boolean;
}

/** An owner as it was read. */
export interface ReadOwner extends SnapshotOwner {
  /** It was cleared while the snapshot was taken: none of its rows counts, and `stale` and `partial` are set. */
  readonly isVoid: boolean;
}

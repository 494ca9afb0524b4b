// Per-worker view over columns: one cursor object whose prototype getters read the current row. Building an object per worker
// would cost ten times the scan itself.
import type { CacheColumns, CopyColumns, LoadColumns, WorkerInput } from './inputs.ts';
import type { SessionLineage } from './session-lineage.ts';

/** Columns as a cursor reads them; groups that were not declared are missing. */
export interface CursorColumns {
  readonly workerIds: ArrayLike<bigint>;
  readonly ranks: ArrayLike<number>;
  readonly cache?: CacheColumns;
  readonly load?: LoadColumns;
  readonly preferredTaintMultiplier?: ArrayLike<number>;
  readonly occupancy?: ArrayLike<number>;
  readonly copies?: CopyColumns;
  readonly lineage?: SessionLineage | null;
}

/** Where a cursor stands; shared by its groups. */
interface Position {
  columns: CursorColumns;
  row: number;
}

class CacheRow {
  private readonly at: Position;
  constructor(at: Position) {
    this.at = at;
  }
  get effectiveOverlapBlocks(): number {
    return this.at.columns.cache!.effectiveOverlapBlocks[this.at.row]!;
  }
  get cachedTokens(): number {
    return this.at.columns.cache!.cachedTokens[this.at.row]!;
  }
  get deviceBlocks(): number {
    return this.at.columns.cache!.deviceBlocks[this.at.row]!;
  }
  get hostBlocks(): number {
    return this.at.columns.cache!.hostBlocks[this.at.row]!;
  }
  get diskBlocks(): number {
    return this.at.columns.cache!.diskBlocks[this.at.row]!;
  }
  get hasTierMatches(): boolean {
    return this.at.columns.cache!.hasTierMatches;
  }
}

class LoadRow {
  private readonly at: Position;
  constructor(at: Position) {
    this.at = at;
  }
  get available(): number {
    return this.at.columns.load!.available[this.at.row]!;
  }
  get activePrefillTokens(): number {
    return this.at.columns.load!.activePrefillTokens[this.at.row]!;
  }
  get decodeCostBlocks(): number {
    return this.at.columns.load!.decodeCostBlocks[this.at.row]!;
  }
  get activeRequests(): number {
    return this.at.columns.load!.activeRequests[this.at.row]!;
  }
}

class CopyRow {
  private readonly at: Position;
  constructor(at: Position) {
    this.at = at;
  }
  get copyableBlocks(): number {
    return this.at.columns.copies!.copyableBlocks[this.at.row]!;
  }
  get sourcePrefixBlocks(): number {
    return this.at.columns.copies!.sourcePrefixBlocks[this.at.row]!;
  }
}

class CandidateRow {
  protected readonly at: Position;
  constructor(at: Position) {
    this.at = at;
  }
  get workerId(): bigint {
    return this.at.columns.workerIds[this.at.row]!;
  }
  get rank(): number {
    return this.at.columns.ranks[this.at.row]!;
  }
}

/** A candidate that can be moved from row to row. */
export interface CandidateCursor {
  /** The object handed to the callback; only declared groups exist on it. */
  readonly candidate: object;
  moveTo(columns: CursorColumns, row: number): void;
}

const NO_COLUMNS: CursorColumns = { workerIds: [], ranks: [] };

/** Makes a cursor over the declared inputs; a component makes one and keeps it. */
export function candidateCursor(inputs: readonly WorkerInput[]): CandidateCursor {
  const at: Position = { columns: NO_COLUMNS, row: 0 };
  class Candidate extends CandidateRow {}
  const getters: PropertyDescriptorMap = {};
  if (inputs.includes('cache')) {
    const cache = new CacheRow(at);
    getters.cache = { get: () => cache, enumerable: true };
  }
  if (inputs.includes('load')) {
    const load = new LoadRow(at);
    getters.load = { get: () => load, enumerable: true };
  }
  if (inputs.includes('preferred-taint')) {
    getters.preferredTaintMultiplier = {
      get: () => at.columns.preferredTaintMultiplier![at.row]!,
      enumerable: true,
    };
  }
  if (inputs.includes('occupancy')) {
    getters.occupancy = { get: () => at.columns.occupancy![at.row]!, enumerable: true };
  }
  if (inputs.includes('kv-copy-locations')) {
    const copies = new CopyRow(at);
    getters.copies = { get: () => copies, enumerable: true };
  }
  if (inputs.includes('session-lineage')) {
    getters.lineage = { get: () => at.columns.lineage ?? null, enumerable: true };
  }
  Object.defineProperties(Candidate.prototype, getters);
  return {
    candidate: new Candidate(at),
    moveTo(columns, row) {
      at.columns = columns;
      at.row = row;
    },
  };
}

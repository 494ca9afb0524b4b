// Per-worker view over columns: one cursor object whose prototype getters read the current row. Building an object per worker
// would cost ten times the scan itself. Columns are looked up once per decision, at the first reading: the host copies them then.
import type { CacheColumns, CopyColumns, LoadColumns, PhaseColumns, WorkerInput } from './inputs.ts';
import type { SessionLineage } from './session-lineage.ts';
import type { TimingColumns } from './worker-timing.ts';

/** Columns as a cursor reads them; groups that were not declared are missing. */
export interface CursorColumns {
  readonly workerIds: ArrayLike<bigint>;
  readonly ranks: ArrayLike<number>;
  readonly cache?: CacheColumns;
  readonly load?: LoadColumns;
  readonly preferredTaintMultiplier?: ArrayLike<number>;
  readonly occupancy?: ArrayLike<number>;
  readonly onCpu?: ArrayLike<number>;
  readonly inFlightBlocks?: ArrayLike<number>;
  readonly cachePressure?: ArrayLike<number>;
  readonly phases?: PhaseColumns;
  readonly averageOutputTokens?: number | null;
  readonly timing?: TimingColumns;
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
  private effectiveOverlapBlocksColumn: ArrayLike<number> | null = null;
  private cachedTokensColumn: ArrayLike<number> | null = null;
  private deviceBlocksColumn: ArrayLike<number> | null = null;
  private hostBlocksColumn: ArrayLike<number> | null = null;
  private diskBlocksColumn: ArrayLike<number> | null = null;

  constructor(at: Position) {
    this.at = at;
  }
  /** Another decision begins. */
  forget(): void {
    this.effectiveOverlapBlocksColumn = null;
    this.cachedTokensColumn = null;
    this.deviceBlocksColumn = null;
    this.hostBlocksColumn = null;
    this.diskBlocksColumn = null;
  }
  get effectiveOverlapBlocks(): number {
    this.effectiveOverlapBlocksColumn ??= this.at.columns.cache!.effectiveOverlapBlocks;
    return this.effectiveOverlapBlocksColumn[this.at.row]!;
  }
  get cachedTokens(): number {
    this.cachedTokensColumn ??= this.at.columns.cache!.cachedTokens;
    return this.cachedTokensColumn[this.at.row]!;
  }
  get deviceBlocks(): number {
    this.deviceBlocksColumn ??= this.at.columns.cache!.deviceBlocks;
    return this.deviceBlocksColumn[this.at.row]!;
  }
  get hostBlocks(): number {
    this.hostBlocksColumn ??= this.at.columns.cache!.hostBlocks;
    return this.hostBlocksColumn[this.at.row]!;
  }
  get diskBlocks(): number {
    this.diskBlocksColumn ??= this.at.columns.cache!.diskBlocks;
    return this.diskBlocksColumn[this.at.row]!;
  }
  get hasTierMatches(): boolean {
    return this.at.columns.cache!.hasTierMatches;
  }
}

class LoadRow {
  private readonly at: Position;
  private availableColumn: ArrayLike<number> | null = null;
  private activePrefillTokensColumn: ArrayLike<number> | null = null;
  private decodeCostBlocksColumn: ArrayLike<number> | null = null;
  private activeRequestsColumn: ArrayLike<number> | null = null;

  constructor(at: Position) {
    this.at = at;
  }
  /** Another decision begins. */
  forget(): void {
    this.availableColumn = null;
    this.activePrefillTokensColumn = null;
    this.decodeCostBlocksColumn = null;
    this.activeRequestsColumn = null;
  }
  get available(): number {
    this.availableColumn ??= this.at.columns.load!.available;
    return this.availableColumn[this.at.row]!;
  }
  get activePrefillTokens(): number {
    this.activePrefillTokensColumn ??= this.at.columns.load!.activePrefillTokens;
    return this.activePrefillTokensColumn[this.at.row]!;
  }
  get decodeCostBlocks(): number {
    this.decodeCostBlocksColumn ??= this.at.columns.load!.decodeCostBlocks;
    return this.decodeCostBlocksColumn[this.at.row]!;
  }
  get activeRequests(): number {
    this.activeRequestsColumn ??= this.at.columns.load!.activeRequests;
    return this.activeRequestsColumn[this.at.row]!;
  }
}

class PhaseRow {
  private readonly at: Position;
  private prefillRequestsColumn: ArrayLike<number> | null = null;
  private prefillTokensColumn: ArrayLike<number> | null = null;
  private prefillAttentionColumn: ArrayLike<number> | null = null;
  private prefillFrontMsColumn: ArrayLike<number> | null = null;
  private decodeRequestsColumn: ArrayLike<number> | null = null;
  private promptTokensColumn: ArrayLike<number> | null = null;

  constructor(at: Position) {
    this.at = at;
  }
  /** Another decision begins. */
  forget(): void {
    this.prefillRequestsColumn = null;
    this.prefillTokensColumn = null;
    this.prefillAttentionColumn = null;
    this.prefillFrontMsColumn = null;
    this.decodeRequestsColumn = null;
    this.promptTokensColumn = null;
  }
  get prefillRequests(): number {
    this.prefillRequestsColumn ??= this.at.columns.phases!.prefillRequests;
    return this.prefillRequestsColumn[this.at.row]!;
  }
  get prefillTokens(): number {
    this.prefillTokensColumn ??= this.at.columns.phases!.prefillTokens;
    return this.prefillTokensColumn[this.at.row]!;
  }
  get prefillAttention(): number {
    this.prefillAttentionColumn ??= this.at.columns.phases!.prefillAttention;
    return this.prefillAttentionColumn[this.at.row]!;
  }
  get prefillFrontMs(): number {
    this.prefillFrontMsColumn ??= this.at.columns.phases!.prefillFrontMs;
    return this.prefillFrontMsColumn[this.at.row]!;
  }
  get decodeRequests(): number {
    this.decodeRequestsColumn ??= this.at.columns.phases!.decodeRequests;
    return this.decodeRequestsColumn[this.at.row]!;
  }
  get promptTokens(): number {
    this.promptTokensColumn ??= this.at.columns.phases!.promptTokens;
    return this.promptTokensColumn[this.at.row]!;
  }
}

class CopyRow {
  private readonly at: Position;
  private copyableBlocksColumn: ArrayLike<number> | null = null;
  private sourcePrefixBlocksColumn: ArrayLike<number> | null = null;

  constructor(at: Position) {
    this.at = at;
  }
  /** Another decision begins. */
  forget(): void {
    this.copyableBlocksColumn = null;
    this.sourcePrefixBlocksColumn = null;
  }
  get copyableBlocks(): number {
    this.copyableBlocksColumn ??= this.at.columns.copies!.copyableBlocks;
    return this.copyableBlocksColumn[this.at.row]!;
  }
  get sourcePrefixBlocks(): number {
    this.sourcePrefixBlocksColumn ??= this.at.columns.copies!.sourcePrefixBlocks;
    return this.sourcePrefixBlocksColumn[this.at.row]!;
  }
  get link(): CopyColumns['link'] {
    return this.at.columns.copies!.link;
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
  /** Another decision begins, or others of its columns. */
  begin(columns: CursorColumns): void;
  moveTo(row: number): void;
}

const NO_COLUMNS: CursorColumns = { workerIds: [], ranks: [] };

/** Makes a cursor over the declared inputs; a component makes one and keeps it. */
export function candidateCursor(inputs: readonly WorkerInput[]): CandidateCursor {
  const at: Position = { columns: NO_COLUMNS, row: 0 };
  class Candidate extends CandidateRow {}
  const getters: PropertyDescriptorMap = {};
  const cache = new CacheRow(at);
  const load = new LoadRow(at);
  const phases = new PhaseRow(at);
  const copies = new CopyRow(at);
  let taints: ArrayLike<number> | null = null;
  let occupancy: ArrayLike<number> | null = null;
  let onCpu: ArrayLike<number> | null = null;
  let inFlight: ArrayLike<number> | null = null;
  let pressure: ArrayLike<number> | null = null;
  if (inputs.includes('cache')) getters.cache = { get: () => cache, enumerable: true };
  if (inputs.includes('load')) getters.load = { get: () => load, enumerable: true };
  if (inputs.includes('preferred-taint')) {
    getters.preferredTaintMultiplier = {
      get: () => {
        taints ??= at.columns.preferredTaintMultiplier!;
        return taints[at.row]!;
      },
      enumerable: true,
    };
  }
  if (inputs.includes('occupancy')) {
    getters.occupancy = {
      get: () => {
        occupancy ??= at.columns.occupancy!;
        return occupancy[at.row]!;
      },
      enumerable: true,
    };
  }
  if (inputs.includes('device')) {
    getters.onCpu = {
      get: () => {
        onCpu ??= at.columns.onCpu!;
        return onCpu[at.row]!;
      },
      enumerable: true,
    };
  }
  if (inputs.includes('in-flight-blocks')) {
    getters.inFlightBlocks = {
      get: () => {
        inFlight ??= at.columns.inFlightBlocks!;
        return inFlight[at.row]!;
      },
      enumerable: true,
    };
  }
  if (inputs.includes('cache-pressure')) {
    getters.cachePressure = {
      get: () => {
        pressure ??= at.columns.cachePressure!;
        return pressure[at.row]!;
      },
      enumerable: true,
    };
  }
  if (inputs.includes('request-phases')) getters.phases = { get: () => phases, enumerable: true };
  if (inputs.includes('output-length')) {
    getters.averageOutputTokens = { get: () => at.columns.averageOutputTokens ?? null, enumerable: true };
  }
  if (inputs.includes('timing')) {
    getters.timing = {
      get: () => {
        const { kind, kinds } = at.columns.timing!;
        return kinds[kind[at.row]!];
      },
      enumerable: true,
    };
  }
  if (inputs.includes('kv-copy-locations')) getters.copies = { get: () => copies, enumerable: true };
  if (inputs.includes('session-lineage')) {
    getters.lineage = { get: () => at.columns.lineage ?? null, enumerable: true };
  }
  Object.defineProperties(Candidate.prototype, getters);
  return {
    candidate: new Candidate(at),
    begin(columns) {
      at.columns = columns;
      cache.forget();
      load.forget();
      phases.forget();
      copies.forget();
      taints = null;
      occupancy = null;
      onCpu = null;
      inFlight = null;
      pressure = null;
    },
    moveTo(row) {
      at.row = row;
    },
  };
}

// A pipeline's own copy of the candidates of a decision: what components get to see, so that none of them can write into the
// columns of the host. A column is copied when it is first read; nobody can read a group that no component declared.
import type { MeasuredLink, SessionLineage, WorkerInput, WorkerTiming } from '../plugin/index.ts';
import { createCandidateTable, growCandidateTable } from './candidate-table.ts';
import { DecisionRows, LazyColumn, LazyIds } from './lazy-column.ts';
import type { CandidateTable } from './types.ts';

/** The copy; its columns are valid for the rows taken last. */
export class CompactCandidates {
  readonly #rows = new DecisionRows();
  readonly #inputs: ReadonlySet<WorkerInput>;
  readonly #own: CandidateTable = createCandidateTable(0);
  #source: CandidateTable = this.#own;
  /** What components may see besides ids. */
  readonly #shown: readonly LazyColumn[];
  readonly ids = new LazyIds(this.#rows);
  readonly effectiveOverlapBlocks = new LazyColumn(this.#rows);
  readonly cachedTokens = new LazyColumn(this.#rows);
  readonly deviceBlocks = new LazyColumn(this.#rows);
  readonly hostBlocks = new LazyColumn(this.#rows);
  readonly diskBlocks = new LazyColumn(this.#rows);
  readonly loadAvailable = new LazyColumn(this.#rows);
  readonly activePrefillTokens = new LazyColumn(this.#rows);
  readonly decodeCostBlocks = new LazyColumn(this.#rows);
  readonly activeRequests = new LazyColumn(this.#rows);
  readonly preferredTaintMultiplier = new LazyColumn(this.#rows);
  readonly occupancy = new LazyColumn(this.#rows);
  readonly onCpu = new LazyColumn(this.#rows);
  readonly inFlightBlocks = new LazyColumn(this.#rows);
  readonly prefillRequests = new LazyColumn(this.#rows);
  readonly prefillTokens = new LazyColumn(this.#rows);
  readonly prefillAttention = new LazyColumn(this.#rows);
  readonly prefillFrontMs = new LazyColumn(this.#rows);
  readonly decodeRequests = new LazyColumn(this.#rows);
  readonly bookedPromptTokens = new LazyColumn(this.#rows);
  readonly cachePressure = new LazyColumn(this.#rows);
  readonly timingKind = new LazyColumn(this.#rows);
  readonly copyableBlocks = new LazyColumn(this.#rows);
  readonly sourcePrefixBlocks = new LazyColumn(this.#rows);

  /** What components may see of sessions. */
  lineage: SessionLineage | null = null;

  /** @param inputs what any component declared. */
  constructor(inputs: ReadonlySet<WorkerInput>) {
    this.#inputs = inputs;
    const shown: LazyColumn[] = [];
    if (inputs.has('cache')) {
      shown.push(this.effectiveOverlapBlocks, this.cachedTokens, this.deviceBlocks);
      shown.push(this.hostBlocks, this.diskBlocks);
    }
    if (inputs.has('load')) {
      shown.push(this.loadAvailable, this.activePrefillTokens, this.decodeCostBlocks, this.activeRequests);
    }
    if (inputs.has('preferred-taint')) shown.push(this.preferredTaintMultiplier);
    if (inputs.has('occupancy')) shown.push(this.occupancy);
    if (inputs.has('device')) shown.push(this.onCpu);
    if (inputs.has('in-flight-blocks')) shown.push(this.inFlightBlocks);
    if (inputs.has('request-phases')) {
      shown.push(this.prefillRequests, this.prefillTokens, this.prefillAttention);
      shown.push(this.prefillFrontMs, this.decodeRequests, this.bookedPromptTokens);
    }
    if (inputs.has('cache-pressure')) shown.push(this.cachePressure);
    if (inputs.has('timing')) shown.push(this.timingKind);
    if (inputs.has('kv-copy-locations')) shown.push(this.copyableBlocks, this.sourcePrefixBlocks);
    this.#shown = shown;
  }

  get count(): number {
    return this.#rows.count;
  }

  get averageOutputTokens(): number | null {
    return this.#source.averageOutputTokens;
  }

  get timings(): readonly WorkerTiming[] {
    return this.#source.timings;
  }

  get copyLink(): MeasuredLink | null {
    return this.#source.copyLink;
  }

  get hasTierMatches(): boolean {
    return this.#source.hasTierMatches;
  }

  /** Makes room; what was copied is lost. */
  grow(rows: number): void {
    if (growCandidateTable(this.#own, rows)) this.#keepInOwn();
  }

  #keepInOwn(): void {
    const own = this.#own;
    this.ids.keepIn(own.workerIds, own.ranks);
    this.effectiveOverlapBlocks.keepIn(own.effectiveOverlapBlocks);
    this.cachedTokens.keepIn(own.cachedTokens);
    this.deviceBlocks.keepIn(own.deviceBlocks);
    this.hostBlocks.keepIn(own.hostBlocks);
    this.diskBlocks.keepIn(own.diskBlocks);
    this.loadAvailable.keepIn(own.loadAvailable);
    this.activePrefillTokens.keepIn(own.activePrefillTokens);
    this.decodeCostBlocks.keepIn(own.decodeCostBlocks);
    this.activeRequests.keepIn(own.activeRequests);
    this.preferredTaintMultiplier.keepIn(own.preferredTaintMultiplier);
    this.occupancy.keepIn(own.occupancy);
    this.onCpu.keepIn(own.onCpu);
    this.inFlightBlocks.keepIn(own.inFlightBlocks);
    this.prefillRequests.keepIn(own.prefillRequests);
    this.prefillTokens.keepIn(own.prefillTokens);
    this.prefillAttention.keepIn(own.prefillAttention);
    this.prefillFrontMs.keepIn(own.prefillFrontMs);
    this.decodeRequests.keepIn(own.decodeRequests);
    this.bookedPromptTokens.keepIn(own.bookedPromptTokens);
    this.cachePressure.keepIn(own.cachePressure);
    this.timingKind.keepIn(own.timingKind);
    this.copyableBlocks.keepIn(own.copyableBlocks);
    this.sourcePrefixBlocks.keepIn(own.sourcePrefixBlocks);
  }

  /** Takes rows `from[0 … count)` of `source` as rows 0 …; null = its first `count` rows. Both must stay as they are while columns are read. */
  take(source: CandidateTable, from: Int32Array | null, count: number): void {
    if (!this.isWhole()) {
      Object.assign(this.#own, createCandidateTable(this.#own.slots.length));
      this.#keepInOwn();
    }
    this.#source = source;
    this.#rows.set(from, count);
    this.ids.point(source.workerIds, source.ranks);
    this.effectiveOverlapBlocks.point(source.effectiveOverlapBlocks);
    this.cachedTokens.point(source.cachedTokens);
    this.deviceBlocks.point(source.deviceBlocks);
    this.hostBlocks.point(source.hostBlocks);
    this.diskBlocks.point(source.diskBlocks);
    this.loadAvailable.point(source.loadAvailable);
    this.activePrefillTokens.point(source.activePrefillTokens);
    this.decodeCostBlocks.point(source.decodeCostBlocks);
    this.activeRequests.point(source.activeRequests);
    this.preferredTaintMultiplier.point(source.preferredTaintMultiplier);
    this.occupancy.point(source.occupancy);
    this.onCpu.point(source.onCpu);
    this.inFlightBlocks.point(source.inFlightBlocks);
    this.prefillRequests.point(source.prefillRequests);
    this.prefillTokens.point(source.prefillTokens);
    this.prefillAttention.point(source.prefillAttention);
    this.prefillFrontMs.point(source.prefillFrontMs);
    this.decodeRequests.point(source.decodeRequests);
    this.bookedPromptTokens.point(source.bookedPromptTokens);
    this.cachePressure.point(source.cachePressure);
    this.timingKind.point(source.timingKind);
    this.copyableBlocks.point(source.copyableBlocks);
    this.sourcePrefixBlocks.point(source.sourcePrefixBlocks);
  }

  /** Takes fewer rows of the same table, as {@link take}. What components wrote into columns is gone. */
  narrow(from: Int32Array, count: number): void {
    this.#rows.set(from, count);
  }

  /** Whether every array that components may see is there: one that was transferred to another thread, say, has no rows any more. */
  isWhole(): boolean {
    // There is none yet; nobody sees the slots.
    if (this.#own.slots.length === 0) return true;
    const shown = this.#shown;
    for (let at = 0; at < shown.length; at += 1) if (!shown[at]!.isAttached) return false;
    return this.ids.isAttached;
  }

  /** Whether a row has blocks to copy, as the host knows it, whatever components wrote. */
  hasCopyable(row: number): boolean {
    const { hasCopies, copyableBlocks } = this.#source;
    const { from } = this.#rows;
    return hasCopies && copyableBlocks[from === null ? row : from[row]!]! >= 1;
  }

  /** The rows as a table: the columns of every declared group copied, stale numbers in the others. */
  table(): CandidateTable {
    const own = this.#own;
    const source = this.#source;
    own.count = this.#rows.count;
    own.hasTierMatches = source.hasTierMatches;
    own.hasLowerTierMatches = source.hasLowerTierMatches;
    own.hasUnknownLoads = source.hasUnknownLoads;
    own.hasTaintMultipliers = source.hasTaintMultipliers;
    own.hasCopies = source.hasCopies;
    own.copyLink = source.copyLink;
    own.averageOutputTokens = source.averageOutputTokens;
    own.timings = source.timings;
    const inputs = this.#inputs;
    this.ids.refresh();
    if (inputs.has('cache')) {
      this.effectiveOverlapBlocks.refresh();
      this.cachedTokens.refresh();
      this.deviceBlocks.refresh();
      this.hostBlocks.refresh();
      this.diskBlocks.refresh();
    }
    if (inputs.has('load')) {
      this.loadAvailable.refresh();
      this.activePrefillTokens.refresh();
      this.decodeCostBlocks.refresh();
      this.activeRequests.refresh();
    }
    if (inputs.has('preferred-taint')) this.preferredTaintMultiplier.refresh();
    if (inputs.has('occupancy')) this.occupancy.refresh();
    if (inputs.has('device')) this.onCpu.refresh();
    if (inputs.has('in-flight-blocks')) this.inFlightBlocks.refresh();
    if (inputs.has('request-phases')) {
      this.prefillRequests.refresh();
      this.prefillTokens.refresh();
      this.prefillAttention.refresh();
      this.prefillFrontMs.refresh();
      this.decodeRequests.refresh();
      this.bookedPromptTokens.refresh();
    }
    if (inputs.has('cache-pressure')) this.cachePressure.refresh();
    if (inputs.has('timing')) this.timingKind.refresh();
    if (source.hasCopies) {
      this.copyableBlocks.refresh();
      this.sourcePrefixBlocks.refresh();
    }
    return own;
  }
}

// The columns of one decision: eligible candidates with what the index found and the load they carry. One table is reused by
// every decision; columns only ever grow.
import type { PartitionCandidates } from '../fleet/index.ts';
import { type CandidateTable, createCostColumns } from '../host/index.ts';
import type { PrefixMatch } from '../kv/index.ts';
import type { MeasuredLink, WorkerTiming } from '../plugin/index.ts';
import type { SlotLoads } from './slot-loads.ts';
import type { PlacementTable } from './types.ts';

/** Reused candidate columns. */
export class CandidateColumns implements PlacementTable {
  count = 0;
  slots = new Int32Array(0);
  workerIds = new BigUint64Array(0);
  idWords = new Uint32Array(0);
  ranks = new Int32Array(0);
  effectiveOverlapBlocks = new Float64Array(0);
  cachedTokens = new Float64Array(0);
  deviceBlocks = new Float64Array(0);
  hostBlocks = new Float64Array(0);
  diskBlocks = new Float64Array(0);
  hasTierMatches = false;
  hasLowerTierMatches = false;
  /** `fillLoad` knows the load of every candidate. */
  hasUnknownLoads = false;
  hasTaintMultipliers = false;
  loadAvailable = new Float64Array(0);
  activePrefillTokens = new Float64Array(0);
  decodeCostBlocks = new Float64Array(0);
  activeRequests = new Float64Array(0);
  preferredTaintMultiplier = new Float64Array(0);
  occupancy = new Float64Array(0);
  onCpu = new Float64Array(0);
  inFlightBlocks = new Float64Array(0);
  prefillRequests = new Float64Array(0);
  prefillBehind = new Float64Array(0);
  prefillTokens = new Float64Array(0);
  prefillAttention = new Float64Array(0);
  prefillFrontMs = new Float64Array(0);
  decodeRequests = new Float64Array(0);
  bookedPromptTokens = new Float64Array(0);
  cachePressure = new Float64Array(0);
  mostBookedPromptTokens = Number.POSITIVE_INFINITY;
  averageOutputTokens: number | null = null;
  timings: readonly WorkerTiming[] = [];
  timingKind = new Float64Array(0);
  hasCopies = false;
  copyableBlocks = new Float64Array(0);
  copyLink: MeasuredLink | null = null;
  sourcePrefixBlocks = new Float64Array(0);
  costs = new Float64Array(0);
  scan: CandidateTable['scan'] = null;
  activeDecodeBlocks = new Float64Array(0);
  additionalBlocks = new Float64Array(0);

  /** Rows whose cache columns are not 0. */
  #cachedRows = new Int32Array(0);
  #cachedCount = 0;
  /** Rows from 0 whose taint multiplier is known to be 1. */
  #neutralRows = 0;
  /** Row of each slot in this table; stale entries are told by comparing `slots`. */
  #rowOfSlot = new Int32Array(0);

  /** Empties the table and makes room. */
  begin(candidates: number, slotCapacity: number): void {
    this.count = 0;
    if (slotCapacity > this.#rowOfSlot.length) this.#rowOfSlot = new Int32Array(slotCapacity * 2);
    if (candidates > this.slots.length) this.#grow(Math.max(16, candidates * 2));
  }

  /** Takes candidate `index` of a partition in as the next row. */
  admit(candidates: PartitionCandidates, index: number): void {
    const row = this.count++;
    const slot = candidates.slots[index] ?? 0;
    this.slots[row] = slot;
    this.ranks[row] = candidates.ranks[index] ?? 0;
    this.onCpu[row] = candidates.onCpu[index] ?? 0;
    this.idWords[2 * row] = candidates.idWords[2 * index] ?? 0;
    this.idWords[2 * row + 1] = candidates.idWords[2 * index + 1] ?? 0;
    this.#rowOfSlot[slot] = row;
  }

  /**
   * Fills the cache columns. Host and disk blocks extend the shallower tiers; disk and external count as one.
   * Effective overlap = device + host × weight + disk × weight; cached tokens = round(effective overlap × block size).
   */
  fillCache(match: PrefixMatch | null, hostWeight: number, diskWeight: number, blockSize: number): void {
    const { count } = this;
    this.#clearCache();
    this.hasTierMatches = match !== null && match.count > 0;
    this.hasLowerTierMatches = false;
    if (match === null) return;
    const [device, host, disk, external] = match.depthPerTier;
    for (let found = 0; found < match.count; found += 1) {
      const slot = match.owners[found] ?? -1;
      const row = this.#rowOfSlot[slot] ?? -1;
      if (row < 0 || row >= count || this.slots[row] !== slot) continue;
      const onDevice = device?.[found] ?? 0;
      const onHost = host?.[found] ?? 0;
      const onDisk = (disk?.[found] ?? 0) + (external?.[found] ?? 0);
      this.#cachedRows[this.#cachedCount++] = row;
      if (onHost + onDisk > 0) this.hasLowerTierMatches = true;
      const overlap = onDevice + onHost * hostWeight + onDisk * diskWeight;
      this.deviceBlocks[row] = onDevice;
      this.hostBlocks[row] = onHost;
      this.diskBlocks[row] = onDisk;
      this.effectiveOverlapBlocks[row] = overlap;
      this.cachedTokens[row] = Math.round(overlap * blockSize);
    }
  }

  /**
   * Fills the load columns; `loads.measure` must have been called for the prompt of `blocks` full blocks, and `ensureCapacity` for
   * every slot.
   */
  fillLoad(loads: SlotLoads, blocks: number): void {
    const { count, slots, activePrefillTokens, activeDecodeBlocks, additionalBlocks } = this;
    const { decodeCostBlocks, activeRequests, occupancy } = this;
    const prefillOf = loads.activePrefillTokens;
    const decodeOf = loads.activeDecodeBlocks;
    const requestsOf = loads.activeRequests;
    const shared = loads.sharesPrompt;
    for (let row = 0; row < count; row += 1) {
      const slot = slots[row]!;
      const held = decodeOf[slot]!;
      const additional = shared ? loads.additionalBlocks(slot, blocks) : blocks;
      const requests = requestsOf[slot]!;
      activePrefillTokens[row] = prefillOf[slot]!;
      activeDecodeBlocks[row] = held;
      additionalBlocks[row] = additional;
      decodeCostBlocks[row] = held + additional;
      activeRequests[row] = requests;
      occupancy[row] = requests;
    }
    loads.decayPrefill(activePrefillTokens, slots, count);
  }

  /** Makes every taint multiplier 1. */
  neutralTaints(): void {
    this.hasTaintMultipliers = false;
    if (this.#neutralRows >= this.count) return;
    this.preferredTaintMultiplier.fill(1, 0, this.count);
    this.#neutralRows = this.count;
  }

  /** Sets the taint multiplier of a row. */
  setTaint(row: number, multiplier: number): void {
    this.hasTaintMultipliers = true;
    this.preferredTaintMultiplier[row] = multiplier;
    this.#neutralRows = Math.min(this.#neutralRows, row);
  }

  /** Zeroes the cache columns of the rows that the last decision filled. */
  #clearCache(): void {
    for (let at = 0; at < this.#cachedCount; at += 1) {
      const row = this.#cachedRows[at]!;
      this.deviceBlocks[row] = 0;
      this.hostBlocks[row] = 0;
      this.diskBlocks[row] = 0;
      this.effectiveOverlapBlocks[row] = 0;
      this.cachedTokens[row] = 0;
    }
    this.#cachedCount = 0;
  }

  #grow(length: number): void {
    this.#neutralRows = 0;
    this.#cachedCount = 0;
    this.#cachedRows = new Int32Array(length);
    this.slots = new Int32Array(length);
    this.workerIds = new BigUint64Array(length);
    this.idWords = new Uint32Array(this.workerIds.buffer);
    this.ranks = new Int32Array(length);
    Object.assign(this, createCostColumns(length));
    this.loadAvailable.fill(1);
    this.occupancy = new Float64Array(length);
    this.onCpu = new Float64Array(length);
    this.timingKind = new Float64Array(length);
    this.copyableBlocks = new Float64Array(length);
    this.sourcePrefixBlocks = new Float64Array(length);
    this.activeDecodeBlocks = new Float64Array(length);
    this.additionalBlocks = new Float64Array(length);
  }
}

// A pipeline's own copy of the candidates of a decision: what components get to see, so that none of them can write into the
// columns of the host. Only groups that a component declared are copied; the others hold stale numbers that no view shows.
import type { WorkerInput } from '../plugin/index.ts';
import { createCandidateTable, growCandidateTable } from './candidate-table.ts';
import type { CandidateTable } from './types.ts';

/** The copy. */
export class CompactCandidates {
  readonly table: CandidateTable = createCandidateTable(0);
  readonly #cache: boolean;
  readonly #load: boolean;
  readonly #taints: boolean;
  readonly #occupancy: boolean;
  readonly #copies = Array.from({ length: 13 }, () => new ColumnCopy());
  readonly #ids = new IdCopy();

  constructor(inputs: ReadonlySet<WorkerInput>) {
    this.#cache = inputs.has('cache');
    this.#load = inputs.has('load');
    this.#taints = inputs.has('preferred-taint');
    this.#occupancy = inputs.has('occupancy');
  }

  /** Makes room; what was copied is lost. */
  grow(rows: number): void {
    growCandidateTable(this.table, rows);
  }

  /** Copies rows `from[0 … count)` of `source` to rows 0 …; null = its first `count` rows. `source` may be this copy when `from` ascends. */
  take(source: CandidateTable, from: Int32Array | null, count: number): void {
    const target = this.table;
    const copies = this.#copies;
    target.hasTierMatches = source.hasTierMatches;
    target.hasLowerTierMatches = source.hasLowerTierMatches;
    target.hasUnknownLoads = source.hasUnknownLoads;
    target.hasTaintMultipliers = source.hasTaintMultipliers;
    target.hasCopies = source.hasCopies;
    target.count = count;
    this.#ids.take(source, from, count, target);
    // One by one: a loop over names would look every array up by name again.
    if (this.#cache) {
      copies[0]!.take(source.effectiveOverlapBlocks, from, count, target.effectiveOverlapBlocks);
      copies[1]!.take(source.cachedTokens, from, count, target.cachedTokens);
      copies[2]!.take(source.deviceBlocks, from, count, target.deviceBlocks);
      copies[3]!.take(source.hostBlocks, from, count, target.hostBlocks);
      copies[4]!.take(source.diskBlocks, from, count, target.diskBlocks);
    }
    if (this.#load) {
      copies[5]!.take(source.loadAvailable, from, count, target.loadAvailable);
      copies[6]!.take(source.activePrefillTokens, from, count, target.activePrefillTokens);
      copies[7]!.take(source.decodeCostBlocks, from, count, target.decodeCostBlocks);
      copies[8]!.take(source.activeRequests, from, count, target.activeRequests);
    }
    if (this.#taints) {
      copies[9]!.take(source.preferredTaintMultiplier, from, count, target.preferredTaintMultiplier);
    }
    if (this.#occupancy) copies[10]!.take(source.occupancy, from, count, target.occupancy);
    if (!source.hasCopies) return;
    copies[11]!.take(source.copyableBlocks, from, count, target.copyableBlocks);
    copies[12]!.take(source.sourcePrefixBlocks, from, count, target.sourcePrefixBlocks);
  }
}

/** Below some hundred rows a loop is faster than handing an array over. */
const FEW = 96;

/** Copies a column, always the same one. The view of what is copied is kept: making one costs more than copying it. */
export class ColumnCopy {
  #read: Float64Array = new Float64Array(0);
  #view: Float64Array = new Float64Array(0);

  /** As {@link CompactCandidates.take}. */
  take(read: Float64Array, from: Int32Array | null, count: number, write: Float64Array): void {
    if (from !== null) {
      for (let row = 0; row < count; row += 1) write[row] = read[from[row]!]!;
    } else if (count <= FEW) {
      for (let row = 0; row < count; row += 1) write[row] = read[row]!;
    } else {
      if (read !== this.#read || count !== this.#view.length) {
        this.#read = read;
        this.#view = read.subarray(0, count);
      }
      write.set(this.#view);
    }
  }
}

/** Copies worker ids, as pairs of words because each bigint read would be an object, and ranks. */
class IdCopy {
  readonly #read = new IdWords();
  readonly #written = new IdWords();
  #ranks: Int32Array = new Int32Array(0);
  #rankView: Int32Array = new Int32Array(0);
  #wordView: Int32Array = new Int32Array(0);

  take(source: CandidateTable, from: Int32Array | null, count: number, target: CandidateTable): void {
    const words = source === target ? this.#written.of(target.workerIds) : this.#read.of(source.workerIds);
    const wordsOut = this.#written.of(target.workerIds);
    const { ranks } = source;
    const ranksOut = target.ranks;
    if (from === null && count > FEW) {
      if (
        ranks !== this.#ranks ||
        count !== this.#rankView.length ||
        words.buffer !== this.#wordView.buffer
      ) {
        this.#ranks = ranks;
        this.#rankView = ranks.subarray(0, count);
        this.#wordView = words.subarray(0, 2 * count);
      }
      ranksOut.set(this.#rankView);
      wordsOut.set(this.#wordView);
      return;
    }
    for (let row = 0; row < count; row += 1) {
      const at = from === null ? row : from[row]!;
      ranksOut[row] = ranks[at]!;
      wordsOut[2 * row] = words[2 * at]!;
      wordsOut[2 * row + 1] = words[2 * at + 1]!;
    }
  }
}

/** The words of a column of ids; looked at anew when the column is another one. */
class IdWords {
  #ids: BigUint64Array = new BigUint64Array(0);
  #words: Int32Array = new Int32Array(0);

  of(ids: BigUint64Array): Int32Array {
    if (ids !== this.#ids) {
      this.#ids = ids;
      this.#words = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    }
    return this.#words;
  }
}

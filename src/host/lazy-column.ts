// Columns that are copied when somebody reads them: a component declares whole groups and reads some of their columns, and copying
// nine columns of a thousand rows costs as much as a scorer.

/** Which rows of the caller's table a decision is about, for all of its columns. */
export class DecisionRows {
  /** Row of the caller's table per row; null = the same rows. */
  from: Int32Array | null = null;
  count = 0;
  /** Another one for every decision and every filtering: what was copied before is stale. */
  number = 0;

  set(from: Int32Array | null, count: number): void {
    this.from = from;
    this.count = count;
    this.number += 1;
  }
}

/** Below some hundred rows a loop is faster than handing an array over. */
const FEW = 96;

/** A copy of one column, always the same array until {@link keepIn}. */
export class LazyColumn {
  readonly #rows: DecisionRows;
  #source: Float64Array = new Float64Array(0);
  #own: Float64Array = new Float64Array(0);
  /** The same numbers in an object for components, who may change what its members answer. */
  #shown: Float64Array = this.#own;
  #copied = -1;
  #viewed: Float64Array | null = null;
  /** Of `#viewed`. Kept: making a view costs more than copying it. */
  #view: Float64Array = new Float64Array(0);

  constructor(rows: DecisionRows) {
    this.#rows = rows;
  }

  /** Where the copies are kept; with room for all rows. */
  keepIn(own: Float64Array): void {
    this.#own = own;
    this.#shown = own.subarray();
    this.#copied = -1;
  }

  /** What the next copies are made of. */
  point(source: Float64Array): void {
    this.#source = source;
  }

  /** False once a component has given the array away, or before there is one. */
  get isAttached(): boolean {
    return this.#own.length > 0;
  }

  /** The copy for this decision. */
  get values(): Float64Array {
    this.refresh();
    return this.#shown;
  }

  /** Copies, unless that was done for this decision. */
  refresh(): void {
    if (this.#copied !== this.#rows.number) this.#copy();
  }

  /** Another number in every row for this decision. */
  fill(value: number): void {
    this.#copied = this.#rows.number;
    this.#own.fill(value, 0, this.#rows.count);
  }

  #copy(): void {
    const { from, count, number } = this.#rows;
    const read = this.#source;
    const write = this.#own;
    this.#copied = number;
    if (from !== null) {
      for (let row = 0; row < count; row += 1) write[row] = read[from[row]!]!;
    } else if (count <= FEW) {
      for (let row = 0; row < count; row += 1) write[row] = read[row]!;
    } else {
      if (read !== this.#viewed || count !== this.#view.length) {
        this.#viewed = read;
        this.#view = read.subarray(0, count);
      }
      write.set(this.#view);
    }
  }
}

/** Copies of worker ids, as pairs of words because each bigint read would be an object, and of ranks. */
export class LazyIds {
  readonly #rows: DecisionRows;
  #sourceIds: BigUint64Array = new BigUint64Array(0);
  #sourceWords: Int32Array = new Int32Array(0);
  #sourceRanks: Int32Array = new Int32Array(0);
  #ids: BigUint64Array = new BigUint64Array(0);
  #words: Int32Array = new Int32Array(0);
  #ranks: Int32Array = new Int32Array(0);
  #shownRanks: Int32Array = this.#ranks;
  #copied = -1;

  constructor(rows: DecisionRows) {
    this.#rows = rows;
  }

  /** As {@link LazyColumn.keepIn}. */
  keepIn(ids: BigUint64Array, ranks: Int32Array): void {
    this.#ids = ids;
    this.#words = wordsOf(ids);
    this.#ranks = ranks;
    this.#shownRanks = ranks.subarray();
    this.#copied = -1;
  }

  /** As {@link LazyColumn.point}. */
  point(ids: BigUint64Array, ranks: Int32Array): void {
    if (ids !== this.#sourceIds) {
      this.#sourceIds = ids;
      this.#sourceWords = wordsOf(ids);
    }
    this.#sourceRanks = ranks;
  }

  /** As {@link LazyColumn.isAttached}. */
  get isAttached(): boolean {
    return this.#words.length > 0 && this.#ranks.length > 0;
  }

  get workerIds(): BigUint64Array {
    this.refresh();
    return this.#ids;
  }

  get ranks(): Int32Array {
    this.refresh();
    return this.#shownRanks;
  }

  /** As {@link LazyColumn.refresh}. */
  refresh(): void {
    if (this.#copied !== this.#rows.number) this.#copy();
  }

  #copy(): void {
    const { from, count, number } = this.#rows;
    const [words, ranks] = [this.#sourceWords, this.#sourceRanks];
    const [wordsOut, ranksOut] = [this.#words, this.#ranks];
    this.#copied = number;
    for (let row = 0; row < count; row += 1) {
      const at = from === null ? row : from[row]!;
      ranksOut[row] = ranks[at]!;
      wordsOut[2 * row] = words[2 * at]!;
      wordsOut[2 * row + 1] = words[2 * at + 1]!;
    }
  }
}

function wordsOf(ids: BigUint64Array): Int32Array {
  return new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
}

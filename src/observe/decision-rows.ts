// Which candidates of a decision are kept when there are more than the record holds: the winner, its ties, the best ones, and
// then whoever comes first.

/** Besides the winner and its ties, this many of the cheapest are kept. */
const BEST = 32;

/** Chooses rows for a record; its arrays are reused. */
export class RowChooser {
  /** Chosen rows, ascending; valid up to what `choose` returned, until the next call. */
  rows = new Int32Array(64);
  #chosen = new Uint8Array(64);
  readonly #best = new Int32Array(BEST);

  /**
   * Chooses at most `limit` of `count` rows. A NaN cost is dearer than any number.
   * @returns how many were chosen.
   */
  choose(count: number, costs: Float64Array, winner: number, limit: number): number {
    if (count > this.rows.length) {
      this.rows = new Int32Array(count * 2);
      this.#chosen = new Uint8Array(count * 2);
    }
    if (count <= limit) {
      for (let row = 0; row < count; row += 1) this.rows[row] = row;
      return count;
    }
    const chosen = this.#chosen;
    chosen.fill(0, 0, count);
    let left = limit;
    const take = (row: number): void => {
      if (left === 0 || chosen[row] === 1) return;
      chosen[row] = 1;
      left -= 1;
    };
    take(winner);
    const best = this.#cheapest(count, costs);
    const lowest = costs[this.#best[0] ?? 0] ?? Number.NaN;
    for (let row = 0; row < count && left > 0; row += 1) if (costs[row] === lowest) take(row);
    for (let place = 0; place < best; place += 1) take(this.#best[place] ?? 0);
    for (let row = 0; row < count && left > 0; row += 1) take(row);
    let written = 0;
    for (let row = 0; row < count; row += 1) if (chosen[row] === 1) this.rows[written++] = row;
    return written;
  }

  /** Fills `#best` with the cheapest rows in ascending cost; returns how many. */
  #cheapest(count: number, costs: Float64Array): number {
    const best = this.#best;
    let size = 0;
    for (let row = 0; row < count; row += 1) {
      const cost = costs[row] ?? Number.NaN;
      if (Number.isNaN(cost)) continue;
      if (size === BEST && cost >= (costs[best[BEST - 1] ?? 0] ?? 0)) continue;
      let place = size < BEST ? size++ : BEST - 1;
      while (place > 0 && cost < (costs[best[place - 1] ?? 0] ?? 0)) {
        best[place] = best[place - 1] ?? 0;
        place -= 1;
      }
      best[place] = row;
    }
    return size;
  }
}

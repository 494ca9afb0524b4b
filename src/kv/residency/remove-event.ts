// One remove event on its way into the index. Engines mostly name blocks of a chain side by side, which go by runs of one column.
import type { HashPairs } from '../hashing/types.ts';
import { OFFSET_MASK } from './name-finder.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';

const NONE = -1;
/** Names of a column. */
const COLUMN_NAMES: number = OFFSET_MASK + 1;

/** Applies remove events, one at a time. */
export class RemoveEvent {
  readonly #residencies: Residencies;

  constructor(residencies: Residencies) {
    this.#residencies = residencies;
  }

  /**
   * Takes an owner's engine hashes off a tier.
   * @param mixes their mixed hashes.
   * @param told called with each name before it goes; null when nobody wants to know.
   * @returns how many of them were on the tier.
   */
  apply(
    state: OwnerState,
    tier: number,
    external: HashPairs,
    mixes: Int32Array,
    told: ((name: number) => void) | null,
  ): number {
    const residencies = this.#residencies;
    const blocks = external.length >> 1;
    state.names?.touch(mixes, blocks);
    state.routerNames?.touch(mixes, blocks);
    const byRuns = told === null && state.isSwept;
    let removed = 0;
    for (let i = 0; i < blocks; ) {
      const name = this.#find(state, external, mixes, i);
      const run = name === NONE || !byRuns ? 1 : this.#runFrom(name, state, external, mixes, i);
      if (run > 1 && residencies.releaseRun(name, run, tier, mixes, i, state)) {
        removed += run;
      } else if (name !== NONE) {
        for (let nth = 0; nth < run; nth++) removed += this.#release(name + nth, tier, state, told);
      }
      i += run;
    }
    return removed;
  }

  /** How many engine hashes from `index` on are the names side by side from `name` on in its column. */
  #runFrom(name: number, state: OwnerState, external: HashPairs, mixes: Int32Array, index: number): number {
    const most = Math.min((external.length >> 1) - index, COLUMN_NAMES - (name & OFFSET_MASK));
    let run = 1;
    while (run < most && this.#find(state, external, mixes, index + run) === name + run) run++;
    return run;
  }

  #find(state: OwnerState, external: HashPairs, mixes: Int32Array, index: number): number {
    const lo = external[2 * index]! | 0;
    return this.#residencies.names.findMixed(state, lo, external[2 * index + 1]! | 0, mixes[index]!);
  }

  #release(name: number, tier: number, state: OwnerState, told: ((name: number) => void) | null): number {
    if (((this.#residencies.tiersOf(name) >> tier) & 1) === 0) return 0;
    told?.(name);
    this.#residencies.release(name, tier, state);
    return 1;
  }
}

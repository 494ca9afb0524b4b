// One store event on its way into the index: first everything it meets is looked at, so that it can be refused whole, then its blocks
// are held. Mostly an owner announces blocks it has no names for yet; these go in by runs of an extent.
import type { HashPairs } from '../hashing/types.ts';
import type { Extents } from './extents.ts';
import type { OwnerState } from './owner-state.ts';
import type { Residencies } from './residencies.ts';

const NONE = -1;

/** Matches and applies store events, one at a time. */
export class StoreEvent {
  readonly #extents: Extents;
  readonly #residencies: Residencies;
  /** Names that the owner has for the event's engine hashes, and blocks that are there: of an event with some such names. */
  #names = new Int32Array(0);
  #blocks = new Int32Array(0);
  #isFresh = false;

  constructor(extents: Extents, residencies: Residencies) {
    this.#extents = extents;
    this.#residencies = residencies;
  }

  /** Bytes of the reused arrays. */
  get bytes(): number {
    return this.#names.byteLength + this.#blocks.byteLength;
  }

  /**
   * Looks at which names and blocks of an event are there already.
   * @param mixes mixed hashes of the engine hashes.
   * @param parent block before the event's first, −1 for none.
   * @returns how many engine hashes the owner has no name for; −1 when one stands for another block.
   */
  match(
    state: OwnerState | undefined,
    parent: number,
    external: HashPairs,
    mixes: Int32Array,
    sequence: HashPairs,
  ): number {
    const blocks = external.length >> 1;
    if (this.#names.length < blocks) {
      this.#names = new Int32Array(2 * blocks);
      this.#blocks = new Int32Array(2 * blocks);
    }
    this.#isFresh = true;
    if (state === undefined) return blocks;
    state.names?.touch(mixes, blocks);
    state.routerNames?.touch(mixes, blocks);
    if (!state.isSwept) this.#sweepFor(state, parent, external, sequence);
    // Rows stand where names will, if there are any.
    const named = state.names?.findAll(external, mixes, blocks, this.#names) ?? 0;
    if (named + (state.routerNames?.findAll(external, mixes, blocks, this.#names) ?? 0) === 0) return blocks;
    this.#isFresh = false;
    let added = 0;
    for (let i = 0; i < blocks; i++) {
      const name = this.#residencies.names.find(state, external[2 * i]! | 0, external[2 * i + 1]! | 0);
      this.#names[i] = name;
      if (name === NONE) added++;
    }
    return this.#locate(parent, sequence, blocks) ? added : NONE;
  }

  /** Makes the event's blocks held on a tier; returns how many were not yet. Nothing in here can fail. */
  apply(
    state: OwnerState,
    tier: number,
    parent: number,
    external: HashPairs,
    mixes: Int32Array,
    local: HashPairs,
    sequence: HashPairs,
  ): number {
    if (!this.#isFresh) return this.#applyEach(state, tier, parent, external, local, sequence);
    const extents = this.#extents;
    const blocks = external.length >> 1;
    let before = parent;
    for (let i = 0; i < blocks; ) {
      let block = extents.findAfter(before, sequence, i);
      let run: number;
      if (block === NONE) {
        block = extents.add(local, sequence, i, before, blocks - i);
        run = extents.extend(local, sequence, i, blocks, block);
      } else {
        const there = extents.endOf(extents.arena.runOf(block)) - block;
        run = extents.matching(block, Math.min(there, blocks - i), sequence, i);
      }
      this.#holdRun(state, tier, block, run, external, mixes, sequence, i);
      before = block + run - 1;
      i += run;
    }
    return blocks;
  }

  /** Holds blocks of an extent, split where engine hashes that are the router's change with others. */
  #holdRun(
    state: OwnerState,
    tier: number,
    block: number,
    run: number,
    external: HashPairs,
    mixes: Int32Array,
    sequence: HashPairs,
    index: number,
  ): void {
    for (let from = 0; from < run; ) {
      const named = isNamed(external, sequence, index + from);
      let to = from + 1;
      while (to < run && isNamed(external, sequence, index + to) === named) to++;
      this.#residencies.addRun(block + from, to - from, tier, named, external, mixes, index + from, state);
      from = to;
    }
  }

  #applyEach(
    state: OwnerState,
    tier: number,
    parent: number,
    external: HashPairs,
    local: HashPairs,
    sequence: HashPairs,
  ): number {
    const blocks = external.length >> 1;
    let changed = 0;
    let before = parent;
    for (let i = 0; i < blocks; i++) {
      let block = this.#blocks[i]!;
      if (block === NONE) block = this.#extents.add(local, sequence, i, before, blocks - i);
      before = block;
      const name = this.#names[i]!;
      if (name !== NONE) {
        if (this.#residencies.addTier(name, tier, state)) changed++;
        continue;
      }
      const lo = external[2 * i]! | 0;
      const hi = external[2 * i + 1]! | 0;
      this.#residencies.add(block, tier, isNamed(external, sequence, i), lo, hi, state);
      changed++;
    }
    return changed;
  }

  /** Finds the event's blocks; false when a name stands for another one. */
  #locate(parent: number, sequence: HashPairs, blocks: number): boolean {
    let before = parent;
    for (let i = 0; i < blocks; i++) {
      before = this.#extents.findAfter(before, sequence, i);
      this.#blocks[i] = before;
      const name = this.#names[i]!;
      if (name !== NONE && this.#residencies.blockOf(name) !== before) return false;
    }
    return true;
  }

  /** Takes cleared blocks away that the event could come across, so that nothing moves under it. */
  #sweepFor(state: OwnerState, parent: number, external: HashPairs, sequence: HashPairs): void {
    let before = parent;
    for (let i = 0; i < external.length >> 1; i++) {
      this.#residencies.names.find(state, external[2 * i]! | 0, external[2 * i + 1]! | 0);
      before = this.#extents.findAfter(before, sequence, i);
      if (before === NONE) continue;
      const extent = this.#extents.arena.runOf(before);
      this.#residencies.cleared.sweepPair(extent, state);
      if (before >= this.#extents.endOf(extent)) before = NONE;
    }
  }
}

/** Whether an engine's hash of a block is not the router's, so that it must be kept. */
function isNamed(external: HashPairs, sequence: HashPairs, index: number): boolean {
  return external[2 * index] !== sequence[2 * index] || external[2 * index + 1] !== sequence[2 * index + 1];
}

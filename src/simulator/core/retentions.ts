// What keeps KV blocks from eviction: per block the declarations of several sessions, each with a priority and an end of its own. A
// block counts with the highest priority of those that still hold; none borrows another's end.

/** Declarations one block can have; with one more the weakest goes. */
export const MAX_DECLARATIONS = 4;
const LEAST_SWEEP = 64;

/** One retain action and what became of it since. */
export interface RetainAction {
  readonly messageId: string;
  readonly actionId: string;
  /** Declarations it still has on blocks. */
  kept: number;
  /** Blocks that were evicted before its time was over. */
  evicted: number;
  /** Blocks it kept until the end. */
  lapsed: number;
}

/** One priority and end within an action, for any number of blocks. */
export interface RetainDeclaration {
  readonly action: RetainAction;
  /** Whose it is: a later declaration of the same name replaces it on the blocks both name. */
  readonly declarer: string;
  /** 1 to 100. */
  readonly priority: number;
  /** ms; infinite = no end. */
  readonly expiresAt: number;
  /** Blocks it was made for, in order; some may have lost it, fewer than half of many. */
  blocks: number[];
  /** Blocks that still have it. */
  held: number;
  /** Place among all declarations, set with the first block: of two that end together the older ends first. */
  order: number;
}

/** Something to tell of a retain action after its admission. */
export interface LateRetain {
  readonly action: RetainAction;
  readonly reason: 'expired' | 'evicted';
}

/** The declarations on the blocks of one pool. */
export class Retentions {
  /** Strongest first; only retained blocks. */
  readonly #byBlock = new Map<number, RetainDeclaration[]>();
  /** Binary heap by end; those without an end, or that lost all blocks, need not be in it. */
  #ends: RetainDeclaration[] = [];
  #made = 0;
  #sweepAt = LEAST_SWEEP;
  #late: LateRetain[] = [];

  /** Retained blocks. */
  get blocks(): number {
    return this.#byBlock.size;
  }

  /** Declarations kept for their end, of which some may be void. */
  get pendingEnds(): number {
    return this.#ends.length;
  }

  has(block: number): boolean {
    return this.#byBlock.has(block);
  }

  /** Highest priority of a block; −1 = not retained. */
  priorityOf(block: number): number {
    return this.#byBlock.get(block)?.[0]?.priority ?? -1;
  }

  /** Whether anyone else than `declarer` retains a block. */
  isRetainedByOthers(block: number, declarer: string | null): boolean {
    return this.#byBlock.get(block)?.some((one) => one.declarer !== declarer) ?? false;
  }

  /**
   * Adds a declaration to a block, in place of an earlier one of the same declarer.
   * @returns false when the block has as many as it can, all of them stronger.
   */
  add(block: number, declaration: RetainDeclaration): boolean {
    const list = this.#byBlock.get(block) ?? [];
    if (list.includes(declaration)) return true;
    this.release(block, declaration.declarer);
    list.push(declaration);
    list.sort(strongestFirst);
    const weakest = list.length > MAX_DECLARATIONS ? list.pop() : undefined;
    if (weakest === declaration) return false;
    this.#byBlock.set(block, list);
    if (declaration.blocks.length === 0) this.#enter(declaration);
    declaration.blocks.push(block);
    declaration.held += 1;
    declaration.action.kept += 1;
    if (weakest !== undefined) this.#lost(weakest);
    return true;
  }

  /** Takes a declarer's declaration off a block; false when there was none. */
  release(block: number, declarer: string): boolean {
    const list = this.#byBlock.get(block);
    const at = list?.findIndex((one) => one.declarer === declarer) ?? -1;
    if (list === undefined || at < 0) return false;
    const [gone] = list.splice(at, 1);
    if (list.length === 0) this.#byBlock.delete(block);
    if (gone) this.#lost(gone);
    return true;
  }

  /** A block is gone. @param despite it was evicted for room, against its declarations. */
  forget(block: number, despite: boolean): void {
    const list = this.#byBlock.get(block);
    if (list === undefined) return;
    this.#byBlock.delete(block);
    for (const one of list) {
      const { action } = one;
      this.#lost(one);
      if (!despite) continue;
      action.evicted += 1;
      // Told once: the end says how many there were in all.
      if (action.evicted === 1) this.#late.push({ action, reason: 'evicted' });
    }
  }

  /** Ends the declarations whose time is over at `now`; `changed` hears of every block that had one of them. */
  expire(now: number, changed: (block: number) => void): void {
    for (let next = this.#ends[0]; next !== undefined && next.expiresAt <= now; next = this.#ends[0]) {
      this.#removeFirst();
      let lapsed = 0;
      for (const block of next.blocks) {
        const list = this.#byBlock.get(block);
        const at = list?.indexOf(next) ?? -1;
        if (list === undefined || at < 0) continue;
        list.splice(at, 1);
        if (list.length === 0) this.#byBlock.delete(block);
        lapsed += 1;
        changed(block);
      }
      next.held -= lapsed;
      next.action.kept -= lapsed;
      next.action.lapsed += lapsed;
      if (lapsed > 0 && next.action.kept === 0) this.#late.push({ action: next.action, reason: 'expired' });
    }
  }

  /** Whether there is anything to tell. */
  get hasLate(): boolean {
    return this.#late.length > 0;
  }

  /** What there is to tell since the last call. */
  takeLate(): readonly LateRetain[] {
    if (this.#late.length === 0) return this.#late;
    const late = this.#late;
    this.#late = [];
    return late;
  }

  /** A block has lost a declaration. Many blocks of which most did are not remembered for the few. */
  #lost(declaration: RetainDeclaration): void {
    declaration.action.kept -= 1;
    declaration.held -= 1;
    const { blocks, held } = declaration;
    if (blocks.length < LEAST_SWEEP || 2 * held > blocks.length) return;
    declaration.blocks = blocks.filter((block) => this.#byBlock.get(block)?.includes(declaration) === true);
  }

  #enter(declaration: RetainDeclaration): void {
    declaration.order = this.#made;
    this.#made += 1;
    if (declaration.expiresAt === Number.POSITIVE_INFINITY) return;
    // Sessions renew what they retain long before it ends: those without blocks are swept out now and then.
    if (this.#ends.length >= this.#sweepAt) {
      this.#ends = this.#ends.filter((one) => one.held > 0).sort(byEnd);
      this.#sweepAt = Math.max(LEAST_SWEEP, 2 * this.#ends.length);
    }
    this.#ends.push(declaration);
    siftUp(this.#ends);
  }

  #removeFirst(): void {
    const last = this.#ends.pop();
    if (last === undefined || this.#ends.length === 0) return;
    this.#ends[0] = last;
    siftDown(this.#ends);
  }
}

function strongestFirst(a: RetainDeclaration, b: RetainDeclaration): number {
  return b.priority - a.priority || b.expiresAt - a.expiresAt;
}

function byEnd(a: RetainDeclaration, b: RetainDeclaration): number {
  return a.expiresAt - b.expiresAt || a.order - b.order;
}

function siftUp(heap: RetainDeclaration[]): void {
  let at = heap.length - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (byEnd(heap[parent]!, heap[at]!) <= 0) return;
    swap(heap, parent, at);
    at = parent;
  }
}

function siftDown(heap: RetainDeclaration[]): void {
  let at = 0;
  for (;;) {
    let least = 2 * at + 1;
    if (least >= heap.length) return;
    if (least + 1 < heap.length && byEnd(heap[least + 1]!, heap[least]!) < 0) least += 1;
    if (byEnd(heap[at]!, heap[least]!) <= 0) return;
    swap(heap, at, least);
    at = least;
  }
}

function swap(heap: RetainDeclaration[], a: number, b: number): void {
  const kept = heap[a]!;
  heap[a] = heap[b]!;
  heap[b] = kept;
}

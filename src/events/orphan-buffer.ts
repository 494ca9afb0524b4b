// Blocks of one owner whose parent is not known yet: a batch was lost, or the router came late. They wait here until the parent
// comes, by replay or otherwise. At the root of the index they would match prompts they do not belong to.
import { type HashPairs, hashAt, type MultimodalItems, type Tier, type U64 } from '../kv/index.ts';
import type { BlockStoredEvent } from './types.ts';
import { U64Groups } from './u64-groups.ts';

/** Bytes of all owners' orphans, and the most there may be. */
export interface OrphanBudget {
  bytes: number;
  readonly maxBytes: number;
}

/** One waiting block. */
export interface Orphan {
  /** A store of exactly this block. */
  readonly event: BlockStoredEvent & { readonly parent: U64 };
  readonly bytes: number;
  /** Removed by the engine while it waited; it stays only because blocks behind it wait too. */
  removed: boolean;
}

/** What a waiting block takes beside its tokens: its objects and its entries in two tables. */
const OVERHEAD_BYTES = 768;

/** The buffer of one owner. */
export class OrphanBuffer {
  readonly #byParent = new U64Groups<Orphan>();
  readonly #byHash = new U64Groups<Orphan>();
  readonly #all = new Set<Orphan>();
  readonly #maxBlocks: number;
  readonly #maxBytes: number;
  readonly #budget: OrphanBudget;
  #bytes = 0;
  #removed = 0;

  /** @param budget shared with the other owners. */
  constructor(maxBlocks: number, maxBytes: number, budget: OrphanBudget) {
    this.#maxBlocks = maxBlocks;
    this.#maxBytes = maxBytes;
    this.#budget = budget;
  }

  /** Blocks that wait; removed ones that are still in place are not counted. */
  get blocks(): number {
    return this.#all.size - this.#removed;
  }

  /** Whether nothing is held. */
  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** Bytes of what waits with its objects, and of tables that have room for more. */
  get bytes(): number {
    return this.#bytes + this.#byParent.bytes + this.#byHash.bytes;
  }

  /** Whether a block with this engine hash waits. */
  has(lo: number, hi: number): boolean {
    return this.#byHash.get(lo, hi) !== undefined;
  }

  /**
   * Lets the blocks of a store wait, as copies. Blocks that wait already are not taken twice. Makes room by dropping the oldest.
   * @returns blocks dropped.
   */
  add(event: BlockStoredEvent, parent: U64): number {
    let dropped = 0;
    let before = parent;
    for (let block = 0; block < event.external.length / 2; block += 1) {
      const hash = hashAt(event.external, block);
      if (!this.#waits(hash, event.tier)) {
        const orphan = copyOf(event, block, before);
        dropped += this.#makeRoom(orphan.bytes);
        if (this.#fits(orphan.bytes)) this.#insert(orphan, hash);
        else dropped += 1;
      }
      before = hash;
    }
    return dropped;
  }

  /** Takes out what waits for a hash, oldest first. */
  take(lo: number, hi: number): Orphan[] {
    const waiting = this.#byParent.get(lo, hi);
    if (waiting === undefined) return [];
    const taken = [...waiting];
    for (const orphan of taken) this.#delete(orphan);
    return taken;
  }

  /** The engine removed a block; whether it waited here. */
  remove(lo: number, hi: number, tier: Tier): boolean {
    let found = false;
    for (const orphan of [...(this.#byHash.get(lo, hi) ?? [])]) {
      if (orphan.removed || orphan.event.tier !== tier) continue;
      found = true;
      if (this.#byParent.get(lo, hi) === undefined) {
        this.#delete(orphan);
        continue;
      }
      orphan.removed = true;
      this.#removed += 1;
    }
    return found;
  }

  /** Forgets what waits for a tier, or all. */
  clear(tier: Tier | 'all'): void {
    if (tier !== 'all') {
      // From the newest on: those behind a block mostly came later, and it stays in place only while any waits.
      for (const orphan of [...this.#all].reverse()) {
        const { external } = orphan.event;
        if (orphan.event.tier === tier) this.remove(external[0]!, external[1]!, tier);
      }
      return;
    }
    this.#byParent.clear();
    this.#byHash.clear();
    this.#all.clear();
    this.#budget.bytes -= this.#bytes;
    this.#bytes = 0;
    this.#removed = 0;
  }

  #waits({ lo, hi }: U64, tier: Tier): boolean {
    for (const orphan of this.#byHash.get(lo, hi) ?? []) {
      if (!orphan.removed && orphan.event.tier === tier) return true;
    }
    return false;
  }

  /** Drops the oldest until there is room; returns how many that were waiting it dropped. */
  #makeRoom(bytes: number): number {
    let dropped = 0;
    if (bytes > this.#maxBytes) return dropped;
    for (const oldest of this.#all) {
      if (this.#fits(bytes)) break;
      if (!oldest.removed) dropped += 1;
      this.#delete(oldest);
    }
    return dropped;
  }

  #fits(bytes: number): boolean {
    return (
      this.#all.size < this.#maxBlocks &&
      this.#bytes + bytes <= this.#maxBytes &&
      this.#budget.bytes + bytes <= this.#budget.maxBytes
    );
  }

  #insert(orphan: Orphan, hash: U64): void {
    const { parent } = orphan.event;
    this.#byParent.add(parent.lo, parent.hi, orphan);
    this.#byHash.add(hash.lo, hash.hi, orphan);
    this.#all.add(orphan);
    this.#bytes += orphan.bytes;
    this.#budget.bytes += orphan.bytes;
  }

  #delete(orphan: Orphan): void {
    const { parent, external } = orphan.event;
    this.#byParent.delete(parent.lo, parent.hi, orphan);
    this.#byHash.delete(external[0]!, external[1]!, orphan);
    this.#all.delete(orphan);
    this.#bytes -= orphan.bytes;
    this.#budget.bytes -= orphan.bytes;
    if (orphan.removed) this.#removed -= 1;
  }
}

/** One block of a store with arrays of its own: those of a decoded batch hold on to the whole batch. */
function copyOf(event: BlockStoredEvent, block: number, parent: U64): Orphan {
  const { blockSize, bigrams = false } = event;
  const from = block * blockSize;
  const tokenIds = event.tokenIds.slice(from, from + blockSize + (bigrams ? 1 : 0));
  const external = event.external.slice(2 * block, 2 * block + 2);
  const items = event.multimodal?.[block] ?? null;
  const { multimodal: _all, ...rest } = event;
  const copy = {
    ...rest,
    external,
    tokenIds,
    parent,
    ...(items === null ? null : { multimodal: copied(items) }),
  };
  const texts =
    (event.loraName?.length ?? 0) + (event.cacheSalt?.length ?? 0) + (event.sessionId?.length ?? 0);
  const bytes = OVERHEAD_BYTES + tokenIds.byteLength + (items?.byteLength ?? 0) + 2 * texts;
  return { event: copy, bytes, removed: false };
}

function copied(items: HashPairs): MultimodalItems {
  return [items.slice()];
}

// What ranks hold whose engines say nothing of it: every prompt that is sent to one is taken to be cached there afterwards. A rank
// whose pool size is known is modelled as an engine that evicts what is unused for longest; of any other a block is believed in for a
// while after its last use. What an engine reports as cached corrects the belief.
//
// Beliefs stand in the prefix index beside what other engines announce, under the router's own sequence hashes.
import type { HashPairs } from '../hashing/types.ts';
import { hashAt } from '../hashing/u64.ts';
import type { OwnerSlot, PrefixIndex } from '../residency/types.ts';
import { BelievedBlocks } from './believed-blocks.ts';

/** Hashes dropped from the index in one call. */
const DROP_BATCH = 256;

/** How beliefs are kept. */
export interface ApproximateResidencyOptions {
  readonly index: Pick<PrefixIndex, 'store' | 'remove' | 'clear'>;
  /** How long a block is believed in after its last use where the pool's size is not known, ms; read at each use. */
  readonly timeToLiveMs: number;
  /** Most blocks believed in, over all ranks; then the longest unused go until four fifths are left. */
  readonly maxBlocks: number;
  /** Told of each correction. */
  readonly onCorrection?: () => void;
}

/** Counts for gauges and tests. */
export interface ApproximateResidencyStats {
  /** Blocks believed in, those of generated tokens included. */
  readonly blocks: number;
  /** Bytes of all arrays. */
  readonly bytes: number;
  /** Prompts under way. */
  readonly leases: number;
  /** Times that an engine had less cached than believed. */
  readonly corrections: number;
  /** Blocks given up in corrections. */
  readonly correctedBlocks: number;
  /** Prompts that were not taken down, as the prefix index had no room. */
  readonly refused: number;
}

/** How a prompt ended: only one that was computed leaves blocks behind. */
export interface PromptEnd {
  /** Whether the engine computed the prompt, as its first token shows. */
  readonly computed: boolean;
  /** Whole blocks that the engine says it found cached; null = it does not say. */
  readonly cachedBlocks: number | null;
}

interface Rank {
  readonly blocks: BelievedBlocks;
  /** Blocks of the engine's pool; null = not known. */
  capacity: number | null;
  /** It holds the prompt that it was sent last and nothing before. */
  oneSequence: boolean;
  /** Blocks of tokens that are being generated. */
  generating: number;
}

/** A prompt that is under way on a rank. */
interface Lease {
  readonly owner: OwnerSlot;
  readonly rank: Rank;
  /** Rows of its blocks, first block first. */
  readonly rows: Int32Array;
  /** Its leading blocks that were believed to be cached. */
  readonly found: number;
  /** Of these, leading ones that had been computed when it was sent. */
  readonly surelyFound: number;
  /** When each of these was last used before, ms. */
  readonly usedAt: Float64Array;
  computed: boolean;
  generating: number;
}

/** The share of `maxBlocks` that is left after the longest unused went, as in other routers. */
const KEPT_SHARE = 0.8;

/**
 * Beliefs about ranks without KV events. Formulas: time to live, size limit and the model of an evicting pool are those of the field's
 * approximate indexes; corrections by reported cached tokens are our own.
 */
export class ApproximateResidency {
  readonly #options: ApproximateResidencyOptions;
  readonly #ranks = new Map<OwnerSlot, Rank>();
  readonly #leases = new Map<number, Lease>();
  readonly #dropped = new Uint32Array(2 * DROP_BATCH);
  #blocks = 0;
  /** No block that may expire was last used before, ms. */
  #oldestUse = Number.POSITIVE_INFINITY;
  #corrections = 0;
  #correctedBlocks = 0;
  #refused = 0;

  constructor(options: ApproximateResidencyOptions) {
    this.#options = options;
  }

  /** Sets a rank's pool size in blocks, or that it is not known. */
  setCapacity(owner: OwnerSlot, capacity: number | null): void {
    const rank = this.#rankOf(owner);
    rank.capacity = capacity;
    if (capacity !== null) this.#evictOver(owner, rank);
    else this.#expectExpiry(rank);
  }

  /** Says that a rank holds the prompt that it was sent last, and nothing of those before. */
  setOneSequence(owner: OwnerSlot, oneSequence: boolean): void {
    this.#rankOf(owner).oneSequence = oneSequence;
  }

  /** A prompt goes to a rank. `attempt` is the booking's number, never used twice. */
  sent(owner: OwnerSlot, attempt: number, local: HashPairs, sequence: HashPairs, now: number): void {
    if (this.#leases.has(attempt)) throw new RangeError(`booking ${attempt} has a prompt under way already`);
    const rank = this.#rankOf(owner);
    const { blocks } = rank;
    const count = sequence.length >> 1;
    const rows = new Int32Array(count);
    const usedAt = new Float64Array(count);
    let found = 0;
    let surelyFound = 0;
    for (; found < count; found++) {
      const row = blocks.find(sequence[2 * found]!, sequence[2 * found + 1]!);
      if (row < 0) break;
      if (surelyFound === found && blocks.isComputed(row)) surelyFound++;
      usedAt[found] = blocks.usedAt(row);
      blocks.use(row);
      rows[found] = row;
    }
    if (found < count && !this.#believe(owner, local, sequence, found)) {
      this.#refused++;
      for (let index = found - 1; index >= 0; index--) blocks.unuse(rows[index]!, now);
      return;
    }
    for (let index = found; index < count; index++)
      rows[index] = blocks.add(sequence[2 * index]!, sequence[2 * index + 1]!);
    this.#blocks += count - found;
    this.#leases.set(attempt, {
      owner,
      rank,
      rows,
      found,
      surelyFound,
      usedAt: surelyFound === 0 ? new Float64Array(0) : usedAt,
      computed: false,
      generating: 0,
    });
    if (rank.oneSequence) this.#dropWhile(owner, rank, () => true);
    if (rank.capacity !== null) this.#evictOver(owner, rank);
    if (this.#blocks > this.#options.maxBlocks) this.#prune();
  }

  /** The engine has computed the prompt. */
  computed(attempt: number): void {
    const lease = this.#leases.get(attempt);
    if (lease === undefined || lease.computed) return;
    lease.computed = true;
    for (const row of lease.rows) lease.rank.blocks.computed(row);
  }

  /** So many blocks of generated tokens were added. */
  generated(attempt: number, blocks: number): void {
    const lease = this.#leases.get(attempt);
    if (lease === undefined) return;
    lease.generating += blocks;
    lease.rank.generating += blocks;
    if (lease.rank.capacity !== null) this.#evictOver(lease.owner, lease.rank);
  }

  /** A prompt ended. Unknown numbers, and those of ranks that were forgotten meanwhile, are none. */
  ended(attempt: number, end: PromptEnd, now: number): void {
    const lease = this.#leases.get(attempt);
    if (lease === undefined) return;
    if (end.computed) this.computed(attempt);
    this.#leases.delete(attempt);
    const { owner, rank, rows } = lease;
    rank.generating -= lease.generating;
    // The deepest go first when room is needed: a block is of no use without those before it.
    if (rank.capacity !== null)
      for (let left = lease.generating; left > 0; left--) this.#addNameless(rank, now);
    const useless: number[] = [];
    for (let index = rows.length - 1; index >= 0; index--) {
      const row = rows[index]!;
      if (rank.blocks.unuse(row, now) && !rank.blocks.isComputed(row)) useless.push(row);
    }
    this.#dropAll(owner, rank, useless);
    if (end.cachedBlocks !== null) this.#correct(lease, end.cachedBlocks);
    // Another prompt was sent there since: it takes the place of this one.
    if (rank.oneSequence && this.#isInUse(rank)) this.#dropWhile(owner, rank, () => true);
    if (rank.capacity === null) this.#expectExpiry(rank);
    else this.#evictOver(owner, rank);
  }

  /** Gives up what has not been used for too long. To be called before each lookup; costs nothing where nothing expires. */
  expire(now: number): void {
    const { timeToLiveMs } = this.#options;
    if (now < this.#oldestUse + timeToLiveMs) return;
    this.#oldestUse = Number.POSITIVE_INFINITY;
    for (const [owner, rank] of this.#ranks) {
      if (rank.capacity !== null) continue;
      this.#dropWhile(owner, rank, (row) => rank.blocks.usedAt(row) + timeToLiveMs <= now);
      this.#expectExpiry(rank);
    }
  }

  /** Believes nothing of a rank any more: its engine started anew, it is gone, or its own events are heard. */
  forget(owner: OwnerSlot): void {
    const rank = this.#ranks.get(owner);
    if (rank === undefined) return;
    for (const [attempt, lease] of this.#leases) if (lease.rank === rank) this.#leases.delete(attempt);
    this.#blocks -= rank.blocks.size;
    this.#ranks.delete(owner);
    this.#options.index.clear(owner, 'all');
  }

  stats(): ApproximateResidencyStats {
    let bytes = 0;
    for (const { blocks } of this.#ranks.values()) bytes += blocks.bytes;
    for (const { rows, usedAt } of this.#leases.values()) bytes += rows.byteLength + usedAt.byteLength;
    return {
      blocks: this.#blocks,
      bytes,
      leases: this.#leases.size,
      corrections: this.#corrections,
      correctedBlocks: this.#correctedBlocks,
      refused: this.#refused,
    };
  }

  #isInUse(rank: Rank): boolean {
    for (const lease of this.#leases.values()) if (lease.rank === rank) return true;
    return false;
  }

  #rankOf(owner: OwnerSlot): Rank {
    let rank = this.#ranks.get(owner);
    if (rank === undefined) {
      rank = { blocks: new BelievedBlocks(), capacity: null, oneSequence: false, generating: 0 };
      this.#ranks.set(owner, rank);
    }
    return rank;
  }

  /** Puts the blocks from `from` on into the index; answers whether it took them. */
  #believe(owner: OwnerSlot, local: HashPairs, sequence: HashPairs, from: number): boolean {
    const { index } = this.#options;
    const names = sequence.subarray(2 * from);
    try {
      const parent = from === 0 ? null : hashAt(sequence, from - 1);
      if (index.store(owner, 'device', parent, names, local.subarray(2 * from)) !== 'unknown-parent')
        return true;
      // The index has given up blocks of this chain for want of room.
      index.remove(owner, 'device', sequence.subarray(0, 2 * from));
      index.store(owner, 'device', null, sequence, local);
      return true;
    } catch {
      return false;
    }
  }

  #addNameless(rank: Rank, now: number): void {
    rank.blocks.addNameless(now);
    this.#blocks++;
  }

  /**
   * The engine found less cached than it would have if all that is believed were there. It evicts in the order of last use, so what
   * was unused for as long as the block that it lacked is gone as well.
   */
  #correct({ owner, rank, surelyFound, usedAt }: Lease, cachedBlocks: number): void {
    if (cachedBlocks >= surelyFound) return;
    const lackedSince = usedAt[cachedBlocks]!;
    // Somebody else was using it: then it is not missing, but the report is of something else.
    if (lackedSince === Number.POSITIVE_INFINITY) return;
    const before = this.#blocks;
    this.#dropWhile(owner, rank, (row) => rank.blocks.usedAt(row) <= lackedSince);
    this.#corrections++;
    this.#options.onCorrection?.();
    this.#correctedBlocks += before - this.#blocks;
  }

  #evictOver(owner: OwnerSlot, rank: Rank): void {
    const { blocks, generating, capacity } = rank;
    let over = blocks.size + generating - (capacity ?? 0);
    if (over > 0) this.#dropWhile(owner, rank, () => over-- > 0);
  }

  /** Gives up the longest unused blocks of all ranks. */
  #prune(): void {
    const target = Math.floor(this.#options.maxBlocks * KEPT_SHARE);
    while (this.#blocks > target) {
      let oldest: [OwnerSlot, Rank] | null = null;
      let since = Number.POSITIVE_INFINITY;
      let next = Number.POSITIVE_INFINITY;
      for (const entry of this.#ranks) {
        const { blocks } = entry[1];
        if (blocks.oldest < 0) continue;
        const at = blocks.usedAt(blocks.oldest);
        if (at < since) {
          next = since;
          since = at;
          oldest = entry;
        } else if (at < next) next = at;
      }
      // What is left is in use.
      if (oldest === null) return;
      const [owner, rank] = oldest;
      let over = this.#blocks - target;
      this.#dropWhile(owner, rank, (row) => rank.blocks.usedAt(row) <= next && over-- > 0);
    }
  }

  /** Drops the longest unused rows as long as `goes` says so. */
  #dropWhile(owner: OwnerSlot, rank: Rank, goes: (row: number) => boolean): void {
    const { blocks } = rank;
    let named = 0;
    for (let row = blocks.oldest; row >= 0 && goes(row); row = blocks.oldest) {
      if (blocks.isNamed(row)) {
        blocks.hashTo(row, this.#dropped, named++);
        if (named === DROP_BATCH) named = this.#forgetInIndex(owner, named);
      }
      blocks.drop(row);
      this.#blocks--;
    }
    this.#forgetInIndex(owner, named);
  }

  #dropAll(owner: OwnerSlot, rank: Rank, rows: readonly number[]): void {
    let named = 0;
    for (const row of rows) {
      rank.blocks.hashTo(row, this.#dropped, named++);
      if (named === DROP_BATCH) named = this.#forgetInIndex(owner, named);
      rank.blocks.drop(row);
      this.#blocks--;
    }
    this.#forgetInIndex(owner, named);
  }

  /** Answers 0, the number of hashes still to be forgotten. */
  #forgetInIndex(owner: OwnerSlot, named: number): number {
    if (named > 0) this.#options.index.remove(owner, 'device', this.#dropped.subarray(0, 2 * named));
    return 0;
  }

  #expectExpiry(rank: Rank): void {
    const { oldest } = rank.blocks;
    if (rank.capacity !== null || oldest < 0) return;
    this.#oldestUse = Math.min(this.#oldestUse, rank.blocks.usedAt(oldest));
  }
}

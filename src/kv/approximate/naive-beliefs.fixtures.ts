// The plainest model of what a rank is believed to hold: one list of blocks per rank, searched from end to end.
import type { PromptEnd } from './approximate-residency.ts';

interface Block {
  /** Null = generated tokens. */
  readonly name: bigint | null;
  uses: number;
  computed: boolean;
  usedAt: number;
  /** Order in which blocks became unused. */
  turn: number;
}

interface Lease {
  readonly rank: Rank;
  readonly blocks: readonly Block[];
  /** When the leading computed ones were last used. */
  readonly usedAt: readonly number[];
  generating: number;
}

interface Rank {
  blocks: Block[];
  capacity: number | null;
  /** It keeps the prompt that it was sent last, and no other that is not in use. */
  oneSequence: boolean;
  generating: number;
}

/** The model. */
export class NaiveBeliefs {
  readonly #ranks = new Map<number, Rank>();
  readonly #leases = new Map<number, Lease>();
  readonly #timeToLiveMs: number;
  readonly #maxBlocks: number;
  #turns = 0;

  constructor(timeToLiveMs: number, maxBlocks: number) {
    this.#timeToLiveMs = timeToLiveMs;
    this.#maxBlocks = maxBlocks;
  }

  get size(): number {
    return [...this.#ranks.values()].reduce((sum, { blocks }) => sum + blocks.length, 0);
  }

  /** Leading blocks of a chain that are believed to be there. */
  depth(owner: number, chain: readonly bigint[]): number {
    const blocks = this.#ranks.get(owner)?.blocks ?? [];
    const names = new Set(blocks.map(({ name }) => name));
    let depth = 0;
    while (depth < chain.length && names.has(chain[depth]!)) depth += 1;
    return depth;
  }

  setCapacity(owner: number, capacity: number | null): void {
    const rank = this.#rankOf(owner);
    rank.capacity = capacity;
    this.#evict(rank);
  }

  setOneSequence(owner: number, oneSequence: boolean): void {
    this.#rankOf(owner).oneSequence = oneSequence;
  }

  sent(owner: number, attempt: number, chain: readonly bigint[]): void {
    const rank = this.#rankOf(owner);
    const found = this.depth(owner, chain);
    const usedAt: number[] = [];
    const blocks = chain.map((name, index) => {
      const known = index < found ? rank.blocks.find((block) => block.name === name) : undefined;
      if (known === undefined) {
        const made = { name, uses: 1, computed: false, usedAt: 0, turn: 0 };
        rank.blocks.push(made);
        return made;
      }
      if (known.computed && usedAt.length === index) usedAt.push(known.uses > 0 ? Infinity : known.usedAt);
      known.uses++;
      return known;
    });
    this.#leases.set(attempt, { rank, blocks, usedAt, generating: 0 });
    if (rank.oneSequence) rank.blocks = rank.blocks.filter(({ uses }) => uses > 0);
    this.#evict(rank);
    if (this.size <= this.#maxBlocks) return;
    const target = Math.floor(this.#maxBlocks * 0.8);
    const all = [...this.#ranks.values()];
    while (this.size > target) {
      const unused = all.flatMap((r) =>
        this.#unused(r)
          .slice(0, 1)
          .map((block) => [r, block] as const),
      );
      if (unused.length === 0) return;
      const [from, oldest] = unused.reduce((a, b) => (b[1].usedAt < a[1].usedAt ? b : a));
      from.blocks = from.blocks.filter((block) => block !== oldest);
    }
  }

  computed(attempt: number): void {
    for (const block of this.#leases.get(attempt)?.blocks ?? []) block.computed = true;
  }

  generated(attempt: number, count: number): void {
    const lease = this.#leases.get(attempt);
    if (lease === undefined) return;
    lease.generating += count;
    lease.rank.generating += count;
    this.#evict(lease.rank);
  }

  ended(attempt: number, end: PromptEnd, now: number): void {
    const lease = this.#leases.get(attempt);
    if (lease === undefined) return;
    const { rank } = lease;
    if (end.computed) this.computed(attempt);
    this.#leases.delete(attempt);
    rank.generating -= lease.generating;
    for (let left = rank.capacity === null ? 0 : lease.generating; left > 0; left--)
      rank.blocks.push({ name: null, uses: 0, computed: true, usedAt: now, turn: this.#turns++ });
    for (const block of lease.blocks.toReversed()) {
      block.uses--;
      block.usedAt = now;
      block.turn = this.#turns++;
    }
    rank.blocks = rank.blocks.filter(({ uses, computed }) => uses > 0 || computed);
    if (end.cachedBlocks !== null && end.cachedBlocks < lease.usedAt.length) {
      const since = lease.usedAt[end.cachedBlocks]!;
      if (since < Infinity)
        rank.blocks = rank.blocks.filter(({ uses, usedAt }) => uses > 0 || usedAt > since);
    }
    const isInUse = [...this.#leases.values()].some((other) => other.rank === rank);
    if (rank.oneSequence && isInUse) rank.blocks = rank.blocks.filter(({ uses }) => uses > 0);
    this.#evict(rank);
  }

  expire(now: number): void {
    for (const rank of this.#ranks.values()) {
      if (rank.capacity !== null) continue;
      rank.blocks = rank.blocks.filter(({ uses, usedAt }) => uses > 0 || usedAt + this.#timeToLiveMs > now);
    }
  }

  forget(owner: number): void {
    const rank = this.#ranks.get(owner);
    this.#ranks.delete(owner);
    for (const [attempt, lease] of this.#leases) if (lease.rank === rank) this.#leases.delete(attempt);
  }

  #rankOf(owner: number): Rank {
    const known = this.#ranks.get(owner);
    if (known !== undefined) return known;
    const made = { blocks: [], capacity: null, oneSequence: false, generating: 0 };
    this.#ranks.set(owner, made);
    return made;
  }

  #unused({ blocks }: Rank): Block[] {
    return blocks.filter(({ uses }) => uses === 0).sort((a, b) => a.turn - b.turn);
  }

  #evict(rank: Rank): void {
    if (rank.capacity === null) return;
    const over = Math.max(0, rank.blocks.length + rank.generating - rank.capacity);
    const gone = new Set(this.#unused(rank).slice(0, over));
    rank.blocks = rank.blocks.filter((block) => !gone.has(block));
  }
}

// One prefix index of the indexer: the workers of one model and routing group, each rank with a slot of its own.
import { createKvEventApplier, type KvEventApplier } from '../../events/index.ts';
import {
  type BlockHasher,
  blockHashSeed,
  type CopyableIndex,
  createPrefixIndex,
  type HashPairs,
  type OwnerSlot,
} from '../../kv/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import { type ScoreObject, scoresOf } from './scores.ts';

/** Slots of one index: the ranks of all its workers. */
const MAX_SLOTS = 65_536;
/** A rank silent for so long is asked whether its last events were lost; the router's default. */
const IDLE_CHECK_MS = 30_000;

/** What a partition is made of. */
export interface PartitionOptions {
  readonly model: string;
  readonly routingGroup: string;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Most bytes of its index. */
  readonly maxBytes: number;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** One rank of one instance. */
export interface PartitionOwner {
  readonly instance: bigint;
  readonly rank: number;
}

/** An index with what feeds it. */
export class IndexerPartition {
  readonly model: string;
  readonly routingGroup: string;
  readonly blockSize: number;
  readonly index: CopyableIndex;
  readonly events: KvEventApplier;
  readonly #hasher: BlockHasher;
  readonly #slots = new Map<string, OwnerSlot>();
  readonly #owners: (PartitionOwner | null)[] = [];
  readonly #free: OwnerSlot[] = [];

  constructor(options: PartitionOptions) {
    const { blockSize, clock, hasher, maxBytes, metrics } = options;
    this.model = options.model;
    this.routingGroup = options.routingGroup;
    this.blockSize = blockSize;
    this.#hasher = hasher;
    const later = (work: () => void): void => void clock.schedule(0, work);
    this.index = createPrefixIndex({ hasher, maxBytes, later });
    this.events = createKvEventApplier({
      index: this.index,
      hasher,
      blockHashSeed,
      isOwner: (slot) => this.ownerOf(slot) !== null,
      blockSizeOf: () => blockSize,
      learnBlockSize: () => undefined,
      // A rank nobody registered is indexed too; it goes with its instance.
      ownerOfRank: (slot, rank) => {
        const owner = this.ownerOf(slot);
        return owner === null ? null : this.slotFor({ instance: owner.instance, rank });
      },
      idleCheckMs: () => IDLE_CHECK_MS,
      metrics,
      clock,
    });
  }

  /** `model:group`, as a dump names it. */
  get key(): string {
    return `${this.model}:${this.routingGroup}`;
  }

  /** Ranks that have a slot. */
  owners(): readonly (readonly [OwnerSlot, PartitionOwner])[] {
    return this.#owners.flatMap((owner, slot) => (owner === null ? [] : [[slot, owner] as const]));
  }

  /** Who a slot stands for; null for a free one. */
  ownerOf(slot: OwnerSlot): PartitionOwner | null {
    return this.#owners[slot] ?? null;
  }

  /** The slot of a rank, given out when it has none. @throws PM_INDEXER_FULL */
  slotFor(owner: PartitionOwner): OwnerSlot {
    const key = `${owner.instance}/${owner.rank}`;
    const known = this.#slots.get(key);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#owners.length;
    if (slot >= MAX_SLOTS) {
      throw new PointsmanError(
        'PM_INDEXER_FULL',
        `${this.key} has ${MAX_SLOTS} worker ranks, which is as many as one index takes; unregister some`,
      );
    }
    this.#owners[slot] = owner;
    this.#slots.set(key, slot);
    this.index.bindOwner(slot, owner.instance);
    return slot;
  }

  /** Forgets a rank, or all of an instance (rank null), with its blocks. */
  release(instance: bigint, rank: number | null): void {
    for (const [slot, owner] of this.owners()) {
      if (owner.instance !== instance || (rank !== null && owner.rank !== rank)) continue;
      this.#release(slot, owner);
    }
  }

  /** Forgets all blocks, how far each stream was applied, and ranks whose slots are not among these. */
  startOver(kept: ReadonlySet<OwnerSlot>): void {
    for (const [slot, owner] of this.owners()) {
      if (kept.has(slot)) {
        this.index.clear(slot, 'all');
        this.events.startOver(slot);
      } else this.#release(slot, owner);
    }
  }

  #release(slot: OwnerSlot, { instance, rank }: PartitionOwner): void {
    this.index.clear(slot, 'all');
    this.events.forget(slot);
    this.#slots.delete(`${instance}/${rank}`);
    this.#owners[slot] = null;
    this.#free.push(slot);
  }

  /** What is cached of a prompt. */
  queryTokens(tokens: Uint32Array, loraName: string | null, cacheSalt: string | null): ScoreObject {
    const seed = blockHashSeed({ loraName, cacheSalt });
    const { local, sequence } = this.#hasher.hashPrompt(tokens, this.blockSize, seed);
    return this.#query(local, sequence);
  }

  /** What is cached of a chain of blocks, by their local hashes. */
  queryHashes(local: HashPairs): ScoreObject {
    const sequence = new Uint32Array(local.length);
    this.#hasher.chain(null, local, sequence);
    return this.#query(local, sequence);
  }

  #query(local: HashPairs, sequence: HashPairs): ScoreObject {
    const match = this.index.find(local, sequence, ['device', 'host', 'disk']);
    return scoresOf(match, this.blockSize, (slot) => this.ownerOf(slot));
  }
}

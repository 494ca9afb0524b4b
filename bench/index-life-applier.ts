// The road of a random life's events through the event applier, which holds stores back until their parent comes, and what the radix
// model does in its place.
import {
  createKvEventApplier,
  encodeEventBatch,
  type KvEvent,
  type KvEventApplier,
  type KvEventBatch,
} from '../src/events/index.ts';
import {
  blockHashSeed,
  type CopyableIndex,
  createBlockHasher,
  type HashPairs,
  type OwnerSlot,
  type Tier,
  type U64,
} from '../src/kv/index.ts';
import type { EventRoad, LifeRoads, RoadCounts } from '../src/kv/residency/index-roads.fixtures.ts';
import { BLOCK_TOKENS, type Chain } from '../src/kv/residency/index-universe.fixtures.ts';
import { ManualClock } from '../src/plugin/index.ts';
import { RadixOrphans } from './radix-orphans.ts';

/** Every so many batches go as bytes, the others decoded: an applier takes both. */
const EVERY_BYTES = 4;
const PLENTY = 2 ** 31;

/** Events take the way of an engine's: as batches of its stream, to the applier. */
export const APPLIER_ROADS: LifeRoads = {
  ofIndex: (index) => new ApplierRoad(index, new Map()),
  ofModel: (model, owners) => new RadixOrphans(model, owners),
};

class ApplierRoad implements EventRoad {
  readonly #applier: KvEventApplier;
  /** Number of each owner's last batch. */
  readonly #sequences: Map<OwnerSlot, number>;

  constructor(index: CopyableIndex, sequences: Map<OwnerSlot, number>) {
    this.#sequences = sequences;
    this.#applier = createKvEventApplier({
      index,
      hasher: createBlockHasher(),
      blockHashSeed,
      blockSizeOf: () => BLOCK_TOKENS,
      learnBlockSize() {},
      metrics: { count() {}, observe() {}, gauge() {} },
      clock: new ManualClock(0),
      // All that wait have room: what is dropped for want of it is the subject of other tests.
      eventLimits: { orphanBlocks: PLENTY, orphanBytes: PLENTY, allOrphanBytes: PLENTY },
    });
    for (const [owner, sequence] of sequences) {
      this.#applier.resume(owner, { sequence, time: null, stale: false, partial: false });
    }
  }

  store(
    owner: OwnerSlot,
    tier: Tier,
    parent: U64 | null,
    external: HashPairs,
    { tokens }: Chain,
    from: number,
  ): null {
    const first = BLOCK_TOKENS * from;
    const tokenIds = tokens.slice(first, first + (BLOCK_TOKENS * external.length) / 2);
    const scope = { loraName: null, cacheSalt: null, sessionId: null };
    this.#send(owner, {
      kind: 'stored',
      external,
      parent,
      tokenIds,
      blockSize: BLOCK_TOKENS,
      tier,
      ...scope,
    });
    return null;
  }

  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): null {
    this.#send(owner, { kind: 'removed', external, tier });
    return null;
  }

  clear(owner: OwnerSlot, tier: Tier | 'all'): void {
    this.#send(owner, tier === 'all' ? { kind: 'cleared' } : { kind: 'cleared', tier });
  }

  forget(owner: OwnerSlot): void {
    this.#applier.forget(owner);
    this.#sequences.delete(owner);
  }

  counts(owner: OwnerSlot): RoadCounts {
    const feed = this.#applier.feed(owner);
    return {
      waiting: this.#applier.orphanBlocks(owner),
      'unknown removes': feed?.unknownRemoves ?? 0,
      'refused self-references': feed?.rejected.self_reference ?? 0,
      'refused events': Object.values(feed?.rejected ?? {}).reduce((sum, count) => sum + count, 0),
      'lost batches': (feed?.missedBatches ?? 0) + (feed?.duplicates ?? 0) + (feed?.gaps ?? 0),
    };
  }

  onto(index: CopyableIndex): EventRoad {
    return new ApplierRoad(index, this.#sequences);
  }

  #send(owner: OwnerSlot, event: KvEvent): void {
    const sequence = (this.#sequences.get(owner) ?? -1) + 1;
    this.#sequences.set(owner, sequence);
    const batch: KvEventBatch = { timestamp: 0, rank: null, events: [event] };
    if (sequence % EVERY_BYTES > 0) this.#applier.onDecodedBatch(owner, sequence, batch);
    else this.#applier.onBatch(owner, sequence, encodeEventBatch(batch));
  }
}

// Which way the events of a random life take to the index and to the model: straight, unless something that holds events back, as
// until their parents come, stands between on both sides.
import type { HashPairs, U64 } from '../hashing/types.ts';
import type { Chain } from './index-universe.fixtures.ts';
import type { RadixPrefixIndex } from './radix-prefix-index.fixtures.ts';
import type { CopyableIndex, OwnerSlot, StoreOutcome, Tier } from './types.ts';

/** What a road says of an owner, by name. */
export type RoadCounts = Readonly<Record<string, number>>;

/** Takes events to an index. Outcomes are null where it says none. */
export interface EventRoad {
  /** Blocks of a chain from `from` on, as many as there are names. @throws PM_KV_INDEX_FULL as the index. */
  store(
    owner: OwnerSlot,
    tier: Tier,
    parent: U64 | null,
    external: HashPairs,
    chain: Chain,
    from: number,
  ): StoreOutcome | null;
  remove(owner: OwnerSlot, tier: Tier, external: HashPairs): number | null;
  clear(owner: OwnerSlot, tier: Tier | 'all'): void;
  /** The slot was given up: what is known of its events is forgotten; the index forgot its blocks already. */
  forget(owner: OwnerSlot): void;
  counts(owner: OwnerSlot): RoadCounts;
  /** The road to an index filled from a copy of this one's; nothing but how far each owner's events came is taken along. */
  onto(index: CopyableIndex): EventRoad;
}

/** The same to the model; owners, tiers, names and contents are numbers as there. */
export interface ModelRoad {
  store(
    owner: number,
    tier: number,
    parent: number,
    names: Int32Array,
    contents: Int32Array,
  ): StoreOutcome | null;
  remove(owner: number, tier: number, names: Int32Array): number | null;
  clear(owner: number, tier: number): void;
  forget(owner: number): void;
  counts(owner: number): RoadCounts;
  /** The road leads to an index filled from a copy from now on. */
  restarted(): void;
  /** Stores that had to wait for their parent so far, and blocks that were stored when it came. */
  readonly waited: number;
  readonly repaired: number;
}

/** Both roads of a life. */
export interface LifeRoads {
  ofIndex(index: CopyableIndex): EventRoad;
  ofModel(model: RadixPrefixIndex, owners: number): ModelRoad;
}

const NO_COUNTS: RoadCounts = {};

const straightTo = (index: CopyableIndex): EventRoad => ({
  store: (owner, tier, parent, external, { local }, from) =>
    index.store(owner, tier, parent, external, local.slice(2 * from, 2 * from + external.length)),
  remove: (owner, tier, external) => index.remove(owner, tier, external),
  clear: (owner, tier) => index.clear(owner, tier),
  forget() {},
  counts: () => NO_COUNTS,
  onto: straightTo,
});

/** Events go straight to index and model. */
export const INDEX_ROADS: LifeRoads = {
  ofIndex: straightTo,
  ofModel: (model) => ({
    store: (owner, tier, parent, names, contents) => model.store(owner, tier, parent, names, contents),
    remove: (owner, tier, names) => model.remove(owner, tier, names),
    clear: (owner, tier) => model.clear(owner, tier),
    forget() {},
    counts: () => NO_COUNTS,
    restarted() {},
    waited: 0,
    repaired: 0,
  }),
};

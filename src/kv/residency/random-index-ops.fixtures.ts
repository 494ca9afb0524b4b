// A long random life of a prefix index beside the radix model: up to 70 owners over a universe of forking chains, with stores of
// every length, tier moves, tail and middle removes, unknown and repeated names, clears, lost workers and snapshots that the life
// goes on from. Every call is compared.
import { PointsmanError, type WorkerId } from '../../plugin/index.ts';
import { u64ToBigInt } from '../hashing/u64.ts';
import { checkedCopy } from './index-copies.fixtures.ts';
import { LifeDice } from './index-life-dice.fixtures.ts';
import {
  IndexDiffers,
  type IndexLifeOptions,
  type IndexLifeTally,
  noTally,
  slotOf,
} from './index-life-options.fixtures.ts';
import { type EventRoad, INDEX_ROADS, type ModelRoad } from './index-roads.fixtures.ts';
import { type Chain, IndexUniverse } from './index-universe.fixtures.ts';
import { RadixPrefixIndex, ROOT } from './radix-prefix-index.fixtures.ts';
import { type CopyableIndex, TIERS } from './types.ts';

const ALL_TIERS = TIERS.length;
const MANY_TIERS = [[0], [0, 1, 2, 3], [0, 1], [2, 3]].map((tiers) => ({
  tiers,
  // The order in which tiers are asked for means nothing.
  names: tiers.map((tier) => TIERS[tier]!).reverse(),
}));

/**
 * Leads an index through a random life.
 * @param make gives an empty index; all are made alike.
 * @throws IndexDiffers where an index and the model first say different things.
 */
export function leadIndexLife(make: () => CopyableIndex, options: IndexLifeOptions): IndexLifeTally {
  return new IndexLife(make, options).lead();
}

class IndexLife {
  readonly #make: () => CopyableIndex;
  readonly #options: IndexLifeOptions;
  readonly #model: RadixPrefixIndex;
  readonly #dice: LifeDice;
  readonly #universe: IndexUniverse;
  readonly #out: BigUint64Array;
  readonly #outPairs: Uint32Array;
  readonly #tally = noTally();
  readonly #modelRoad: ModelRoad;
  #index: CopyableIndex;
  #road: EventRoad;
  #done = 0;

  constructor(make: () => CopyableIndex, options: IndexLifeOptions) {
    const { depth, roads = INDEX_ROADS } = options;
    this.#make = make;
    this.#options = options;
    this.#universe = new IndexUniverse(depth);
    this.#model = new RadixPrefixIndex({ ...options, names: this.#universe.names });
    this.#dice = new LifeDice(options);
    this.#out = new BigUint64Array(depth);
    this.#outPairs = new Uint32Array(this.#out.buffer);
    this.#index = make();
    this.#road = roads.ofIndex(this.#index);
    this.#modelRoad = roads.ofModel(this.#model, options.owners);
  }

  lead(): IndexLifeTally {
    const { copyEvery, operations, pieces, progress } = this.#options;
    while (this.#done < operations) {
      this.#done++;
      const chain = this.#dice.pick(this.#universe.chains);
      const owner = this.#dice.owner();
      this.#step(owner, chain);
      const asked = this.#dice.integer(3) === 0 ? this.#dice.pick(this.#universe.chains) : chain;
      this.#find(asked);
      if (this.#dice.integer(4) === 0) this.#names(owner, asked);
      if (this.#dice.integer(8) === 0) pieces?.shift()?.();
      if (copyEvery !== undefined && this.#dice.integer(copyEvery) === 0) this.#copy();
      if (this.#done % 1000 === 0) this.#stats();
      if (this.#done % 10_000 === 0) progress?.(this.#done);
    }
    this.#stats();
    const { waited, repaired } = this.#modelRoad;
    return { ...this.#tally, operations: this.#done, waited, repaired };
  }

  #step(owner: number, chain: Chain): void {
    const dice = this.#dice.integer(10_000);
    if (dice < 5000) this.#store(owner, chain);
    else if (dice < 9670) this.#remove(owner, chain);
    else if (dice < 9970) this.#move(owner, chain);
    else if (dice < 9985) this.#clear(owner, dice % 8);
    else if (dice < 9993) this.#bind(owner, this.#dice.worker(dice));
    else this.#loseWorker(this.#dice.worker(dice));
    this.#counts(owner);
  }

  #store(owner: number, chain: Chain): void {
    const { length } = chain.contents;
    const held = this.#dice.integer(2) === 0 ? this.#model.names(owner, chain.contents, 0).length : 0;
    // Where stores can wait for their parent more of them are without one.
    const isAnywhere = this.#dice.integer(this.#options.roads === undefined ? 20 : 6) === 0;
    const from = isAnywhere ? this.#dice.integer(length) : Math.min(held, length - 1);
    const to = Math.min(length, from + this.#dice.length());
    const tier = this.#dice.tier();
    const names = this.#namesOf(owner, chain, from, to);
    let parent = ROOT;
    if (from > 0) {
      const before = this.#model.names(owner, chain.contents, from - 1, from);
      parent = before[0] ?? this.#namesOf(owner, chain, from - 1, from)[0]!;
    }
    this.#tellStore(owner, tier, parent, names, chain, from);
  }

  #tellStore(
    owner: number,
    tier: number,
    parent: number,
    names: Int32Array,
    chain: Chain,
    from: number,
  ): void {
    const to = from + names.length;
    this.#tally.stores++;
    const external = this.#universe.pairs(names);
    const behind = parent === ROOT ? null : this.#universe.name(parent);
    const said = this.#orRefused(() =>
      this.#road.store(slotOf(owner), TIERS[tier]!, behind, external, chain, from),
    );
    this.#tellOfEvicted();
    if (said === 'refused') return;
    const before = this.#model.stats.duplicateStores;
    const expected = this.#modelRoad.store(owner, tier, parent, names, chain.contents.subarray(from, to));
    if (this.#model.stats.duplicateStores > before) this.#tally.duplicates++;
    this.#same('store', said, expected);
  }

  /** What a store says, or that a full index refused it. */
  #orRefused<T>(store: () => T): T | 'refused' {
    try {
      return store();
    } catch (thrown) {
      const isFull = thrown instanceof PointsmanError && thrown.code === 'PM_KV_INDEX_FULL';
      if (!isFull || this.#options.isCapped !== true) throw thrown;
      this.#tally.refused++;
      return 'refused';
    }
  }

  /** Evictions come before the store that needs the room. */
  #tellOfEvicted(): void {
    const { evicted } = this.#options;
    if (evicted === undefined || evicted.length === 0) return;
    for (const { owner, external } of evicted.splice(0)) {
      this.#tally.evicted++;
      this.#model.evict(owner / slotOf(1), this.#universe.number(external));
    }
    // Whatever it evicts, an event raises the version once for it.
    this.#model.stats.version++;
  }

  #remove(owner: number, chain: Chain): void {
    const held = this.#model.names(owner, chain.contents, 0);
    const { length } = chain.contents;
    const from = Math.max(
      0,
      (this.#dice.integer(3) > 0 ? held.length : this.#dice.integer(length)) - this.#dice.length(),
    );
    let names: Int32Array;
    if (held.length > from) names = held.slice(from, from + this.#dice.length());
    else names = this.#namesOf(owner, chain, from, length);
    if (held.length > from + names.length) this.#tally.middleRemoves++;
    if (this.#dice.integer(8) === 0) {
      this.#tally.repeatedNames++;
      this.#tally.unknownNames++;
      names = Int32Array.of(...names, names[0]!, this.#universe.names);
    }
    this.#tellRemove(owner, this.#dice.tier(), names);
  }

  #tellRemove(owner: number, tier: number, names: Int32Array): void {
    this.#tally.removes++;
    const said = this.#road.remove(slotOf(owner), TIERS[tier]!, this.#universe.pairs(names));
    this.#same('remove', said, this.#modelRoad.remove(owner, tier, names));
  }

  /** Held blocks go to another tier: they come there before they leave the first, or after. */
  #move(owner: number, chain: Chain): void {
    const held = this.#model.names(owner, chain.contents, 0);
    if (held.length === 0) {
      this.#store(owner, chain);
      return;
    }
    const from = this.#dice.integer(held.length);
    const names = held.slice(from, from + this.#dice.length());
    const away = this.#dice.tier();
    const to = (away + 1 + this.#dice.integer(TIERS.length - 1)) % TIERS.length;
    const parent = from === 0 ? ROOT : held[from - 1]!;
    this.#tally.tierMoves++;
    const isStoredFirst = this.#dice.integer(2) === 0;
    if (isStoredFirst) this.#tellStore(owner, to, parent, names, chain, from);
    this.#tellRemove(owner, away, names);
    if (!isStoredFirst) this.#tellStore(owner, to, parent, names, chain, from);
  }

  #clear(owner: number, tier: number): void {
    this.#tally.clears++;
    this.#road.clear(slotOf(owner), TIERS[tier] ?? 'all');
    this.#modelRoad.clear(owner, Math.min(tier, ALL_TIERS));
  }

  #bind(owner: number, worker: WorkerId): void {
    this.#index.bindOwner(slotOf(owner), worker);
    if (!this.#model.bindOwner(owner, worker)) return;
    this.#tally.reboundSlots++;
    this.#forget([owner]);
  }

  #loseWorker(worker: WorkerId): void {
    this.#tally.lostWorkers++;
    this.#index.removeWorker(worker);
    this.#forget(this.#model.removeWorker(worker));
  }

  #forget(owners: readonly number[]): void {
    for (const owner of owners) {
      this.#road.forget(slotOf(owner));
      this.#modelRoad.forget(owner);
    }
  }

  #find(chain: Chain): void {
    const { tiers, names } = this.#dice.pick(MANY_TIERS);
    const match = this.#index.find(chain.local, chain.sequence, names);
    const expected = this.#model.find(chain.contents, tiers);
    this.#same('rows', match.count, expected.count);
    for (let row = 0; row < match.count; row++) {
      const owner = expected.owners[row]!;
      this.#same('owner', match.owners[row], slotOf(owner));
      for (let tier = 0; tier < TIERS.length; tier++)
        this.#same(TIERS[tier]!, match.depthPerTier[tier]![row], expected.depths[tier]![owner]);
    }
    this.#same('version', match.version, this.#model.stats.version);
  }

  #names(owner: number, chain: Chain): void {
    const { length } = chain.contents;
    const from = this.#dice.integer(2) === 0 ? 0 : this.#dice.integer(length);
    const names = this.#model.names(owner, chain.contents, from);
    const slot = slotOf(owner);
    const said = this.#index.externalHashes(slot, chain.sequence, from, length, this.#out);
    this.#same('names', said, names.length);
    for (let at = 0; at < names.length; at++) {
      if (!this.#universe.isName(names[at]!, this.#outPairs, at))
        this.#same('name', this.#out[at], u64ToBigInt(this.#universe.name(names[at]!)));
    }
    const tier = this.#dice.tier();
    const held = this.#index.holds(slot, TIERS[tier]!, chain.sequence, from);
    this.#same('holds', held, this.#model.holds(owner, tier, chain.contents, from));
  }

  #stats(): void {
    for (const pieces = this.#options.pieces ?? []; pieces.length > 0; ) pieces.shift()?.();
    const stats: Partial<Record<string, number>> = { ...this.#index.stats() };
    for (const [name, expected] of Object.entries(this.#model.stats)) this.#same(name, stats[name], expected);
  }

  /** What the roads say of an owner beside what is in the index. */
  #counts(owner: number): void {
    const expected = this.#modelRoad.counts(owner);
    const said = this.#road.counts(slotOf(owner));
    for (const [name, count] of Object.entries(expected)) this.#same(name, said[name], count);
  }

  /** The life goes on with an index filled from a snapshot of this one, if everything has room there. */
  #copy(): void {
    const { evicted = [], isCapped = false, owners, pieces = [] } = this.#options;
    const { copy, left } = checkedCopy({
      index: this.#index,
      make: this.#make,
      model: this.#model,
      universe: this.#universe,
      owners,
      isCapped,
      rowsPerPiece: 1 + this.#dice.integer(3000),
      same: (what, said, expected) => this.#same(what, said, expected),
    });
    evicted.length = 0;
    this.#tally.snapshots++;
    this.#tally.rowsLeft += left;
    if (copy === null) return;
    this.#tally.takenUp++;
    pieces.length = 0;
    this.#index = copy;
    this.#road = this.#road.onto(copy);
    this.#modelRoad.restarted();
    this.#stats();
  }

  #same(what: string, said: unknown, expected: unknown): void {
    if (Object.is(said, expected)) return;
    throw new IndexDiffers(
      `operation ${this.#done} of seed ${this.#options.seed}: ${what} is ${String(said)}, the model says ${String(expected)}`,
    );
  }

  #namesOf(owner: number, chain: Chain, from: number, to: number): Int32Array {
    return this.#universe.namesOf(owner, chain, from, to, this.#dice.rng);
  }
}

// Blocks that wait for their parent, for the radix model: one list per owner, gone through for every question. What the event
// applier's buffer finds by tables must be what is found so.

import { TIERS } from '../src/kv/index.ts';
import type { ModelRoad, RoadCounts } from '../src/kv/residency/index-roads.fixtures.ts';
import { type RadixPrefixIndex, ROOT } from '../src/kv/residency/radix-prefix-index.fixtures.ts';

/** One block that waits. */
interface Waiting {
  readonly name: number;
  readonly tier: number;
  readonly parent: number;
  readonly content: number;
  /** Its engine removed it, but blocks behind it wait too: once they are in place it goes. */
  isRemoved: boolean;
}

/** One owner's. */
interface Owner {
  /** Oldest first. */
  waiting: Waiting[];
  unknownRemoves: number;
  selfReferences: number;
}

/** Holds stores back from the model as the applier does from the index. */
export class RadixOrphans implements ModelRoad {
  readonly #model: RadixPrefixIndex;
  readonly #owners: Owner[];
  waited = 0;
  repaired = 0;

  constructor(model: RadixPrefixIndex, owners: number) {
    this.#model = model;
    this.#owners = Array.from({ length: owners }, fresh);
  }

  store(owner: number, tier: number, parent: number, names: Int32Array, contents: Int32Array): null {
    const of = this.#owners[owner]!;
    if (parent === ROOT || this.#model.knows(owner, parent)) {
      if (this.#model.store(owner, tier, parent, names, contents) === 'self-reference') of.selfReferences++;
    } else if (this.#model.repeats(parent, names)) of.selfReferences++;
    else {
      this.waited++;
      for (const [at, name] of names.entries()) {
        if (of.waiting.some((one) => one.name === name && one.tier === tier && !one.isRemoved)) continue;
        const before = at === 0 ? parent : names[at - 1]!;
        of.waiting.push({ name, tier, parent: before, content: contents[at]!, isRemoved: false });
      }
    }
    this.#repair(owner, of, [...names]);
    return null;
  }

  remove(owner: number, tier: number, names: Int32Array): null {
    const of = this.#owners[owner]!;
    if (of.waiting.length === 0) of.unknownRemoves += names.length - this.#model.remove(owner, tier, names);
    else for (const name of names) if (!this.#removeOne(owner, of, tier, name)) of.unknownRemoves++;
    return null;
  }

  clear(owner: number, tier: number): void {
    const of = this.#owners[owner]!;
    this.#model.clear(owner, tier);
    if (tier >= TIERS.length) of.waiting = [];
    for (const one of of.waiting.toReversed()) if (one.tier === tier) this.#stopWaiting(of, tier, one.name);
  }

  forget(owner: number): void {
    this.#owners[owner] = fresh();
  }

  counts(owner: number): RoadCounts {
    const { selfReferences, unknownRemoves, waiting } = this.#owners[owner]!;
    return {
      waiting: waiting.filter(({ isRemoved }) => !isRemoved).length,
      'unknown removes': unknownRemoves,
      'refused self-references': selfReferences,
      'refused events': selfReferences,
      'lost batches': 0,
    };
  }

  /** A snapshot has nothing that waits. */
  restarted(): void {
    for (const owner of this.#owners.keys()) this.forget(owner);
  }

  /** Blocks that came, or did not, may be what others wait for, and these what further ones do. */
  #repair(owner: number, of: Owner, came: number[]): void {
    if (of.waiting.length === 0) return;
    const removed = new Map<string, Waiting>();
    // Grows while it is gone through.
    for (const parent of came) {
      if (!this.#model.knows(owner, parent)) continue;
      const ready = of.waiting.filter((one) => one.parent === parent);
      if (ready.length > 0) of.waiting = of.waiting.filter((one) => one.parent !== parent);
      for (const one of ready) {
        const key = `${one.tier} ${one.name}`;
        if (one.isRemoved) removed.set(key, one);
        else removed.delete(key);
        this.#model.store(owner, one.tier, parent, Int32Array.of(one.name), Int32Array.of(one.content));
        this.repaired++;
        came.push(one.name);
      }
    }
    for (const { name, tier } of removed.values()) this.#removeOne(owner, of, tier, name);
  }

  /** Whether there was anything to remove. */
  #removeOne(owner: number, of: Owner, tier: number, name: number): boolean {
    const waited = this.#stopWaiting(of, tier, name);
    return this.#model.remove(owner, tier, Int32Array.of(name)) > 0 || waited;
  }

  #stopWaiting(of: Owner, tier: number, name: number): boolean {
    const found = of.waiting.filter((one) => one.name === name && one.tier === tier && !one.isRemoved);
    for (const one of found) {
      one.isRemoved = of.waiting.some(({ parent }) => parent === name);
      if (!one.isRemoved) of.waiting = of.waiting.filter((other) => other !== one);
    }
    return found.length > 0;
  }
}

const fresh = (): Owner => ({ waiting: [], unknownRemoves: 0, selfReferences: 0 });

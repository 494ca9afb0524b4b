// Compares what engines call the same block. Engines of one hash scheme with one seed agree; with a random seed per process they do
// not, and then KV cannot be fetched by hash between them. Only first blocks of prompts are compared: those are shared most.
import type { OwnerSlot } from '../kv/index.ts';
import type { WorkerId } from '../plugin/index.ts';

/** Blocks remembered per group of engines. */
const MOST_BLOCKS = 256;

interface Named {
  readonly slot: OwnerSlot;
  readonly worker: WorkerId;
  readonly low: number;
  readonly high: number;
}

/** Names of first blocks by engines that should agree. */
export class RootHashes {
  /** By group, then by the router's hash of the block. */
  readonly #groups = new Map<string, Map<string, Named[]>>();

  /**
   * An engine named a block.
   * @param group engines that should agree: model, routing group and hash scheme.
   * @param block the router's hash of it.
   * @param engine whose hash it is.
   */
  named(
    group: string,
    block: string,
    engine: Pick<Named, 'slot' | 'worker'>,
    low: number,
    high: number,
  ): void {
    const { slot, worker } = engine;
    let blocks = this.#groups.get(group);
    if (blocks === undefined) {
      blocks = new Map();
      this.#groups.set(group, blocks);
    }
    const named = blocks.get(block) ?? [];
    // Its first word counts: a second one is of an adapter or salt that its events do not name.
    if (!named.some((one) => one.slot === slot)) named.push({ slot, worker, low, high });
    // The one named last is the last to go.
    blocks.delete(block);
    blocks.set(block, named);
    if (blocks.size <= MOST_BLOCKS) return;
    const [oldest] = blocks.keys();
    if (oldest !== undefined) blocks.delete(oldest);
  }

  /** Forgets what an engine named: it is gone, or started anew. */
  forget(slot: OwnerSlot): void {
    for (const [group, blocks] of this.#groups) {
      for (const [block, named] of blocks) {
        const rest = named.filter((one) => one.slot !== slot);
        if (rest.length === 0) blocks.delete(block);
        else if (rest.length < named.length) blocks.set(block, rest);
      }
      if (blocks.size === 0) this.#groups.delete(group);
    }
  }

  /**
   * Who disagrees with whom: for each slot that is in the minority, slots that agree among each other and not with it. Where as many
   * say the one as the other, all are named.
   * @param least blocks on which a slot must disagree.
   */
  disagreeing(least: number): ReadonlyMap<OwnerSlot, readonly OwnerSlot[]> {
    const found = new Map<OwnerSlot, Set<OwnerSlot>>();
    const times = new Map<OwnerSlot, number>();
    for (const blocks of this.#groups.values()) {
      for (const named of blocks.values()) {
        const camps = new Map<string, Named[]>();
        for (const one of named) {
          const key = `${one.low} ${one.high}`;
          const camp = camps.get(key);
          if (camp === undefined) camps.set(key, [one]);
          else camp.push(one);
        }
        if (camps.size < 2) continue;
        // Ranks of one worker are one voice.
        const most = Math.max(...[...camps.values()].map(voices));
        const largest = [...camps.values()].filter((camp) => voices(camp) === most);
        const isMajority = largest.length === 1;
        for (const camp of camps.values()) {
          if (isMajority && voices(camp) === most) continue;
          for (const { slot } of camp) {
            const others = found.get(slot) ?? new Set<OwnerSlot>();
            for (const other of isMajority ? (largest[0] ?? []) : named) {
              if (!camp.includes(other)) others.add(other.slot);
            }
            found.set(slot, others);
            times.set(slot, (times.get(slot) ?? 0) + 1);
          }
        }
      }
    }
    return new Map(
      [...found]
        .filter(([slot]) => (times.get(slot) ?? 0) >= least)
        .map(([slot, others]) => [slot, [...others].sort((a, b) => a - b)]),
    );
  }
}

function voices(camp: readonly Named[]): number {
  return new Set(camp.map(({ worker }) => worker)).size;
}

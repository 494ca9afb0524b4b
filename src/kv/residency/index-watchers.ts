// Those that copy an index while it changes, told of what goes.
import { nameRow } from './dump-page.ts';
import type { Extents } from './extents.ts';
import type { Residencies } from './residencies.ts';
import type { IndexWatcher, OwnerSlot, Tier } from './types.ts';

/** The watchers of one index. */
export class IndexWatchers {
  readonly #residencies: Residencies;
  readonly #extents: Extents;
  readonly #watchers = new Set<IndexWatcher>();

  constructor(residencies: Residencies, extents: Extents) {
    this.#residencies = residencies;
    this.#extents = extents;
  }

  /** Tells one from now on; the function returned ends it. */
  add(watcher: IndexWatcher): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Tells of names that an event takes off a tier; null when nobody wants to know. */
  told(tier: Tier): ((name: number) => void) | null {
    if (this.#watchers.size === 0) return null;
    return (name) => {
      const row = { ...nameRow(this.#residencies, this.#extents, name >>> 6, name & 63), tier };
      for (const watcher of this.#watchers) watcher.removing(row);
    };
  }

  /** Blocks of an owner were forgotten. */
  forgotten(owner: OwnerSlot): void {
    for (const watcher of this.#watchers) watcher.forgotten(owner);
  }
}

// Copy locations by value: what a booking's copy locations answer, taken down while they can be read, and read again elsewhere or
// later. The rule by which a source is chosen stays with those that were read.
import type { KvCopy, KvCopyLocations, KvCopyOwner } from '../../plugin/index.ts';
import { leastBlocks } from '../blocks-asked.ts';
import { MOST_OWNERS, type WireCopyLocations } from './messages.ts';

/**
 * Takes down the best {@link MOST_OWNERS} owners and every copy that `bestSource` can answer: a copy is the answer for all minima
 * up to what it adds, so asking for one block more each time finds them all.
 */
export function snapshotCopyLocations(live: KvCopyLocations): WireCopyLocations {
  const copies: KvCopy[] = [];
  for (let minimum = 1; copies.length < MOST_OWNERS; ) {
    const copy = live.bestSource(minimum);
    if (copy === null) break;
    copies.push(copy);
    minimum = copy.additionalBlocks + 1;
  }
  return {
    owners: live.owners.slice(0, MOST_OWNERS).map(ownerOf),
    localPrefixBlocks: live.localPrefixBlocks,
    copies: copies.map((copy) => ({ ...copy, source: { ...copy.source } })),
  };
}

/** Copy locations read from a snapshot. */
export class CopyLocationsSnapshot implements KvCopyLocations {
  readonly owners: readonly KvCopyOwner[];
  readonly localPrefixBlocks: number;
  readonly #copies: readonly KvCopy[];

  constructor({ owners, localPrefixBlocks, copies }: WireCopyLocations) {
    this.owners = Object.freeze(owners.map((owner) => Object.freeze(ownerOf(owner))));
    this.localPrefixBlocks = localPrefixBlocks;
    this.#copies = copies;
    Object.freeze(this);
  }

  bestSource(minAdditional: number): KvCopy | null {
    const needed = leastBlocks(minAdditional);
    const copy = this.#copies.find(({ additionalBlocks }) => additionalBlocks >= needed);
    return copy === undefined ? null : frozenCopy(copy);
  }
}

/** A copy that its reader may keep: frozen, the hashes its own. */
export function frozenCopy(copy: KvCopy): KvCopy {
  return Object.freeze({
    ...copy,
    source: Object.freeze({ ...copy.source }),
    link: copy.link === null ? null : Object.freeze({ ...copy.link }),
    blockHashes: new BigUint64Array(copy.blockHashes),
  });
}

function ownerOf({ source, prefixBlocks }: KvCopyOwner): {
  source: KvCopyOwner['source'];
  prefixBlocks: number;
} {
  return { source: Object.freeze({ ...source }), prefixBlocks };
}

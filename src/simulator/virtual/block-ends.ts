// Which blocks leave the devices of a fleet, by the last token in them: engines name a block that goes by its hash alone.
import type { KvEvent } from '../../events/index.ts';
import { U64Map } from '../../kv/index.ts';

/** Tokens that a map can hold. */
const MAX_TOKEN = 2 ** 31 - 1;

/** Follows what engines with one hash seed publish. Holds one entry per different block that was ever stored. */
export class BlockEnds {
  readonly #tokens: U64Map;

  /** @param expectedBlocks different blocks to make room for at once. */
  constructor(expectedBlocks = 0) {
    this.#tokens = new U64Map(expectedBlocks);
  }

  /**
   * Tells of every block that leaves a device.
   * @param left gets its last token; −1 for one above 2³¹ − 1, or whose contents were never heard of.
   */
  follow(events: readonly KvEvent[], left: (token: number) => void): void {
    for (const event of events) {
      if (event.kind === 'stored') this.#stored(event);
      else if (event.kind === 'removed' && event.tier === 'device') {
        const { external } = event;
        for (let at = 0; at < external.length; at += 2) {
          left(this.#tokens.get(external[at]!, external[at + 1]!));
        }
      }
    }
  }

  #stored({ blockSize, external, tier, tokenIds }: Extract<KvEvent, { kind: 'stored' }>): void {
    // What is stored elsewhere was on a device before.
    if (tier !== 'device') return;
    for (let block = 0; 2 * block < external.length; block += 1) {
      const token = tokenIds[(block + 1) * blockSize - 1]!;
      if (token <= MAX_TOKEN) this.#tokens.set(external[2 * block]!, external[2 * block + 1]!, token);
    }
  }
}

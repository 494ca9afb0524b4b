// What a prefix index is made of.
import type { BlockHasher, U64 } from '../hashing/types.ts';
import type { OwnerSlot } from './types.ts';

/** Options of `createPrefixIndex`. */
export interface PrefixIndexOptions {
  /** Continues chains of sequence hashes; must be the hasher family that hashes prompts. */
  readonly hasher: Pick<BlockHasher, 'chain'>;
  /** Most (owner, engine hash) pairs held at once, 1 to 33,554,431, the default: about 50 bytes each in long chains. */
  readonly maxHoldings?: number;
  /**
   * Most bytes of all arrays; default no cap. Beyond it, and beyond `maxHoldings`, blocks of the owners that hold most are evicted,
   * those first that no look-up has gone through for longest. Tables may pass it by a few steps of their growth.
   */
  readonly maxBytes?: number;
  /** Called with every engine hash that is evicted, before the store that it makes room for applies. */
  readonly evicted?: (owner: OwnerSlot, external: U64) => void;
  /** Called after a step of evicting with how many (owner, engine hash) pairs went. */
  readonly onEvicted?: (names: number) => void;
  /**
   * Called after a remove that named hashes not held: so many because they had been evicted, so many for no reason that is known.
   */
  readonly onNotHeld?: (evicted: number, unknown: number) => void;
  /**
   * Whether the stores of an engine hash on a tier are counted, so that it takes as many removes to undo them: for engines that
   * keep two copies of a block and announce both. Right only where no event is lost or told twice, which may differ by owner and
   * change: while it says no, a store counts nothing and a remove undoes all. Default false.
   */
  readonly countStores?: boolean | ((owner: OwnerSlot) => boolean);
  /**
   * Runs `work` soon, never at once. With it clears are done in pieces: nothing sees cleared blocks from the clear on, but their
   * memory and their part in `blocks` and `holdings` go piece by piece. Without it a clear returns when all is done.
   */
  readonly later?: (work: () => void) => void;
  /** Places for blocks that one piece of a clear looks at, 1 to 65,472; default 8,192. */
  readonly sweepPlaces?: number;
}

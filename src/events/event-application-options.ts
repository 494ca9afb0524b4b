// What single events are applied to, and whom they are told to.
import type { BlockHasher, HashPairs, OwnerSlot, PrefixIndex, U64 } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { EventLimits } from './owner-blocks.ts';
import type { KvHintOutcomeEvent } from './types.ts';

/** Blocks that an engine stored for a session. */
export interface SessionStore {
  readonly sessionId: string;
  /** Their namespace, as inherited from the blocks before them; null = none. */
  readonly cacheSalt: string | null;
  /** The engine's hashes of blocks, or of pages smaller than blocks; only valid during the call. */
  readonly external: HashPairs;
}

/** What single events are applied to. */
export interface EventApplicationOptions {
  readonly index: PrefixIndex;
  readonly hasher: BlockHasher;
  /** Seed of local hashes for an adapter and a cache salt. */
  readonly blockHashSeed: (scope: {
    readonly loraName: string | null;
    readonly cacheSalt: string | null;
  }) => U64;
  /**
   * Whether the owner's engine is given up: what of its stream still waits to be read is left out, as the owner was cleared. Without
   * it none is.
   */
  readonly isGivenUp?: (owner: OwnerSlot) => boolean;
  /** Tokens per block of the owner's model; null = not known yet. */
  readonly blockSizeOf: (owner: OwnerSlot) => number | null;
  /** Called with the block size of the first store with blocks while `blockSizeOf` is null; never with 1, the size of pages. */
  readonly learnBlockSize: (owner: OwnerSlot, blockSize: number) => void;
  /** Whether the owner's model has pairs of tokens (EAGLE); without it no model has. */
  readonly tokenPairs?: {
    /** Null = not known yet. */
    of(owner: OwnerSlot): boolean | null;
    /** Called with what the first store says while `of` is null. */
    learn(owner: OwnerSlot, pairs: boolean): void;
  };
  /** Placeholder token of images where the owner's engine hashes pad values in its place; null or absent = it does not. */
  readonly placeholderOf?: (owner: OwnerSlot) => number | null;
  /**
   * The owner stored blocks whose parent is not known, so it is missing events: asked once until no block waits any more. Called
   * while an event is applied; a replay must begin later, not within the call.
   */
  readonly requestReplay?: (owner: OwnerSlot) => void;
  /**
   * Called when a store on a device that names the session it was made for is in the index, or was there already. Read when one comes;
   * null or absent = nobody wants to know.
   */
  readonly sessionStored?: ((owner: OwnerSlot, store: SessionStore) => void) | null;
  readonly onHintOutcome?: (owner: OwnerSlot, outcome: KvHintOutcomeEvent) => void;
  /** Caps other than `EVENT_LIMITS`. */
  readonly eventLimits?: Partial<EventLimits>;
  readonly metrics: Metrics;
}

// Ports of the event road: raw batches in, decoded columns out. Sources (ZeroMQ, virtual) deliver bytes; one applier decodes
// them and changes the prefix index.
import type { HashPairs, MultimodalItems, OwnerSlot, Tier, U64 } from '../kv/index.ts';
import type { HintOutcome } from '../observe/index.ts';

/** Takes what event sources deliver, in order per owner. */
export interface KvEventSink {
  /**
   * One message of an engine's event stream.
   * @param owner slot of the (worker, rank) the connection belongs to.
   * @param sequence the publisher's batch counter, from 0.
   * @param payload msgpack bytes of one batch; only valid during the call.
   */
  onBatch(owner: OwnerSlot, sequence: number, payload: Uint8Array): void;
}

/** Hears the answer to a question for missed batches: batches in order, then one of the two ends. */
export interface KvReplayListener {
  /** @param payload msgpack bytes of one batch; only valid during the call. */
  batch(sequence: number, payload: Uint8Array): void;
  ended(): void;
  /** No answer in time, or one that cannot be used. Virtual engines always answer. */
  failed?(failure: 'timed_out' | 'failed'): void;
}

/** Asks one engine for batches it published before. */
export interface KvEventReplay {
  /**
   * Asks for every batch the engine still holds from a number on. Answers come later, never within the call. Returns a function
   * after which nothing more is heard.
   */
  replay(from: number, listener: KvReplayListener): () => void;
}

/** A running subscription; the implementation decides where bytes come from. */
export interface KvEventSource {
  /** Stops delivering and frees sockets; idempotent. */
  close(): void;
}

/** Facts that decide whether the router can index a block event; absent when the engine sent none of them. */
export interface KvEventScope {
  /** KV cache group of a hybrid model. */
  readonly groupIndex: number | null;
  /** Kind of attention of that group, for example `full_attention`. */
  readonly attentionKind: string | null;
  /** `LOCAL`, or `REMOTE` for blocks another publisher announces. */
  readonly locality: string | null;
  /** Set when a block's identity rests on more than tokens, adapter, salt and multimodal items. */
  readonly unsupported: 'extra_keys' | null;
}

/** Decoded BlockStored. Arrays may be views that the next event overwrites. */
export interface BlockStoredEvent {
  readonly kind: 'stored';
  readonly external: HashPairs;
  readonly parent: U64 | null;
  /** Tokens of all blocks, concatenated; with `bigrams` one more, the second of the last pair. */
  readonly tokenIds: Uint32Array;
  readonly blockSize: number;
  /** The engine sent pairs of tokens (EAGLE): a block also covers the token behind it. Absent = false. */
  readonly bigrams?: boolean;
  /** Hashes of each block's multimodal items in the engine's order; absent when no block has any. */
  readonly multimodal?: MultimodalItems;
  readonly tier: Tier;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  readonly sessionId: string | null;
  readonly scope?: KvEventScope;
}

/** Decoded BlockRemoved. */
export interface BlockRemovedEvent {
  readonly kind: 'removed';
  readonly external: HashPairs;
  readonly tier: Tier;
  readonly scope?: KvEventScope;
}

/** Decoded AllBlocksCleared. */
export interface AllBlocksClearedEvent {
  readonly kind: 'cleared';
  /** The only tier that was cleared; absent = all of them. */
  readonly tier?: Tier;
}

/** Late outcome of a hint, in the same sequence as block events. */
export interface KvHintOutcomeEvent {
  readonly kind: 'hint-outcome';
  readonly messageId: string;
  readonly actionId: string;
  readonly outcome: HintOutcome;
  readonly reason: string | null;
  readonly blocks: number | null;
}

/** Any event of a batch. */
export type KvEvent = BlockStoredEvent | BlockRemovedEvent | AllBlocksClearedEvent | KvHintOutcomeEvent;

/** One decoded batch. */
export interface KvEventBatch {
  /** Seconds since the epoch by the engine's clock. */
  readonly timestamp: number;
  readonly events: readonly KvEvent[];
  /** Overrides the connection's rank when present. */
  readonly rank: number | null;
  /** What the decoder did not know and skipped; absent when there was none. */
  readonly skipped?: {
    /** Events with an unknown tag. */
    readonly events: number;
    /** Unknown fields and mediums of known events. */
    readonly fields: number;
  };
}

// What a router tells an engine about its KV cache: the envelope of protocol 0.1.

/** A JSON value that may also carry exact 64-bit integers: alone as `bigint`, in bulk as `BigUint64Array`. */
export type HintJson =
  | string
  | number
  | bigint
  | boolean
  | null
  | BigUint64Array
  | readonly HintJson[]
  | { readonly [key: string]: HintJson };

/** What a hint policy returns: the host adds the id. */
export interface HintAction {
  /** For example `kv.fetch`. */
  readonly type: string;
  /** For example `1.0`. */
  readonly version: string;
  /** A JSON object; block hashes in it are the engine's, as `BigUint64Array` or `bigint`. */
  readonly payload: { readonly [key: string]: HintJson };
}

/** One numbered action of an envelope, in the names of the wire. */
export interface KvHintAction {
  readonly action_id: string;
  readonly action_type: string;
  readonly action_version: string;
  readonly payload: { readonly [key: string]: HintJson };
}

/** The envelope as it goes on the wire: actions `a1, a2, …` in order, at most {@link MAX_HINT_ACTIONS}. */
export interface KvHint {
  readonly protocol_version: '0.1';
  readonly message_id: string;
  readonly actions: readonly KvHintAction[];
}

/** At most this many actions in one envelope. */
export const MAX_HINT_ACTIONS = 32;

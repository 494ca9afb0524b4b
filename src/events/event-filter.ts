// Which block events the router indexes. Hybrid models announce blocks per KV cache group, and only groups of full attention
// tell what prefix is reusable; removals carry no kind, so what a group is must be remembered from its stores.
// Rules and reasons: ai-dynamo/dynamo lib/kv-router/src/zmq_wire/filter.rs.
import type { KvEventScope } from './types.ts';

/** Why a block event is left out. */
export type FilterReason =
  /** Announced on behalf of another publisher, or with a locality not known here. */
  | 'remote'
  /** Of a sliding window, a state-space layer and the like. */
  | 'non_main_attention_kind'
  /** Of a kind of attention not known here. */
  | 'unknown_kind'
  /** Without a kind, of a group that was not of main attention before. */
  | 'non_main_attention_group'
  /** Without a kind, of a group other than 0 of which nothing was heard yet. */
  | 'unlearned_group_idx'
  | 'extra_keys';

const MAIN_KINDS: ReadonlySet<string> = new Set(['full_attention', 'mla_attention', 'sink_full_attention']);
const OTHER_KINDS: ReadonlySet<string> = new Set([
  'sliding_window',
  'sliding_window_mla',
  'mamba',
  'chunked_local_attention',
  'encoder_only_attention',
  'cross_attention',
]);

/** Groups remembered per owner; models have a handful. */
const MAX_GROUPS = 64;

/** The filter of one owner's events. */
export class EventFilter {
  readonly #isMain = new Map<number, boolean>();

  /** Null to index a store, else why not; learns what its group is. Call it for every store, in order. */
  checkStore(scope: KvEventScope | undefined): FilterReason | null {
    if (scope === undefined) return null;
    return this.#check(scope, true) ?? scope.unsupported;
  }

  /** Null to apply a removal, else why not. */
  checkRemoval(scope: KvEventScope | undefined): FilterReason | null {
    return scope === undefined ? null : this.#check(scope, false);
  }

  #check({ locality, attentionKind, groupIndex }: KvEventScope, learns: boolean): FilterReason | null {
    if (locality !== null && locality !== 'LOCAL') return 'remote';
    if (attentionKind !== null) {
      const isMain = MAIN_KINDS.has(attentionKind);
      if (learns && groupIndex !== null) this.#learn(groupIndex, isMain);
      if (isMain) return null;
      return OTHER_KINDS.has(attentionKind) ? 'non_main_attention_kind' : 'unknown_kind';
    }
    if (groupIndex === null) return null;
    const isMain = this.#isMain.get(groupIndex);
    if (isMain === undefined) return groupIndex === 0 ? null : 'unlearned_group_idx';
    return isMain ? null : 'non_main_attention_group';
  }

  #learn(group: number, isMain: boolean): void {
    if (this.#isMain.has(group) || this.#isMain.size < MAX_GROUPS) this.#isMain.set(group, isMain);
  }
}

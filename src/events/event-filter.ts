// Which block events the router indexes. Hybrid models announce blocks per KV cache group, and only groups of full attention
// tell what prefix is reusable; removals carry no kind, so what a group is must be remembered from its stores.
import type { KvEventScope } from './types.ts';

/** Why a block event is left out. */
export type FilterReason = 'remote' | 'attention_group' | 'bigram_tokens' | 'extra_keys';

const MAIN_ATTENTION: readonly string[] = ['full_attention', 'mla_attention', 'sink_full_attention'];

/** Groups remembered per owner; models have a handful. */
const MAX_GROUPS = 64;

/** The filter of one owner's stream. */
export class EventFilter {
  readonly #isMain = new Map<number, boolean>();

  /** Null to index the event, else why not. Call it for every store and removal, in order. */
  check(scope: KvEventScope | undefined): FilterReason | null {
    if (scope === undefined) return null;
    if (scope.locality !== null && scope.locality !== 'LOCAL') return 'remote';
    if (!this.#isMainAttention(scope)) return 'attention_group';
    return scope.unsupported;
  }

  /** Forgets what was learned; for a restarted engine. */
  reset(): void {
    this.#isMain.clear();
  }

  #isMainAttention({ attentionKind, groupIndex }: KvEventScope): boolean {
    if (attentionKind !== null) {
      const main = MAIN_ATTENTION.includes(attentionKind);
      const known = groupIndex !== null && this.#isMain.has(groupIndex);
      if (groupIndex !== null && (known || this.#isMain.size < MAX_GROUPS)) {
        this.#isMain.set(groupIndex, main);
      }
      return main;
    }
    if (groupIndex === null) return true;
    return this.#isMain.get(groupIndex) ?? groupIndex === 0;
  }
}

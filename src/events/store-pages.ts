// One store of pages smaller than the model's blocks: each goes into the owner's page table, and the blocks that become full go into
// the index.
import {
  type BlockHasher,
  hashAt,
  hashBlocks,
  type OwnerSlot,
  type PrefixIndex,
  type U64,
} from '../kv/index.ts';
import type { RejectReason } from './event-feed.ts';
import type { BlockSink, PageTable } from './page-table.ts';
import { storeOrLeaveOut } from './store-or-leave-out.ts';
import { repeatsHash } from './store-shape.ts';
import type { BlockStoredEvent } from './types.ts';

/** Where pages go, and what their blocks are hashed with. */
export interface PageStore {
  readonly index: PrefixIndex;
  readonly hasher: BlockHasher;
  readonly owner: OwnerSlot;
  readonly pages: PageTable;
  readonly seed: U64;
  readonly placeholder: number | null;
}

/** Null when all pages are in place, else why one is not; those before it are, and those behind it are not. */
export function storePages(store: PageStore, event: BlockStoredEvent): RejectReason | null {
  const { index, hasher, owner, pages, seed, placeholder } = store;
  const { external, tier, tokenIds } = event;
  if (repeatsHash(event.parent, external)) return 'self_reference';
  let lost: RejectReason | null = null;
  const sink: BlockSink = {
    complete(on, block) {
      const form = {
        bigrams: pages.bigrams,
        placeholder,
        multimodal: block.items === null ? undefined : [block.items],
      };
      const { local } = hashBlocks(hasher, block.tokenIds, pages.blockSize, seed, form);
      const outcome = storeOrLeaveOut(index, owner, on, block.parent, block.external, local);
      if (outcome !== 'unknown-parent') return;
      lost = index.lacksRoomFor(owner) ? 'evicted_parent' : 'unknown_parent';
      if (lost === 'evicted_parent') index.leftOut(owner, 1);
    },
    broken: (on, last) => void index.remove(owner, on, last),
  };
  let parent = event.parent;
  for (let i = 0; i < external.length / 2; i += 1) {
    const page = hashAt(external, i);
    const items = event.multimodal?.[i] ?? null;
    const outcome = pages.store(tier, parent, page, tokenIds, i * pages.pageSize, items, sink);
    if (outcome === 'conflict') return 'hash_conflict';
    if (outcome === 'full') return 'page_capacity';
    parent = page;
  }
  return lost;
}

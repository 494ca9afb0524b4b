// One store on its way into the index: refused whole, parked until its parent is known, put together from pages, or hashed and
// indexed. What decides is what the event says, and what the owner's events before it said of the same hashes.
import { hashAt, hashBlocks, type OwnerSlot, type U64 } from '../kv/index.ts';
import type { EventApplicationOptions } from './event-application-options.ts';
import type { OwnerFeed, RejectReason } from './event-feed.ts';
import type { HashMark } from './hash-marks.ts';
import type { OwnerBlocks } from './owner-blocks.ts';
import type { Rejections } from './rejections.ts';
import { storeOrLeaveOut } from './store-or-leave-out.ts';
import { storePages } from './store-pages.ts';
import { repeatsHash } from './store-shape.ts';
import type { BlockStoredEvent } from './types.ts';

/** Applies stores one at a time. */
export class StoreApplication {
  readonly #options: EventApplicationOptions;
  readonly #rejections: Rejections;

  constructor(options: EventApplicationOptions, rejections: Rejections) {
    this.#options = options;
    this.#rejections = rejections;
  }

  /** Null when the blocks are indexed or wait, else why they are not. */
  store(owner: OwnerSlot, state: OwnerBlocks, feed: OwnerFeed, event: BlockStoredEvent): RejectReason | null {
    const { index, hasher, blockHashSeed, learnBlockSize } = this.#options;
    const { blockSize, external, parent, bigrams = false } = event;
    const { marks } = state;
    const expected = this.#options.blockSizeOf(owner);
    // A page of one token says nothing about the model's blocks.
    if (expected === null ? blockSize === 1 : expected % blockSize !== 0) {
      feed.mismatchedBlockSize = blockSize;
      return 'block_size';
    }
    if (external.length === 0) return null;
    if (event.tokenIds.length !== (external.length / 2) * blockSize + (bigrams ? 1 : 0)) {
      this.bar(owner, state, event, 'unusable');
      return 'token_count';
    }
    const otherForm = this.#otherForm(owner, bigrams);
    if (otherForm !== null) return otherForm;
    // Only now: a size that the event's own tokens contradict must not become the model's.
    if (expected === null) learnBlockSize(owner, blockSize);

    const before = parent === null ? null : marks.of(parent);
    const barred = before === null ? null : reasonOf(before);
    if (barred !== null) {
      this.bar(owner, state, event, before?.kind === 'ambiguous' ? 'ambiguous' : 'unusable');
      return barred;
    }
    if (parent !== null && !this.knows(owner, state, parent)) {
      if (repeatsHash(parent, external)) return 'self_reference';
      if (index.lacksRoomFor(owner)) {
        index.leftOut(owner, external.length / 2);
        return 'evicted_parent';
      }
      this.#park(owner, state, feed, event, parent);
      return null;
    }
    const salt = (event.cacheSalt || null) ?? (before?.kind === 'salted' ? before.salt : null);
    if (this.#isAmbiguous(owner, state, event, salt)) {
      marks.bar(external, 'ambiguous');
      return 'ambiguous_cache_namespace';
    }
    if (salt !== null && !marks.hasRoom(external.length / 2, salt)) return 'cache_namespace_full';
    const seed = blockHashSeed({ loraName: event.loraName, cacheSalt: salt });
    const placeholder = this.#options.placeholderOf?.(owner) ?? null;
    if (expected !== null && expected !== blockSize) {
      const pages = state.pagesOf(blockSize, expected, bigrams);
      if (pages === null) {
        feed.mismatchedBlockSize = blockSize;
        return 'block_size';
      }
      const reason = storePages({ index, hasher, owner, pages, seed, placeholder }, event);
      if (reason !== null) return reason;
    } else {
      const form = { bigrams, multimodal: event.multimodal, placeholder };
      const { local } = hashBlocks(hasher, event.tokenIds, blockSize, seed, form);
      const outcome = storeOrLeaveOut(index, owner, event.tier, parent, external, local);
      if (outcome === 'self-reference') return 'self_reference';
      if (outcome === 'unknown-parent') return 'unknown_parent';
    }
    if (salt !== null || marks.size > 0) marks.salt(external, salt);
    const { sessionId } = event;
    if (sessionId !== null && event.tier === 'device')
      this.#options.sessionStored?.(owner, { sessionId, cacheSalt: salt, external });
    return null;
  }

  #otherForm(owner: OwnerSlot, bigrams: boolean): RejectReason | null {
    const { tokenPairs } = this.#options;
    const expected = tokenPairs === undefined ? false : tokenPairs.of(owner);
    if (expected === null) tokenPairs?.learn(owner, bigrams);
    else if (expected !== bigrams) return bigrams ? 'bigram_tokens' : 'plain_tokens';
    return null;
  }

  #isAmbiguous(
    owner: OwnerSlot,
    { marks, pages }: OwnerBlocks,
    { external }: BlockStoredEvent,
    salt: string | null,
  ): boolean {
    if (salt === null && marks.size === 0) return false;
    for (let i = 0; i < external.length / 2; i += 1) {
      const mark = marks.at(external, i);
      if (mark.kind === 'ambiguous') return true;
      if (mark.kind === 'salted' && mark.salt !== salt) return true;
      if (mark.kind !== 'plain' || salt === null) continue;
      const hash = hashAt(external, i);
      if (this.#options.index.knows(owner, hash) || pages?.knows(hash.lo, hash.hi) === true) return true;
    }
    return false;
  }

  /** Nothing may hang on what is left out; blocks that are in place stay what they are. */
  bar(
    owner: OwnerSlot,
    state: OwnerBlocks,
    { external }: BlockStoredEvent,
    kind: 'ambiguous' | 'unusable',
  ): void {
    for (let i = 0; i < external.length / 2; i += 1) {
      if (!this.knows(owner, state, hashAt(external, i))) {
        state.marks.bar(external.subarray(2 * i, 2 * i + 2), kind);
      }
    }
  }

  /** Whether an owner holds a block or page under a hash, on any tier. */
  knows(owner: OwnerSlot, { pages }: OwnerBlocks, hash: U64): boolean {
    return pages?.knows(hash.lo, hash.hi) === true || this.#options.index.knows(owner, hash);
  }

  #park(owner: OwnerSlot, state: OwnerBlocks, feed: OwnerFeed, event: BlockStoredEvent, parent: U64): void {
    const dropped = state.orphans.add(event, parent);
    if (dropped > 0) this.#rejections.count(feed, 'unknown_parent', dropped, 0);
    if (state.replayAsked) return;
    state.replayAsked = true;
    this.#options.requestReplay?.(owner);
  }
}

/** Why nothing may hang on a hash; null = anything may. */
export function reasonOf({ kind }: HashMark): RejectReason | null {
  if (kind === 'ambiguous') return 'ambiguous_cache_namespace';
  return kind === 'unusable' ? 'unusable_parent' : null;
}

// Applies single events to the prefix index. A store is refused whole, parked until its parent is known, put together from pages,
// or hashed and indexed; whatever else engines tell about a block is kept per owner in owner-blocks.ts.
import {
  type BlockHasher,
  hashAt,
  hashBlocks,
  type OwnerSlot,
  type PrefixIndex,
  type U64,
} from '../kv/index.ts';
import type { MetricLabels, Metrics } from '../observe/index.ts';
import { errorText } from '../plugin/index.ts';
import type { FeedCounts, RejectReason } from './event-feed.ts';
import type { HashMark } from './hash-marks.ts';
import type { Orphan } from './orphan-buffer.ts';
import { EVENT_LIMITS, type EventLimits, OwnerBlocks, type SharedBudgets } from './owner-blocks.ts';
import { storePages } from './store-pages.ts';
import { repeatsHash } from './store-shape.ts';
import type { BlockRemovedEvent, BlockStoredEvent, KvEvent, KvHintOutcomeEvent } from './types.ts';

/** What single events are applied to. */
export interface EventApplicationOptions {
  readonly index: PrefixIndex;
  readonly hasher: BlockHasher;
  /** Seed of local hashes for an adapter and a cache salt. */
  readonly blockHashSeed: (scope: {
    readonly loraName: string | null;
    readonly cacheSalt: string | null;
  }) => U64;
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
  readonly onHintOutcome?: (owner: OwnerSlot, outcome: KvHintOutcomeEvent) => void;
  /** Caps other than {@link EVENT_LIMITS}. */
  readonly eventLimits?: Partial<EventLimits>;
  readonly metrics: Metrics;
}

/** Applies events one at a time. */
export class EventApplication {
  readonly #options: EventApplicationOptions;
  readonly #limits: EventLimits;
  readonly #budgets: SharedBudgets;
  readonly #owners = new Map<OwnerSlot, OwnerBlocks>();

  constructor(options: EventApplicationOptions) {
    this.#options = options;
    this.#limits = { ...EVENT_LIMITS, ...options.eventLimits };
    this.#budgets = {
      orphans: { bytes: 0, maxBytes: this.#limits.allOrphanBytes },
      pages: { pages: 0, maxPages: this.#limits.allPages },
    };
    options.metrics.gauge('pointsman_kv_orphan_blocks', () => {
      let blocks = 0;
      for (const state of this.#owners.values()) blocks += state.orphans.blocks;
      return blocks;
    });
    options.metrics.gauge('pointsman_kv_pages', () => this.#budgets.pages.pages);
  }

  /** Applies an event; what it refuses is counted on the feed. */
  apply(owner: OwnerSlot, feed: FeedCounts, event: KvEvent): void {
    const { index, onHintOutcome } = this.#options;
    switch (event.kind) {
      case 'stored': {
        const state = this.#stateOf(owner);
        const reason = state.filter.checkStore(event.scope);
        if (reason !== null) {
          if (reason === 'extra_keys') this.#bar(owner, state, event, 'unusable');
          this.reject(feed, reason, event.external.length / 2);
          return;
        }
        this.#storeAndRelease(owner, state, feed, event);
        return;
      }
      case 'removed':
        this.#remove(owner, this.#stateOf(owner), feed, event);
        return;
      case 'cleared': {
        const tier = event.tier ?? 'all';
        index.clear(owner, tier);
        this.#clear(this.#stateOf(owner), tier);
        return;
      }
      case 'hint-outcome':
        onHintOutcome?.(owner, event);
    }
  }

  /** Counts what was refused. */
  reject(feed: FeedCounts, reason: RejectReason, blocks: number, events = 1): void {
    const { metrics } = this.#options;
    feed.reject(reason, blocks, events);
    if (events > 0) metrics.count('pointsman_kv_events_rejected_total', labelsOf(reason), events);
    if (blocks > 0) metrics.count('pointsman_kv_blocks_rejected_total', labelsOf(reason), blocks);
  }

  /** Blocks of an owner that wait for their parent. */
  orphanBlocks(owner: OwnerSlot): number {
    return this.#owners.get(owner)?.orphans.blocks ?? 0;
  }

  /** The index forgot an owner's blocks, but its engine lives on. */
  cleared(owner: OwnerSlot): void {
    this.#owners.get(owner)?.forgetBlocks();
  }

  /** The owner's engine started anew, or the slot is somebody else's now. */
  forget(owner: OwnerSlot): void {
    this.#owners.get(owner)?.forgetBlocks();
    this.#owners.delete(owner);
  }

  #stateOf(owner: OwnerSlot): OwnerBlocks {
    let state = this.#owners.get(owner);
    if (state === undefined) {
      state = new OwnerBlocks(this.#limits, this.#budgets);
      this.#owners.set(owner, state);
    }
    return state;
  }

  #storeAndRelease(owner: OwnerSlot, state: OwnerBlocks, feed: FeedCounts, event: BlockStoredEvent): void {
    const reason = this.#store(owner, state, feed, event);
    if (reason !== null) this.reject(feed, reason, event.external.length / 2);
    if (!state.orphans.isEmpty) this.#release(owner, state, feed, event);
  }

  /** Null when the blocks are indexed or wait, else why they are not. */
  #store(
    owner: OwnerSlot,
    state: OwnerBlocks,
    feed: FeedCounts,
    event: BlockStoredEvent,
  ): RejectReason | null {
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
      this.#bar(owner, state, event, 'unusable');
      return 'token_count';
    }
    const otherForm = this.#otherForm(owner, bigrams);
    if (otherForm !== null) return otherForm;
    // Only now: a size that the event's own tokens contradict must not become the model's.
    if (expected === null) learnBlockSize(owner, blockSize);

    const before = parent === null ? null : marks.of(parent);
    const barred = before === null ? null : reasonOf(before);
    if (barred !== null) {
      this.#bar(owner, state, event, before?.kind === 'ambiguous' ? 'ambiguous' : 'unusable');
      return barred;
    }
    if (parent !== null && !this.#knows(owner, state, parent)) {
      if (repeatsHash(parent, external)) return 'self_reference';
      this.#park(owner, state, feed, event, parent);
      return null;
    }
    const salt = (event.cacheSalt || null) ?? (before?.kind === 'salted' ? before.salt : null);
    if (this.#isAmbiguous(owner, state, event, salt)) {
      marks.bar(external, 'ambiguous');
      return 'ambiguous_cache_namespace';
    }
    if (salt !== null && !marks.hasRoom(external.length / 2)) return 'cache_namespace_full';
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
      const outcome = index.store(owner, event.tier, parent, external, local);
      if (outcome === 'self-reference') return 'self_reference';
      if (outcome === 'unknown-parent') return 'unknown_parent';
    }
    if (salt !== null || marks.size > 0) marks.salt(external, salt);
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
  #bar(
    owner: OwnerSlot,
    state: OwnerBlocks,
    { external }: BlockStoredEvent,
    kind: 'ambiguous' | 'unusable',
  ): void {
    for (let i = 0; i < external.length / 2; i += 1) {
      if (!this.#knows(owner, state, hashAt(external, i))) {
        state.marks.bar(external.subarray(2 * i, 2 * i + 2), kind);
      }
    }
  }

  #knows(owner: OwnerSlot, { pages }: OwnerBlocks, hash: U64): boolean {
    return pages?.knows(hash.lo, hash.hi) === true || this.#options.index.knows(owner, hash);
  }

  #park(owner: OwnerSlot, state: OwnerBlocks, feed: FeedCounts, event: BlockStoredEvent, parent: U64): void {
    const dropped = state.orphans.add(event, parent);
    if (dropped > 0) this.reject(feed, 'unknown_parent', dropped, 0);
    if (state.replayAsked) return;
    state.replayAsked = true;
    this.#options.requestReplay?.(owner);
  }

  /** Applies what waited for a store's blocks, and what waited for that, and so on. */
  #release(owner: OwnerSlot, state: OwnerBlocks, feed: FeedCounts, { external }: BlockStoredEvent): void {
    const open: U64[] = [];
    for (let i = 0; i < external.length / 2; i += 1) open.push(hashAt(external, i));
    // Blocks that the engine removed while they waited go once those behind them are in place.
    const removed = new Map<string, Orphan>();
    for (let next = 0; next < open.length; next += 1) {
      const { lo, hi } = open[next]!;
      if (!this.#knows(owner, state, { lo, hi }) && reasonOf(state.marks.of({ lo, hi })) === null) continue;
      for (const orphan of state.orphans.take(lo, hi)) {
        const hash = hashAt(orphan.event.external, 0);
        const key = `${orphan.event.tier} ${hash.lo} ${hash.hi}`;
        if (orphan.removed) removed.set(key, orphan);
        else removed.delete(key);
        try {
          const reason = this.#store(owner, state, feed, orphan.event);
          if (reason !== null) this.reject(feed, reason, 1);
        } catch (thrown) {
          feed.lastError = errorText(thrown);
          this.reject(feed, 'failed', 1);
        }
        open.push(hash);
      }
    }
    for (const { event } of removed.values()) {
      this.#removeOne(owner, state, event.tier, hashAt(event.external, 0));
    }
    if (state.orphans.isEmpty) state.replayAsked = false;
  }

  #remove(owner: OwnerSlot, state: OwnerBlocks, feed: FeedCounts, event: BlockRemovedEvent): void {
    const { external, tier } = event;
    const blocks = external.length / 2;
    const reason = state.filter.checkRemoval(event.scope);
    if (reason !== null) {
      // Blocks that were left out are no blocks lost.
      this.reject(feed, reason, 0);
      return;
    }
    if (state.pages === null && state.orphans.isEmpty && state.marks.size === 0) {
      feed.unknownRemoves += blocks - this.#options.index.remove(owner, tier, external);
      return;
    }
    for (let i = 0; i < blocks; i += 1) {
      const hash = hashAt(external, i);
      const wasBarred = reasonOf(state.marks.of(hash)) !== null;
      if (!this.#removeOne(owner, state, tier, hash) && !wasBarred) feed.unknownRemoves += 1;
    }
    if (state.orphans.isEmpty) state.replayAsked = false;
  }

  /** Whether the block was known, here or in the index. */
  #removeOne(owner: OwnerSlot, state: OwnerBlocks, tier: BlockRemovedEvent['tier'], hash: U64): boolean {
    const { index } = this.#options;
    const { lo, hi } = hash;
    const waited = state.orphans.remove(lo, hi, tier);
    const external = Uint32Array.of(lo, hi);
    const wasPage =
      state.pages?.remove(tier, lo, hi, {
        complete() {},
        broken: (on, last) => void index.remove(owner, on, last),
      }) === true;
    const removed = wasPage || index.remove(owner, tier, external) > 0;
    // A block on another tier still says what it is to those behind it.
    if (state.marks.size > 0 && !state.orphans.has(lo, hi) && !this.#knows(owner, state, hash)) {
      state.marks.forgetOne(lo, hi);
    }
    return waited || removed;
  }

  #clear(state: OwnerBlocks, tier: BlockRemovedEvent['tier'] | 'all'): void {
    if (tier === 'all') {
      state.forgetBlocks();
      state.marks.clear();
      return;
    }
    state.orphans.clear(tier);
    state.pages?.clear(tier);
    if (state.orphans.isEmpty) state.replayAsked = false;
  }
}

/** Why nothing may hang on a hash; null = anything may. */
function reasonOf({ kind }: HashMark): RejectReason | null {
  if (kind === 'ambiguous') return 'ambiguous_cache_namespace';
  return kind === 'unusable' ? 'unusable_parent' : null;
}

/** Label objects by value, so that counting allocates nothing; values come from fixed lists. */
const LABELS = new Map<string, MetricLabels>();

function labelsOf(reason: RejectReason): MetricLabels {
  let labels = LABELS.get(reason);
  if (labels === undefined) {
    labels = { reason };
    LABELS.set(reason, labels);
  }
  return labels;
}

// Applies single events to the prefix index, and what an event lets go on: blocks that waited for their parent. What engines tell
// about blocks beyond what the index holds is kept per owner in owner-blocks.ts.
import { hashAt, type OwnerSlot, type U64 } from '../kv/index.ts';
import { errorText } from '../plugin/index.ts';
import { reasonOf, StoreApplication } from './apply-store.ts';
import type { EventApplicationOptions } from './event-application-options.ts';
import type { OwnerFeed } from './event-feed.ts';
import type { Orphan } from './orphan-buffer.ts';
import {
  EVENT_LIMITS,
  type EventLimits,
  OwnerBlocks,
  type SharedBudgets,
  sideBytes,
} from './owner-blocks.ts';
import { Rejections } from './rejections.ts';
import type { BlockRemovedEvent, BlockStoredEvent, KvEvent } from './types.ts';

/** Applies events one at a time. */
export class EventApplication {
  readonly #options: EventApplicationOptions;
  readonly #limits: EventLimits;
  readonly #budgets: SharedBudgets;
  readonly #stores: StoreApplication;
  /** Counts what is refused. */
  readonly rejections: Rejections;
  readonly #owners = new Map<OwnerSlot, OwnerBlocks>();

  constructor(options: EventApplicationOptions) {
    this.#options = options;
    this.rejections = new Rejections(options.metrics);
    this.#stores = new StoreApplication(options, this.rejections);
    this.#limits = { ...EVENT_LIMITS, ...options.eventLimits };
    this.#budgets = {
      marks: { bytes: 0, maxBytes: this.#limits.allMarkBytes },
      orphans: { bytes: 0, maxBytes: this.#limits.allOrphanBytes },
      pages: { pages: 0, maxPages: this.#limits.allPages },
    };
    options.metrics.gauge('pointsman_kv_orphan_blocks', () => {
      let blocks = 0;
      for (const state of this.#owners.values()) blocks += state.orphans.blocks;
      return blocks;
    });
    options.metrics.gauge('pointsman_kv_pages', () => this.#budgets.pages.pages);
    options.metrics.gauge('pointsman_kv_side_bytes', () => sideBytes(this.#owners.values()));
  }

  /** Applies an event; what it refuses is counted on the feed. */
  apply(owner: OwnerSlot, feed: OwnerFeed, event: KvEvent): void {
    const { index, onHintOutcome } = this.#options;
    switch (event.kind) {
      case 'stored': {
        const state = this.#stateOf(owner);
        const reason = state.filter.checkStore(event.scope);
        if (reason !== null) {
          if (reason === 'extra_keys') this.#stores.bar(owner, state, event, 'unusable');
          this.rejections.count(feed, reason, event.external.length / 2);
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
    const state = this.#owners.get(owner);
    state?.forgetBlocks();
    state?.marks.clear();
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

  #storeAndRelease(owner: OwnerSlot, state: OwnerBlocks, feed: OwnerFeed, event: BlockStoredEvent): void {
    const reason = this.#stores.store(owner, state, feed, event);
    if (reason !== null) this.rejections.count(feed, reason, event.external.length / 2);
    if (!state.orphans.isEmpty) this.#release(owner, state, feed, event);
  }

  /** Applies what waited for a store's blocks, and what waited for that, and so on. */
  #release(owner: OwnerSlot, state: OwnerBlocks, feed: OwnerFeed, { external }: BlockStoredEvent): void {
    const open: U64[] = [];
    for (let i = 0; i < external.length / 2; i += 1) open.push(hashAt(external, i));
    // Blocks that the engine removed while they waited go once those behind them are in place.
    const removed = new Map<string, Orphan>();
    for (let next = 0; next < open.length; next += 1) {
      const { lo, hi } = open[next]!;
      if (!this.#stores.knows(owner, state, { lo, hi }) && reasonOf(state.marks.of({ lo, hi })) === null)
        continue;
      for (const orphan of state.orphans.take(lo, hi)) {
        const hash = hashAt(orphan.event.external, 0);
        const key = `${orphan.event.tier} ${hash.lo} ${hash.hi}`;
        if (orphan.removed) removed.set(key, orphan);
        else removed.delete(key);
        try {
          const reason = this.#stores.store(owner, state, feed, orphan.event);
          if (reason !== null) this.rejections.count(feed, reason, 1);
        } catch (thrown) {
          feed.lastError = errorText(thrown);
          this.rejections.count(feed, 'failed', 1);
        }
        open.push(hash);
      }
    }
    for (const { event } of removed.values()) {
      this.#removeOne(owner, state, event.tier, hashAt(event.external, 0));
    }
    if (state.orphans.isEmpty) state.replayAsked = false;
  }

  #remove(owner: OwnerSlot, state: OwnerBlocks, feed: OwnerFeed, event: BlockRemovedEvent): void {
    const { external, tier } = event;
    const blocks = external.length / 2;
    const reason = state.filter.checkRemoval(event.scope);
    if (reason !== null) {
      // Blocks that were left out are no blocks lost.
      this.rejections.count(feed, reason, 0);
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
    if (state.marks.size > 0 && !state.orphans.has(lo, hi) && !this.#stores.knows(owner, state, hash)) {
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

// What is learned of sessions on its way into the session prefix index: in order, behind the residency index, and never at once, so that
// policies see only what was settled before the request at hand. Each call comes after the residency index applied what it tells of, and
// only for what lies on devices.
import { PointsmanError } from '../../plugin/index.ts';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { requireWholePairs } from '../hashing/u64.ts';
import { requireOption, requireOwner } from '../residency/index-arguments.ts';
import type { OwnerSlot, PrefixIndex } from '../residency/types.ts';
import { FinishedSessions } from './finished-sessions.ts';
import type { LineageOutcome, SessionKey, SessionLineageIndex } from './types.ts';
import { type Update, UpdateQueue } from './update-queue.ts';

/** Frontiers that one turn clears: each takes as long as the blocks that only its path has. */
const CLEARED_AT_ONCE = 256;

/** What a queue of updates works with, and its bounds. */
export interface SessionUpdatesOptions {
  readonly index: SessionLineageIndex;
  readonly residency: Pick<PrefixIndex, 'holds'>;
  /** Runs `work` soon, never at once. */
  readonly later: (work: () => void) => void;
  /** Most updates that wait, ≥ 1; default 16,384. */
  readonly maxUpdates?: number;
  /** Most blocks in them, ≥ 1; default 1,048,576, 8 bytes each. */
  readonly maxBlocks?: number;
  /** Blocks after which the rest waits for another turn, ≥ 1; default 65,536. */
  readonly blocksPerTurn?: number;
  /** Called with each update that the index refused. */
  readonly onRefused?: (outcome: LineageOutcome) => void;
}

/** Counts for gauges and tests. */
export interface SessionUpdatesStats {
  /** Updates that wait. */
  readonly waiting: number;
  /** Blocks in them. */
  readonly waitingBlocks: number;
  readonly applied: number;
  /** Updates that the index refused. */
  readonly refused: number;
  /** Matches of which nothing was held any more when their turn came. */
  readonly staleMatches: number;
  /** Stores that named a session after its final request. */
  readonly lateStores: number;
  readonly droppedMatches: number;
  readonly droppedStores: number;
  /** Removals in place of which all frontiers of their owner went, for want of room. */
  readonly foldedRemovals: number;
}

/**
 * Orders updates and applies them. Too many at once cost matches first, then stores: the lineage is shorter then. Removals are never
 * lost: for want of room all frontiers of their owner go.
 */
export class SessionUpdates {
  readonly #options: SessionUpdatesOptions;
  readonly #queue: UpdateQueue;
  readonly #blocksPerTurn: number;
  readonly #finished = new FinishedSessions();
  /** Removals and clears of each owner so far; they outlive the worker, as its slot may be another's next. */
  readonly #versions: number[] = [];
  #isScheduled = false;
  #applied = 0;
  #refused = 0;
  #staleMatches = 0;
  #lateStores = 0;

  /** @throws PM_KV_ARGUMENT when a bound is less than 1. */
  constructor(options: SessionUpdatesOptions) {
    const { blocksPerTurn = 65_536, maxBlocks = 1_048_576, maxUpdates = 16_384 } = options;
    const name = 'a queue of session updates is capped at';
    requireOption(maxUpdates, 1, Number.MAX_SAFE_INTEGER, name, 'updates');
    requireOption(maxBlocks, 1, Number.MAX_SAFE_INTEGER, name, 'blocks');
    requireOption(
      blocksPerTurn,
      1,
      Number.MAX_SAFE_INTEGER,
      'a turn of session updates is capped at',
      'blocks',
    );
    this.#options = options;
    this.#blocksPerTurn = blocksPerTurn;
    this.#queue = new UpdateQueue(maxUpdates, maxBlocks);
  }

  /** The version of what an owner holds: another one than before when something may have gone. To be read together with a match. */
  versionOf(owner: OwnerSlot): number {
    requireOwner(owner);
    return this.#versions[owner] ?? 0;
  }

  /**
   * A request of the session goes to `owner`, which was found to hold the first blocks of its prompt.
   * @param version what `versionOf` said when that was found. Where it is another one when the match is applied, only as many blocks
   * count as are still held then, one after the other from the first.
   * @param chain those blocks, perhaps none; it must not change afterwards.
   */
  matched(session: SessionKey, owner: OwnerSlot, version: number, chain: HashPairs): void {
    requireOwner(owner);
    requireWholePairs(chain);
    this.#enqueue({ kind: 'matched', session, owner, version, hashes: chain });
  }

  /** An engine says which session made it store blocks behind `parent`, null = at the beginning of a prompt. */
  stored(session: SessionKey, owner: OwnerSlot, parent: U64 | null, hashes: HashPairs): void {
    requireOwner(owner);
    requireWholePairs(hashes);
    if (hashes.length > 0) this.#enqueue({ kind: 'stored', session, owner, parent, hashes: hashes.slice() });
  }

  /** Blocks are on an owner's device no more, whatever the reason. */
  removed(owner: OwnerSlot, hashes: HashPairs): void {
    requireWholePairs(hashes);
    this.#bump(owner);
    if (hashes.length > 0) this.#enqueue({ kind: 'removed', owner, hashes: hashes.slice() });
  }

  /**
   * Nothing is known to be on an owner's device any more: it was cleared, its events have a gap, its engine started anew, its worker
   * is gone (for each of its ranks).
   */
  cleared(owner: OwnerSlot): void {
    this.#bump(owner);
    this.#enqueue({ kind: 'cleared', owner });
  }

  /** The final request of a session is over, and what policies did about it. Engines may yet tell of blocks it made them store. */
  finished(session: SessionKey): void {
    this.#enqueue({ kind: 'finished', session });
  }

  /** Applies all that waits, now. */
  flush(): void {
    this.#apply(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
  }

  stats(): SessionUpdatesStats {
    const { droppedMatches, droppedStores, foldedRemovals } = this.#queue;
    return {
      waiting: this.#queue.size,
      waitingBlocks: this.#queue.blocks,
      applied: this.#applied,
      refused: this.#refused,
      staleMatches: this.#staleMatches,
      lateStores: this.#lateStores,
      droppedMatches,
      droppedStores,
      foldedRemovals,
    };
  }

  #bump(owner: OwnerSlot): void {
    requireOwner(owner);
    // Without holes, so that the array stays a plain one.
    while (this.#versions.length <= owner) this.#versions.push(0);
    this.#versions[owner]!++;
  }

  #enqueue(update: Update): void {
    this.#queue.push(update);
    // Only clears and ends are left then, which never make a lineage longer.
    if (this.#queue.isOverfull) this.flush();
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#queue.size === 0) return;
    this.#isScheduled = true;
    this.#options.later(() => {
      this.#isScheduled = false;
      this.#apply(this.#blocksPerTurn, CLEARED_AT_ONCE);
      this.#schedule();
    });
  }

  #apply(blocks: number, clears: number): void {
    let done = 0;
    for (let update = this.#queue.first(); update !== null; update = this.#queue.first()) {
      // A clear goes on in the next turn until nothing is left; what waits behind it waits on.
      if (update.kind === 'cleared' && this.#options.index.clear(update.owner, clears) >= clears) return;
      this.#queue.shift();
      if (update.kind !== 'cleared') this.#applyOne(update);
      this.#applied++;
      done += 'hashes' in update ? update.hashes.length >> 1 : 1;
      if (done >= blocks) return;
    }
  }

  #applyOne(update: Exclude<Update, { readonly kind: 'cleared' }>): void {
    const { index } = this.#options;
    switch (update.kind) {
      case 'matched': {
        // Also without a block: the session goes on, whatever was said of its end before.
        this.#finished.delete(update.session);
        if (update.hashes.length === 0) return;
        const chain = this.#stillHeld(update.owner, update.version, update.hashes);
        if (chain.length === 0) this.#staleMatches++;
        else this.#check(index.match(update.session, update.owner, chain));
        return;
      }
      case 'stored':
        if (this.#finished.has(update.session)) this.#lateStores++;
        else this.#check(index.store(update.session, update.owner, update.parent, update.hashes));
        return;
      case 'removed':
        index.remove(update.owner, update.hashes);
        return;
      case 'finished':
        index.finish(update.session);
        this.#finished.add(update.session);
        return;
      default:
        throw new PointsmanError('PM_INTERNAL', `unknown session update ${String(update satisfies never)}`);
    }
  }

  /** The leading blocks of a match that its owner holds now. */
  #stillHeld(owner: OwnerSlot, version: number, chain: HashPairs): HashPairs {
    if (version === this.versionOf(owner)) return chain;
    let held = 0;
    while (2 * held < chain.length && this.#options.residency.holds(owner, 'device', chain, held)) held++;
    return chain.subarray(0, 2 * held);
  }

  #check(outcome: LineageOutcome): void {
    if (outcome.kind === 'advanced' || outcome.kind === 'unchanged') return;
    this.#refused++;
    this.#options.onRefused?.(outcome);
  }
}

// Leads the engines' events into the index: what they are applied with, and what the fleet's changes mean for them.
import { createKvEventApplier, type EventWatch, type KvEventApplier } from '../events/index.ts';
import type { BlockSizes, Fleet } from '../fleet/index.ts';
import { type BlockHasher, blockHashSeed, type PrefixIndex } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { Road } from '../road/index.ts';
import type { ApproximateRanks } from './approximate-ranks.ts';
import type { SessionFeeds } from './session-feeds.ts';

/** What events are applied with. */
export interface EventParts {
  readonly fleet: Fleet;
  readonly hasher: BlockHasher;
  readonly blockSizes: BlockSizes;
  /** Placeholder of images in a model's prompts; null = none that matters. */
  readonly imageTokenOf: (model: string) => number | null;
  readonly road: Road;
  /** Told of what engines store for sessions; null = nobody is. */
  readonly sessions: Pick<SessionFeeds, 'missed' | 'stored'> | null;
  /** How long an event stream may be silent before its engine is asked, ms; 0 = as long as it likes. */
  readonly idleCheckMs: () => number;
  /** Compares what engines announce with what they are sent; null = nobody does. */
  readonly watch: EventWatch | null;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** Applies events to the index; to be called after `followFleet`. */
export function eventsInto(
  index: PrefixIndex,
  beliefs: Pick<ApproximateRanks, 'heard'>,
  parts: EventParts,
): KvEventApplier {
  const { fleet, hasher, blockSizes, imageTokenOf, road, sessions, clock, metrics } = parts;
  const events = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    isOwner: (owner) => fleet.slotWorkerId(owner) !== null,
    isGivenUp: (owner) => fleet.workerOfSlot(owner)?.state === 'gone',
    blockSizeOf: (owner) => blockSizes.ofSlot(owner),
    learnBlockSize: (owner, blockSize) => blockSizes.learn(owner, blockSize),
    tokenPairs: {
      of: (owner) => blockSizes.pairsOfSlot(owner),
      learn: (owner, pairs) => blockSizes.learnPairs(owner, pairs),
    },
    placeholderOf(owner) {
      const worker = fleet.workerOfSlot(owner);
      return worker === null ? null : imageTokenOf(worker.spec.model);
    },
    ownerOfRank(owner, rank) {
      const worker = fleet.slotWorkerId(owner);
      const slot = worker === null ? -1 : fleet.slotOf(worker, rank);
      return slot < 0 ? null : slot;
    },
    onHeard: (owner) => beliefs.heard(owner),
    onMissed: (owner) => sessions?.missed(owner),
    onRestart(owner) {
      blockSizes.restarted(owner);
      // Before the first batch of the new process is applied.
      beliefs.heard(owner);
    },
    idleCheckMs: parts.idleCheckMs,
    watch: parts.watch,
    sessionStored: sessions && ((owner, store) => sessions.stored(owner, store)),
    onHintOutcome: (_owner, outcome) => road.hintOutcome(outcome),
    metrics,
    clock,
  });
  fleet.listen({
    stateChanged(worker) {
      if (worker.state === 'gone') for (const slot of worker.slots) events.cleared(slot);
      // One that was gone kept its blocks, if it lived on.
      else if (worker.state === 'ready') for (const slot of worker.slots) events.recover(slot);
    },
    removed(worker) {
      for (const slot of worker.slots) events.forget(slot);
    },
    restarted(worker) {
      for (const slot of worker.slots) events.restarted(slot);
    },
  });
  return events;
}

// Decides which ranks' caches are estimated: those whose KV events are switched off, named nowhere, silent although the engine computes
// new blocks, or of no use. What follows for routing is the residency's; that it happens is shown in worker status, log and metrics.
import { holdsOneSequence } from '../engines/index.ts';
import type { EventFeed } from '../events/index.ts';
import { type ApproximateReason, type Fleet, totalKvBlocksOf, type Worker } from '../fleet/index.ts';
import type { ApproximateResidency, HashPairs, OwnerSlot, PromptEnd } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { Logger } from '../plugin/index.ts';
import type { Beliefs } from '../road/index.ts';

/** Events follow their answer within moments: so many answers without any are no coincidence. */
export const ANSWERS_WITHOUT_EVENTS = 3;

/** What is looked at. */
export interface ApproximateRanksOptions {
  readonly fleet: Fleet;
  readonly residency: ApproximateResidency;
  readonly useKvEvents: boolean;
  /** Whether anybody said where a rank publishes its events. */
  readonly announces: (worker: Worker, rank: number) => boolean;
  readonly feed: (slot: OwnerSlot) => EventFeed | null;
  /** Requests of a worker for which it computed whole blocks, which its events must have told. */
  readonly unheard: (workerId: bigint) => number;
  /** Whether a rank's events are not of the prompts that it is sent; absent = nobody compares. */
  readonly misleads?: (slot: OwnerSlot) => boolean;
  readonly log: Logger;
  readonly metrics: Metrics;
}

const WORDS: Readonly<Record<ApproximateReason, string>> = {
  kv_events_off: 'router.use_kv_events is false',
  not_announced: 'nobody said where it publishes KV events',
  not_heard: 'it computes new blocks, but none of its KV events is heard',
  other_block_size: 'its KV events are of another block size than its model’s',
  parity_failed: 'its KV events are not of the prompts that are sent to it, as parity checks show',
};

/** The ranks of a fleet whose caches are estimated. */
export class ApproximateRanks implements Beliefs {
  readonly #options: ApproximateRanksOptions;
  /** By slot. */
  readonly #estimated = new Set<OwnerSlot>();
  /** Slots of which the log has not said it yet: their engines may still name where they publish. */
  readonly #untold = new Set<OwnerSlot>();

  constructor(options: ApproximateRanksOptions) {
    this.#options = options;
    const { fleet, residency, metrics } = options;
    const forget = (worker: Worker): void => {
      for (const slot of worker.slots) residency.forget(slot);
    };
    fleet.listen({
      added: (worker) => this.review(worker),
      capabilitiesChanged: (worker) => this.review(worker),
      stateChanged(worker) {
        if (worker.state === 'gone') forget(worker);
      },
      restarted: forget,
      removed: (worker) => {
        forget(worker);
        for (const slot of worker.slots) {
          this.#estimated.delete(slot);
          this.#untold.delete(slot);
        }
      },
    });
    metrics.gauge('pointsman_approximate_ranks', () => this.#byReason());
    metrics.gauge('pointsman_approximate_blocks', () => residency.stats().blocks);
    metrics.gauge('pointsman_approximate_bytes', () => residency.stats().bytes);
  }

  /** Looks at a worker's ranks anew. */
  review(worker: Worker): void {
    worker.slots.forEach((slot, index) => {
      this.#set(worker, slot, worker.spec.ranks.first + index);
    });
  }

  /** A batch of events of a rank arrives: from here on its engine says what it holds. To be called before the batch is applied. */
  heard(slot: OwnerSlot): void {
    if (!this.#estimated.has(slot)) return;
    const { fleet, useKvEvents, feed } = this.#options;
    const worker = fleet.workerOfSlot(slot);
    if (worker === null || !useKvEvents || (feed(slot)?.mismatchedBlockSize ?? null) !== null) return;
    if (this.#options.misleads?.(slot) === true) return;
    this.#change(worker, slot, fleet.slotRank(slot), null);
  }

  expire(now: number): void {
    this.#options.residency.expire(now);
  }

  sent(slot: OwnerSlot, attempt: number, local: HashPairs, sequence: HashPairs, now: number): void {
    if (!this.#estimated.has(slot)) return;
    this.#options.residency.sent(slot, attempt, local, sequence, now);
    if (this.#untold.size > 0 && this.#untold.has(slot)) this.#tellAtLast(slot);
  }

  computed(attempt: number): void {
    this.#options.residency.computed(attempt);
  }

  generated(attempt: number, blocks: number): void {
    this.#options.residency.generated(attempt, blocks);
  }

  ended(attempt: number, end: PromptEnd, now: number): void {
    this.#options.residency.ended(attempt, end, now);
  }

  #set(worker: Worker, slot: OwnerSlot, rank: number): void {
    const reason = this.#reasonOf(worker, slot, rank);
    if ((worker.approximate?.get(rank) ?? null) !== reason) this.#change(worker, slot, rank, reason);
    if (reason === null) return;
    const answered = worker.capabilities !== null || (worker.engine ?? null) !== null;
    if (answered && this.#untold.has(slot)) this.#tellAtLast(slot);
    this.#options.residency.setCapacity(slot, totalKvBlocksOf(worker));
    this.#options.residency.setOneSequence(slot, holdsOneSequence(worker));
  }

  #reasonOf(worker: Worker, slot: OwnerSlot, rank: number): ApproximateReason | null {
    const { useKvEvents, announces, feed, unheard } = this.#options;
    if (!useKvEvents) return 'kv_events_off';
    const stream = feed(slot);
    if (stream !== null) {
      if (stream.mismatchedBlockSize !== null) return 'other_block_size';
      return this.#options.misleads?.(slot) === true ? 'parity_failed' : null;
    }
    if (!announces(worker, rank)) return 'not_announced';
    // Requests are counted per worker: with several ranks a silent one may simply have had none.
    const silent = worker.slots.length === 1 && unheard(worker.spec.id) >= ANSWERS_WITHOUT_EVENTS;
    return silent ? 'not_heard' : null;
  }

  #change(worker: Worker, slot: OwnerSlot, rank: number, reason: ApproximateReason | null): void {
    const { fleet, residency, log } = this.#options;
    const { id } = worker.spec;
    const before = worker.approximate?.get(rank) ?? null;
    fleet.setApproximate(id, rank, reason);
    if (reason === null) {
      this.#estimated.delete(slot);
      residency.forget(slot);
      const level = this.#untold.delete(slot) ? 'debug' : 'info';
      log[level]('what a worker rank has cached is known from its KV events from now on', {
        worker: id,
        rank,
      });
      return;
    }
    this.#estimated.add(slot);
    const fromTheStart = reason === 'not_announced' && before === null;
    if (fromTheStart) this.#untold.add(slot);
    else this.#untold.delete(slot);
    // Who falls back later is worth a warning.
    this.#tell(fromTheStart ? 'debug' : reason === 'kv_events_off' ? 'info' : 'warn', id, rank, reason);
  }

  /** Its engine has answered and named nothing, or it gets its first request: from here on the estimate counts. */
  #tellAtLast(slot: OwnerSlot): void {
    this.#untold.delete(slot);
    const { fleet } = this.#options;
    const id = fleet.slotWorkerId(slot);
    if (id !== null) this.#tell('info', id, fleet.slotRank(slot), 'not_announced');
  }

  #tell(level: 'debug' | 'info' | 'warn', worker: bigint, rank: number, reason: ApproximateReason): void {
    this.#options.log[level]('what a worker rank has cached is estimated from what is sent to it', {
      worker,
      rank,
      why: WORDS[reason],
    });
  }

  #byReason() {
    const counts = new Map<ApproximateReason, number>();
    for (const { approximate } of this.#options.fleet.workers())
      for (const reason of approximate?.values() ?? []) counts.set(reason, (counts.get(reason) ?? 0) + 1);
    return [...counts].map(([reason, value]) => ({ labels: { reason }, value }));
  }
}

// The event streams of a run: from every engine to every router, and what became of them.
import type { EventFeed } from '../events/index.ts';
import type { VirtualEventLink, VirtualFleet } from '../simulator/index.ts';
import type { RunCollector } from './run-collector.ts';
import type { EventReport, ReplayRouter } from './types.ts';

/** How events reach routers. */
export interface RunEventOptions {
  /** Hand events over decoded instead of as bytes. */
  readonly fastEvents: boolean;
  /** Deliver no events at all. */
  readonly cutEvents: boolean;
  /** Engines keep what they published and repeat it on demand. */
  readonly eventReplay: boolean;
}

/** Lets every router that keeps an index hear every engine. */
export function connectEvents(
  options: RunEventOptions,
  fleet: VirtualFleet,
  routers: readonly ReplayRouter[],
): void {
  if (options.cutEvents) return;
  for (const worker of fleet.workers) {
    const links = routers.map((router) => router.eventLink(worker.id)).filter((link) => link !== null);
    const link = joined(links);
    if (link === null) continue;
    fleet.connectEvents(worker.id, options.fastEvents ? link : { owner: link.owner, sink: link.sink });
    if (!options.eventReplay) continue;
    for (const router of routers) {
      router.askEventsAt(worker.id, {
        replay: (from, listener) => fleet.replayEvents(worker.id, from, listener),
      });
    }
  }
}

/** One link in front of several; each keeps its own owner slot. Null = nobody listens. */
function joined(links: readonly VirtualEventLink[]): VirtualEventLink | null {
  const [first] = links;
  if (first === undefined || links.length === 1) return first ?? null;
  const decoding = links.flatMap(({ decoded, owner }) => (decoded === undefined ? [] : [{ decoded, owner }]));
  return {
    owner: first.owner,
    sink: {
      onBatch(_owner, sequence, payload) {
        for (const { owner, sink } of links) sink.onBatch(owner, sequence, payload);
      },
    },
    ...(decoding.length === links.length && {
      decoded(_owner, sequence, batch) {
        for (const { decoded, owner } of decoding) decoded(owner, sequence, batch);
      },
    }),
  };
}

/** The streams of all routers together; nothing where no router keeps an index. */
export function eventReport(
  workers: number,
  routers: readonly ReplayRouter[],
  collector: RunCollector,
): { readonly events?: EventReport } {
  const feeds = Array.from({ length: workers }, (_, index) =>
    routers.map((router) => router.eventFeed(BigInt(index + 1))).filter((feed) => feed !== null),
  );
  if (feeds.every((ofWorker) => ofWorker.length === 0)) return {};
  const numbers = (is: (feed: EventFeed) => boolean): number[] =>
    feeds.flatMap((ofWorker, index) => (ofWorker.some(is) ? [index + 1] : []));
  const sum = (of: (feed: EventFeed) => number): number =>
    feeds.flat().reduce((total, feed) => total + of(feed), 0);
  return {
    events: {
      stale_workers: numbers((feed) => feed.stale),
      partial_workers: numbers((feed) => feed.partial),
      missed_batches: sum((feed) => feed.missedBatches),
      duplicates: sum((feed) => feed.duplicates),
      restarts: sum((feed) => feed.restarts),
      replays_asked: sum((feed) => feed.replays.asked),
      replayed_batches: sum((feed) => feed.replayedBatches),
      misprediction_rate_tokens: collector.mispredictionRate,
    },
  };
}

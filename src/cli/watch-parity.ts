// Puts the parity monitor of a running router together with what it looks at.
import type { KvEventApplier } from '../events/index.ts';
import type { BlockSizes, Fleet } from '../fleet/index.ts';
import type { BlockHasher, PrefixIndex } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  NEEDED_LISTENING,
  ParityMonitor,
  type ParityMonitorOptions,
  type RankStream,
} from '../parity/index.ts';
import type { Clock, WorkerId } from '../plugin/index.ts';
import { compareTokens, type TokenFacts } from '../tokens/index.ts';
import type { ApproximateRanks } from './approximate-ranks.ts';
import type { SubscriptionStatus } from './event-subscriptions.ts';
import type { UnheardBlocks } from './unheard-blocks.ts';

/** What a running router knows besides its core. */
export type ParityPorts = Pick<ParityMonitorOptions, 'answers' | 'stream' | 'asksIds' | 'idsDiffer'>;

/** Events of an answer come with it or moments later, ms. */
const SETTLE_MS = 250;

/** Where ids of engines part from the router's, by the tokenizers of their models. */
export function idsDifferOf(
  factsOf: (model: string) => TokenFacts | null,
): NonNullable<ParityMonitorOptions['idsDiffer']> {
  return (model, router, engine) => {
    const agreement = compareTokens(router, engine, factsOf(model));
    return agreement.agrees ? null : agreement.words;
  };
}

/** A monitor that only listens; findings of a rank change whether its cache is estimated. */
export function watchParity(parts: {
  readonly fleet: Fleet;
  readonly hasher: BlockHasher;
  readonly index: PrefixIndex;
  readonly blockSizes: BlockSizes;
  readonly unheard: UnheardBlocks;
  readonly beliefs: Pick<ApproximateRanks, 'review'>;
  readonly events: () => KvEventApplier | null;
  readonly ports: ParityPorts;
  readonly clock: Clock;
  readonly metrics: Metrics;
}): ParityMonitor {
  const { beliefs, blockSizes, clock, events, fleet, hasher, index, metrics, ports, unheard } = parts;
  return new ParityMonitor({
    fleet,
    hasher,
    index,
    blockSizeOf: (slot) => blockSizes.ofSlot(slot),
    pairsOf: (slot) => blockSizes.pairsOfSlot(slot) ?? false,
    dialectOf: ({ engine, spec }) => engine?.dialect ?? spec.dialect,
    feed: (slot) => events()?.feed(slot) ?? null,
    replayOf: (slot) => events()?.replayOf(slot) ?? null,
    unheard: (id) => unheard.of(id),
    ...ports,
    needed: NEEDED_LISTENING,
    settleMs: SETTLE_MS,
    changed: (worker) => beliefs.review(worker),
    clock,
    metrics,
  });
}

/** One rank's stream; null = KV events are not read. */
export function streamOf(
  subscriptions: readonly SubscriptionStatus[] | null,
  worker: WorkerId,
  rank: number,
): RankStream | null {
  if (subscriptions === null) return null;
  return (
    subscriptions.find((one) => one.worker === worker && one.rank === rank) ?? {
      endpoint: null,
      replay: null,
      connected: false,
    }
  );
}

// Whether a router can serve, and what works worse than configured, in words. `/ready` of both ports shows it.
import type { RouterConfig } from '../config/index.ts';
import { dialectProblem } from '../engines/index.ts';
import type { EventFeed } from '../events/index.ts';
import type { Worker, WorkerState } from '../fleet/index.ts';
import type { Readiness } from '../gateway/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { SubscriptionStatus } from './event-subscriptions.ts';

/** What is looked at. */
export interface ReadinessFacts {
  readonly config: RouterConfig;
  readonly workers: readonly Worker[];
  /** Workers were not all asked about themselves yet. */
  readonly starting: boolean;
  /** Null = nobody reads KV events. */
  readonly subscriptions: readonly SubscriptionStatus[] | null;
  readonly feed: (slot: OwnerSlot) => EventFeed | null;
  readonly blockSizeOf: (model: string) => number | null;
}

/** More sentences would not be read. */
const MAX_SENTENCES = 100;

/** The state of a router. */
export function readinessOf(facts: ReadinessFacts): Readiness {
  const reasons = [
    ...(facts.starting ? ['workers are still being asked about themselves'] : []),
    ...fleetReasons(facts),
  ];
  const warnings = [
    ...modelWarnings(facts),
    ...dialectWarnings(facts),
    ...eventWarnings(facts),
    ...blockSizeWarnings(facts),
  ];
  return { reasons, warnings: warnings.slice(0, MAX_SENTENCES) };
}

function fleetReasons({ config, workers }: ReadinessFacts): string[] {
  if (config.models.size === 0) return ['no model is configured'];
  if (workers.length === 0) return ['there are no workers'];
  if (workers.some((worker) => worker.state === 'ready')) return [];
  return [`none of the ${workers.length} workers is ready (${statesOf(workers)})`];
}

function modelWarnings({ config, workers }: ReadinessFacts): string[] {
  if (workers.length === 0) return [];
  return [...config.models.keys()]
    .map((model) => ({ model, of: workers.filter((worker) => worker.spec.model === model) }))
    .filter(({ of }) => !of.some((worker) => worker.state === 'ready'))
    .map(({ model, of }) =>
      of.length === 0
        ? `model ${model} has no worker`
        : `model ${model} has no ready worker (${statesOf(of)})`,
    );
}

/** Lost because nobody knows how to talk to it: "gone" alone would send people looking for a dead engine. */
function dialectWarnings({ workers, starting }: ReadinessFacts): string[] {
  return starting ? [] : workers.flatMap((worker) => dialectProblem(worker) ?? []);
}

function statesOf(workers: readonly Worker[]): string {
  const counts = new Map<WorkerState, number>();
  for (const { state } of workers) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count} ${state}`).join(', ');
}

/** A stream that is missing or wrong routes as if nothing were cached there. */
function eventWarnings({ subscriptions, workers, feed }: ReadinessFacts): string[] {
  if (subscriptions === null) return [];
  const states = new Map(workers.map((worker) => [worker.spec.id, worker]));
  return subscriptions.flatMap(({ worker: id, rank, endpoint, connected }) => {
    const worker = states.get(id);
    if (worker === undefined || worker.state === 'gone') return [];
    const who = `worker ${id} rank ${rank}`;
    if (endpoint === null) {
      return [
        `${who} announces no KV events: what it has cached is not known; name its endpoint under kv_events`,
      ];
    }
    if (!connected) return [`the KV events of ${who} at ${endpoint} are not connected`];
    const stream = feed(worker.slots[rank - worker.spec.ranks.first] ?? -1);
    return stream === null ? [] : feedWarnings(who, stream);
  });
}

function feedWarnings(who: string, feed: EventFeed): string[] {
  const warnings: string[] = [];
  if (feed.mismatchedBlockSize !== null) {
    warnings.push(
      `${who} stores blocks of ${feed.mismatchedBlockSize} tokens, which is not its model's block size: nothing it caches is found`,
    );
  }
  if (feed.stale) {
    warnings.push(
      `${feed.missedBatches} batches of KV events of ${who} were missed: what it has cached is not fully known`,
    );
  }
  return warnings;
}

function blockSizeWarnings({ workers, blockSizeOf }: ReadinessFacts): string[] {
  return workers.flatMap(({ spec, capabilities }) => {
    const expected = blockSizeOf(spec.model);
    if (capabilities === null || expected === null || capabilities.blockSize === expected) return [];
    return [
      `worker ${spec.id} advertises blocks of ${capabilities.blockSize} tokens, but model ${spec.model} has ${expected}: nothing it caches is found`,
    ];
  });
}

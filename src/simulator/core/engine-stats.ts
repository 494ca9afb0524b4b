// What a simulated rank says of itself in numbers.
import type { SimulatedEngineSettings, SimulatedEngineStats } from '../types.ts';
import type { HostTier } from './host-tier.ts';
import type { EvictionCause, KvPool } from './kv-pool.ts';
import type { PassScheduler } from './pass-scheduler.ts';
import type { Transfers } from './transfers.ts';

/** Hashes that left the device, by why. */
export type EvictionCounts = Record<EvictionCause, number>;

/** Most blocks that are retained at a time. */
export function retainedLimit({ kvBlocks, retainedShare }: SimulatedEngineSettings): number {
  return kvBlocks === null ? Number.POSITIVE_INFINITY : Math.floor(kvBlocks * retainedShare);
}

/** Gauges and counts of a rank. */
export function statsOf(
  totalBlocks: number | null,
  pool: KvPool,
  scheduler: PassScheduler,
  transfers: Transfers,
  host: HostTier | null,
  evictions: EvictionCounts,
): SimulatedEngineStats {
  return {
    running: scheduler.running.length,
    waiting: scheduler.waiting.length,
    parked: transfers.parked + (host?.parked ?? 0),
    activeBlocks: pool.active,
    inactiveBlocks: pool.inactive,
    totalBlocks,
    preemptions: scheduler.preemptions,
    prefillMs: scheduler.prefillMs,
    hostBlocks: host?.blocks ?? 0,
    offloadedBlocks: host?.offloaded ?? 0,
    onboardedBlocks: host?.onboarded ?? 0,
    handoffs: transfers.handoffs,
    retainedBlocks: pool.retained,
    evictedForRoom: evictions.room,
    evictedByHint: evictions.hint + evictions.demotion,
  };
}

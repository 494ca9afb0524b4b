// A match as clients of the indexer read it: tokens per instance and rank, cumulative from tier to tier.
import type { OwnerSlot, PrefixMatch } from '../../kv/index.ts';
import type { PartitionOwner } from './partition.ts';

/** What one instance has cached, in tokens. */
export interface InstanceScore {
  /** The most of the three tiers. */
  longest_matched: number;
  gpu: number;
  /** On the device, by rank. */
  readonly dp: Record<string, number>;
  /** On the device and host memory behind it. */
  cpu: number;
  /** All of these and the disk behind them. */
  disk: number;
}

/** The answer to a query. */
export interface ScoreObject {
  /** Device tokens by instance and rank; ranks without any are absent. */
  readonly scores: Record<string, Record<string, number>>;
  /** Always empty: reads do not count uses. */
  readonly frequencies: readonly number[];
  readonly instances: Record<string, InstanceScore>;
}

/** The score object of a match. */
export function scoresOf(
  { count, owners, depthPerTier }: PrefixMatch,
  blockSize: number,
  ownerOf: (slot: OwnerSlot) => PartitionOwner | null,
): ScoreObject {
  const [device, host, disk] = depthPerTier;
  const scores: Record<string, Record<string, number>> = {};
  const instances: Record<string, InstanceScore> = {};
  for (let row = 0; row < count; row++) {
    const owner = ownerOf(owners[row] ?? -1);
    if (owner === null) continue;
    const gpu = (device?.[row] ?? 0) * blockSize;
    const cpu = gpu + (host?.[row] ?? 0) * blockSize;
    const all = cpu + (disk?.[row] ?? 0) * blockSize;
    const id = String(owner.instance);
    instances[id] ??= { longest_matched: 0, gpu: 0, dp: {}, cpu: 0, disk: 0 };
    const instance = instances[id];
    instance.gpu = Math.max(instance.gpu, gpu);
    instance.cpu = Math.max(instance.cpu, cpu);
    instance.disk = Math.max(instance.disk, all);
    instance.longest_matched = Math.max(instance.longest_matched, all);
    if (gpu === 0) continue;
    instance.dp[String(owner.rank)] = gpu;
    scores[id] ??= {};
    scores[id][String(owner.rank)] = gpu;
  }
  return { scores, frequencies: [], instances };
}

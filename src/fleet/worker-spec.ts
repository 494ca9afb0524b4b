// From a configured worker to the fleet's record of it.
import type { WorkerConfig } from '../config/index.ts';
import type { BlockHasher } from '../kv/index.ts';
import type { WorkerId } from '../plugin/index.ts';
import type { WorkerSpec } from './types.ts';

const NO_SEED = { lo: 0, hi: 0 };

/**
 * Id of a worker whose configuration gives none: XXH3-64 of the url's UTF-8 bytes, seed 0; the same on every start and every
 * machine.
 */
export function stableWorkerId(url: string, hasher: Pick<BlockHasher, 'hashBytes'>): WorkerId {
  const { lo, hi } = hasher.hashBytes(new TextEncoder().encode(url), NO_SEED);
  return (BigInt(hi) << 32n) | BigInt(lo);
}

/** The record of a configured worker. */
export function workerSpecOf(config: WorkerConfig, hasher: Pick<BlockHasher, 'hashBytes'>): WorkerSpec {
  return {
    id: config.id ?? stableWorkerId(config.url, hasher),
    model: config.model,
    url: config.url,
    dialect: config.dialect,
    role: config.role,
    ranks: config.ranks,
    kvEvents: new Map(
      Object.entries(config.kvEvents).map(([rank, { connect, bind = null, poll = false, replay, topic }]) => [
        Number(rank),
        poll
          ? { address: `${config.url}/kv_cache_events`, binds: false, polled: true, replay: null, topic: '' }
          : { address: bind ?? connect ?? '', binds: bind !== null, replay, topic },
      ]),
    ),
    maxNumBatchedTokens: config.maxNumBatchedTokens,
    totalKvBlocks: config.totalKvBlocks,
    taints: config.taints,
    topology: config.topology,
    device: config.device,
    adapters: config.adapters,
    handoff: config.handoff ?? null,
    sglang: config.sglang ?? null,
    hintForm: config.hintForm ?? 'envelope',
    kvTransfer: config.kvTransfer ?? null,
  };
}

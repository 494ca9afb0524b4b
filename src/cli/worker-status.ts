// Workers as the admin API shows them.
import { streamState } from '../events/index.ts';
import type { Worker } from '../fleet/index.ts';
import { type OwnerSlot, TIERS } from '../kv/index.ts';
import type { ComposedRouter } from './compose-router.ts';
import type { SubscriptionStatus } from './event-subscriptions.ts';
import type { ReportedLoads } from './reported-loads.ts';

/** The JSON of `/workers`, in fleet order; written as exact JSON. */
export function workerStatus(
  {
    fleet,
    events,
    index,
    busy,
    parity,
    scheduler: { loads },
  }: Pick<ComposedRouter, 'fleet' | 'events' | 'index' | 'busy' | 'parity' | 'scheduler'>,
  subscriptions: readonly SubscriptionStatus[],
  reported: Pick<ReportedLoads, 'of'> | null = null,
): unknown {
  return fleet.workers().map((worker) => {
    const { spec, capabilities } = worker;
    const limits = busy.statusOf(worker);
    const report = reported?.of(spec.id) ?? null;
    return {
      id: spec.id,
      model: spec.model,
      url: spec.url,
      dialect: spec.dialect,
      role: spec.role,
      state: worker.state,
      /** Over a busy threshold of its model on every rank. */
      busy: limits.busy,
      /** `booked_load` above which a rank is; null = not tested. */
      busy_above: { prefill_tokens: limits.prefillTokens, decode_blocks: limits.decodeBlocks },
      /** Those of its topology among them. */
      taints: worker.taints,
      topology: spec.topology,
      adapters: [...new Set([...(spec.adapters ?? []), ...(capabilities?.adapters ?? [])])],
      capabilities: capabilities && {
        epoch: capabilities.epoch,
        block_size: capabilities.blockSize,
        hash_scheme: capabilities.hashScheme,
        worker_type: capabilities.workerType,
      },
      /** What the engine says that it is; null = it was not asked, or says nothing. */
      engine: shownEngine(worker),
      /** By the engine's own account, other routers' requests included; null = it was not asked, or says nothing. */
      reported_load: report && {
        requests_running: report.load.running,
        requests_waiting: report.load.waiting,
        kv_usage: report.load.kvUsage,
        age_ms: report.ageMs,
      },
      ranks: worker.slots.map((slot, nth) => {
        const rank = spec.ranks.first + nth;
        const said = capabilities?.ranks.get(rank);
        const stream = subscriptions.find((entry) => entry.worker === spec.id && entry.rank === rank);
        const feed = events?.feed(slot) ?? null;
        const booked = loads.bookedOn(slot);
        return {
          rank,
          /** Null = its engine announces what it has cached. */
          approximate: worker.approximate?.get(rank) ?? null,
          /** Codes of docs/parity.md; null = nobody compares. */
          parity: parityOf(parity, slot),
          router_hint: said?.routerHint ?? false,
          actions: said?.actions ? [...said.actions] : null,
          booked_load: {
            requests: booked.requests,
            prefill_tokens: booked.prefillTokens,
            decode_blocks: booked.decodeBlocks,
          },
          blocks: index && blocksPerTier(index.blocksOf(slot)),
          kv_events: stream && {
            endpoint: stream.endpoint,
            connected: stream.connected,
            batches: feed?.batches ?? 0,
            replay_endpoint: stream.replay,
            state: feed === null ? null : streamState(feed),
            gaps: feed?.gaps ?? 0,
            missed_batches: feed?.missedBatches ?? 0,
            duplicates: feed?.duplicates ?? 0,
            replays: feed?.replays ?? null,
            replayed_batches: feed?.replayedBatches ?? 0,
            pending_batches: feed?.pendingBatches ?? 0,
            restarts: feed?.restarts ?? 0,
            stale: feed?.stale ?? false,
            partial: feed?.partial ?? false,
            rejected: feed?.rejected ?? {},
            unknown_removes: feed?.unknownRemoves ?? 0,
            last_error: feed?.lastError ?? null,
            age_ms: events?.ageMs(slot) ?? null,
          },
        };
      }),
    };
  });
}

/** What parity checks found, and how predictions do over the newest requests. */
function parityOf(parity: ComposedRouter['parity'], slot: OwnerSlot): unknown {
  if (parity === null) return null;
  const found = parity.auditOf(slot);
  const { requests = 0, predictedTokens = 0, reportedTokens = 0 } = found?.audit.summary ?? {};
  return {
    findings: parity.codes(slot),
    audit: {
      requests,
      predicted_cached_tokens: predictedTokens,
      reported_cached_tokens: reportedTokens,
      drift: found?.drift?.kind ?? null,
    },
  };
}

function shownEngine({ engine = null }: Worker): unknown {
  if (engine === null) return null;
  const { dialect, description: said } = engine;
  return {
    dialect,
    version: said.version,
    models: said.models,
    block_size: said.blockSize,
    total_kv_blocks: said.totalKvBlocks,
    max_num_batched_tokens: said.maxNumBatchedTokens,
    max_model_length: said.maxModelLength,
    ranks: said.ranks,
    prefix_caching: said.prefixCaching,
    /** Addresses by rank; null = it does not say whether it publishes any. */
    kv_events:
      said.kvEvents && Object.fromEntries([...said.kvEvents].map(([rank, { address }]) => [rank, address])),
  };
}

/** What the index knows of a rank, by the names of the tiers. */
function blocksPerTier(held: readonly number[]): Readonly<Record<string, number>> {
  return Object.fromEntries(TIERS.map((tier, at) => [tier, held[at] ?? 0]));
}

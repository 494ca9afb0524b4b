// A partition's blocks as the Rust service dumps them: store events of runs of a chain, each behind its parent; beside them, as an
// addition, how far each rank's event stream had been applied when the dump began.
import {
  type BlockHasher,
  OrderedRuns,
  ROW,
  readSnapshot,
  type SnapshotOwner,
  SnapshotWriter,
  type Tier,
  u64ToBigInt,
} from '../../kv/index.ts';
import { exactJsonStringify } from '../../plugin/index.ts';
import type { IndexerPartition } from './partition.ts';

/** Names of tiers in dumps. */
export const DUMP_TIERS: Readonly<Record<Tier, string>> = {
  device: 'device',
  host: 'host_pinned',
  disk: 'disk',
  external: 'external',
};

/**
 * The JSON value of one partition's key, in pieces; between two pieces the index may change. Blocks behind one that their rank does not
 * hold are left out, as the form cannot say them.
 * @param pause called between pieces of work, to let others at it.
 */
export async function* dumpPartition(
  partition: IndexerPartition,
  hasher: BlockHasher,
  takenAtMs: number,
  pause: () => Promise<void>,
): AsyncGenerator<string, void> {
  const slots = partition.owners();
  const watermarks = slots.flatMap(([slot, { instance, rank }]) => {
    const sequence = partition.events.feed(slot)?.lastSequence ?? -1;
    return sequence < 0 ? [] : [{ worker_id: instance, dp_rank: rank, sequence }];
  });
  const owners = new Map(
    slots.map(([slot, { instance, rank }]): [number, SnapshotOwner] => [
      slot,
      {
        workerId: instance,
        rank,
        model: partition.model,
        routingGroup: partition.routingGroup,
        blockSize: partition.blockSize,
        epoch: null,
        watermark: Math.max(0, partition.events.feed(slot)?.lastSequence ?? 0),
        watermarkTime: null,
        stale: false,
        partial: false,
      },
    ]),
  );
  const parts: Uint8Array[] = [];
  for (const piece of new SnapshotWriter({ index: partition.index, owners, takenAtMs }).pieces()) {
    parts.push(piece);
    await pause();
  }
  const { rows, owners: read } = readSnapshot(Buffer.concat(parts));
  yield `{"block_size":${partition.blockSize},"watermarks":${exactJsonStringify(watermarks)},"events":[`;
  let eventId = 0;
  for (const run of new OrderedRuns(rows, hasher, (owner) => read[owner]?.isVoid === false)) {
    const owner = read[rows.owner(run.first)];
    if (run.hole || owner === undefined) continue;
    const blocks = Array.from({ length: run.count }, (_, at) => ({
      block_hash: u64ToBigInt(rows.hash(run.first + at, ROW.EXTERNAL)),
      tokens_hash: u64ToBigInt(rows.hash(run.first + at, ROW.LOCAL)),
      mm_extra_info: null,
    }));
    const text = exactJsonStringify({
      worker_id: owner.workerId,
      storage_tier: DUMP_TIERS[rows.tier(run.first)],
      event: {
        event_id: eventId,
        data: {
          stored: { parent_hash: run.parent && u64ToBigInt(run.parent), start_position: null, blocks },
        },
        dp_rank: owner.rank,
      },
    });
    yield eventId === 0 ? text : `,${text}`;
    eventId += 1;
    if (eventId % 64 === 0) await pause();
  }
  yield ']}';
}

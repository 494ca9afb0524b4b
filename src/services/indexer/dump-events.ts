// A partition's blocks as the Rust service dumps them: store events of runs of a chain, each behind its parent; beside them, as an
// addition, how far each rank's event stream had been applied when the dump began, and how far it could be trusted.
import type { KvEventApplier } from '../../events/index.ts';
import {
  type BlockHasher,
  type CopyableIndex,
  OrderedRuns,
  type OwnerSlot,
  ROW,
  type SnapshotOwner,
  type SnapshotRows,
  type SnapshotRun,
  SnapshotWriter,
  type Tier,
  type U64,
  u64ToBigInt,
} from '../../kv/index.ts';
import { exactJsonStringify } from '../../plugin/index.ts';
import type { PartitionOwner } from './partition.ts';

/** An index of one partition, or the part of an index that is its. */
export interface DumpSource extends Pick<SnapshotOwner, 'model' | 'routingGroup' | 'blockSize'> {
  /** `model:group`. */
  readonly key: string;
  readonly index: CopyableIndex;
  readonly events: Pick<KvEventApplier, 'feed'>;
  owners(): readonly (readonly [OwnerSlot, PartitionOwner])[];
}

/** Names of tiers in dumps. */
export const DUMP_TIERS: Readonly<Record<Tier, string>> = {
  device: 'device',
  host: 'host_pinned',
  disk: 'disk',
  external: 'external',
};

/** Blocks of one event: about a millisecond of work. */
const BLOCKS_PER_EVENT = 1024;

/**
 * The JSON value of one partition's key, in pieces; between two pieces the index may change. Blocks behind one that their rank does not
 * hold are left out, as the form cannot say them.
 * @param pause called between steps of about a millisecond, to let others at it.
 */
export async function* dumpPartition(
  partition: DumpSource,
  hasher: Pick<BlockHasher, 'chain'>,
  takenAtMs: number,
  pause: () => Promise<void>,
): AsyncGenerator<string, void> {
  const owners = dumpedOwners(partition);
  const list = [...owners];
  const writer = new SnapshotWriter({ index: partition.index, owners, takenAtMs });
  const { isVoid, rows } = await inSteps(writer.copyRows(), pause);
  const runs = new OrderedRuns(rows, hasher, (owner) => !isVoid(list[owner]?.[0] ?? -1));
  await inSteps(runs.prepare(), pause);
  yield `{"block_size":${partition.blockSize},"events":[`;
  const left = new LeftOut(rows);
  let eventId = 0;
  let work = 0;
  for (const run of runs) {
    const owner = list[rows.owner(run.first)]?.[1];
    if (owner === undefined || left.takes(run)) continue;
    for (let done = 0; done < run.count; done += BLOCKS_PER_EVENT) {
      const first = run.first + done;
      const parent = done === 0 ? run.parent : rows.hash(first - 1, ROW.EXTERNAL);
      const count = Math.min(BLOCKS_PER_EVENT, run.count - done);
      const text = eventText(eventId, owner, rows, first, count, parent);
      yield eventId === 0 ? text : `,${text}`;
      eventId += 1;
      // An event has a price of its own, also with one block.
      work += 16 + count;
      if (work < BLOCKS_PER_EVENT) continue;
      work = 0;
      await pause();
    }
  }
  yield `],"watermarks":${watermarks(list, isVoid, left.owners)}}`;
}

/** The JSON of a store event of rows that follow each other. */
function eventText(
  eventId: number,
  owner: SnapshotOwner,
  rows: SnapshotRows,
  first: number,
  count: number,
  parent: U64 | null,
): string {
  const blocks = Array.from({ length: count }, (_, at) => ({
    block_hash: u64ToBigInt(rows.hash(first + at, ROW.EXTERNAL)),
    tokens_hash: u64ToBigInt(rows.hash(first + at, ROW.LOCAL)),
    mm_extra_info: null,
  }));
  return exactJsonStringify({
    worker_id: owner.workerId,
    storage_tier: DUMP_TIERS[rows.tier(first)],
    event: {
      event_id: eventId,
      data: { stored: { parent_hash: parent && u64ToBigInt(parent), start_position: null, blocks } },
      dp_rank: owner.rank,
    },
  });
}

/** Runs that the form cannot say, as their owner does not hold what comes before them, and whose they are. */
class LeftOut {
  /** Numbers of owners. */
  readonly owners = new Set<number>();
  readonly #rows: SnapshotRows;
  readonly #isLeft: Uint8Array;

  constructor(rows: SnapshotRows) {
    this.#rows = rows;
    this.#isLeft = new Uint8Array(rows.count);
  }

  /** Whether a run is left out: runs come after those they rest on. */
  takes({ before, count, first, hole }: SnapshotRun): boolean {
    if (!hole && (before < 0 || this.#isLeft[before] === 0)) return false;
    this.#isLeft.fill(1, first, first + count);
    this.owners.add(this.#rows.owner(first));
    return true;
  }
}

/** Who is dumped, each with where its stream stands now. */
function dumpedOwners(partition: DumpSource): Map<OwnerSlot, SnapshotOwner> {
  const { blockSize, events, index, model, routingGroup } = partition;
  return new Map(
    partition.owners().map(([slot, { instance, rank }]) => {
      const feed = events.feed(slot);
      return [
        slot,
        {
          workerId: instance,
          rank,
          model,
          routingGroup,
          blockSize,
          epoch: null,
          watermark: feed?.lastSequence ?? -1,
          watermarkTime: feed?.lastTime ?? null,
          stale: feed?.stale ?? false,
          partial: (feed?.partial ?? false) || index.lacksRoomFor(slot),
        },
      ];
    }),
  );
}

/** JSON of the streams' positions. Whose blocks are not in the dump has none: its whole history is to be asked for. */
function watermarks(
  list: readonly (readonly [OwnerSlot, SnapshotOwner])[],
  isVoid: (slot: OwnerSlot) => boolean,
  incomplete: ReadonlySet<number>,
): string {
  const entries: object[] = [];
  for (const [number, [slot, owner]] of list.entries()) {
    if (owner.watermark < 0 || isVoid(slot)) continue;
    entries.push({
      worker_id: owner.workerId,
      dp_rank: owner.rank,
      sequence: owner.watermark,
      time: owner.watermarkTime,
      stale: owner.stale,
      partial: owner.partial || incomplete.has(number),
    });
  }
  return exactJsonStringify(entries);
}

/** The result of work that is done step by step. */
async function inSteps<T>(work: Generator<void, T>, pause: () => Promise<void>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await pause();
  }
}

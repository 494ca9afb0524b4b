// Takes a peer's dump, of this program or of the Rust service, into the partitions of this indexer: read whole first, then applied; a dump
// with an event that does not apply leaves nothing behind.
import type { ResumePoint } from '../../events/index.ts';
import { type HashPairs, TIERS, type Tier, type U64, u64FromBigInt } from '../../kv/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { Fields } from '../json-fields.ts';
import { DUMP_TIERS } from './dump-events.ts';
import { EventLists } from './event-lists.ts';
import { flagOf, listOf, objectOf, optionalTimeOf, u64Of, wholeOf } from './json-fields.ts';
import type { IndexerPartition, PartitionOwner } from './partition.ts';

/** A dump has 8 levels, and events of some ten thousand characters. */
const LIMITS = { levels: 32, characters: 32 * 1024 * 1024 };

/** Ranks of a worker. */
export const MAX_RANK = 4095;

/** Where the stream of a rank stands of which the peer does not say it. */
const NOT_TOLD: ResumePoint = { sequence: null, time: null, stale: false, partial: false };

interface StoredEvent extends PartitionOwner {
  readonly tier: Tier;
  readonly parent: U64 | null;
  readonly external: HashPairs;
  readonly local: HashPairs;
}

/** One `model:group` of a dump. */
export interface DumpedPartition {
  readonly model: string;
  readonly routingGroup: string;
  readonly blockSize: number;
  readonly events: readonly StoredEvent[];
  /** Empty when the peer does not say. */
  readonly watermarks: readonly (PartitionOwner & ResumePoint)[];
}

/** Reads a dump. @throws PM_INDEXER_PEER naming what is wrong. */
export function readDump(text: string): readonly DumpedPartition[] {
  const reader = new DumpReader();
  reader.feed(text);
  return reader.end();
}

/** Reads a dump as it comes in. Its methods throw PM_INDEXER_PEER naming what is wrong. */
export class DumpReader {
  readonly #lists = new EventLists(LIMITS, (event, index) => readEvent(event, `events[${index}]`), unusable);

  /** The next piece of the text. */
  feed(text: string): void {
    named(() => this.#lists.feed(text));
  }

  /** The text is complete. */
  end(): readonly DumpedPartition[] {
    return named(() => {
      const partitions = Object.entries(objectOf(this.#lists.end(), 'the dump'));
      return partitions.map(([key, value]) => readPartition(key, value, this.#lists));
    });
  }
}

/** Says of anything that is thrown that the dump cannot be used. */
function named<T>(read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof PointsmanError && thrown.code === 'PM_INDEXER_PEER') throw thrown;
    const why = thrown instanceof PointsmanError ? thrown.message : 'it is no JSON';
    throw new PointsmanError('PM_INDEXER_PEER', `the dump cannot be used: ${why}`, { cause: thrown });
  }
}

function readPartition(key: string, value: unknown, lists: EventLists<StoredEvent>): DumpedPartition {
  const { error, block_size: blockSize, events, watermarks } = objectOf(value, key);
  const colon = key.indexOf(':');
  if (colon < 1) throw unusable(`the key "${key.slice(0, 80)}" is not of the form model:group`);
  if (error !== undefined) throw unusable(`the peer could not dump ${key}: ${String(error).slice(0, 200)}`);
  return {
    model: key.slice(0, colon),
    routingGroup: key.slice(colon + 1),
    blockSize: wholeOf(blockSize, `${key}.block_size`, 1, 1_048_576),
    events: eventsOf(listOf(events, `${key}.events`), lists),
    watermarks: (watermarks === undefined ? [] : listOf(watermarks, `${key}.watermarks`)).map(
      (entry, index) => readWatermark(entry, `${key}.watermarks[${index}]`),
    ),
  };
}

function eventsOf([number]: readonly unknown[], lists: EventLists<StoredEvent>): readonly StoredEvent[] {
  const events = lists.list(number);
  if (events === undefined) throw unusable('a list of events does not stand behind "events"');
  return events;
}

/** Indexers of earlier versions say neither time nor marks. */
function readWatermark(value: unknown, name: string): PartitionOwner & ResumePoint {
  const { dp_rank: rank, partial, sequence, stale, time, worker_id: instance } = objectOf(value, name);
  return {
    instance: u64Of(instance, `${name}.worker_id`),
    rank: wholeOf(rank, `${name}.dp_rank`, 0, MAX_RANK, 0),
    sequence: wholeOf(sequence, `${name}.sequence`, 0, Number.MAX_SAFE_INTEGER),
    time: optionalTimeOf(time, `${name}.time`),
    stale: flagOf(stale, `${name}.stale`),
    partial: flagOf(partial, `${name}.partial`),
  };
}

/** Blocks that a shared cache holds for everybody are nobody's here. */
function readEvent(value: unknown, name: string): StoredEvent[] {
  const outer = objectOf(value, name);
  if (outer.residency_domain === 'cache_owner') return [];
  const event = objectOf(outer.event, `${name}.event`);
  const data = event.data;
  const stored = typeof data === 'object' && data !== null ? Reflect.get(data, 'stored') : undefined;
  if (stored === undefined) throw unusable(`${name} is no store event, and a dump has no others`);
  const { blocks, parent_hash: parent } = objectOf(stored, `${name}.stored`);
  const list = listOf(blocks, `${name}.blocks`).map((block, index) =>
    objectOf(block, `${name}.blocks[${index}]`),
  );
  return [
    {
      instance: u64Of(outer.worker_id, `${name}.worker_id`),
      rank: wholeOf(event.dp_rank, `${name}.dp_rank`, 0, MAX_RANK, 0),
      tier: tierOf(outer.storage_tier, name),
      parent:
        parent === undefined || parent === null ? null : u64FromBigInt(u64Of(parent, `${name}.parent_hash`)),
      external: hashes(list, 'block_hash', name),
      local: hashes(list, 'tokens_hash', name),
    },
  ];
}

function tierOf(value: unknown, name: string): Tier {
  const tier = TIERS.find((candidate) => DUMP_TIERS[candidate] === (value ?? 'device'));
  if (tier === undefined)
    throw unusable(`${name}.storage_tier is none of ${Object.values(DUMP_TIERS).join(', ')}`);
  return tier;
}

function hashes(blocks: readonly Fields[], field: string, name: string): HashPairs {
  const pairs = new Uint32Array(2 * blocks.length);
  for (const [index, block] of blocks.entries()) {
    const { lo, hi } = u64FromBigInt(u64Of(block[field], `${name}.blocks[${index}].${field}`));
    pairs[2 * index] = lo;
    pairs[2 * index + 1] = hi;
  }
  return pairs;
}

/**
 * Applies the events of one partition. A lower tier's events may come before those they rest on; they wait.
 * @returns blocks of lower tiers whose parents nobody told, which are left out.
 * @throws PM_INDEXER_PEER for an event of the device tier that does not apply.
 */
export function applyDump(partition: IndexerPartition, dumped: DumpedPartition): number {
  const waiting = new Map<string, StoredEvent[]>();
  let left = 0;
  const queue: StoredEvent[] = [];
  for (const event of dumped.events) {
    queue.push(event);
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      const slot = partition.slotFor({ instance: next.instance, rank: next.rank });
      const outcome = partition.index.store(slot, next.tier, next.parent, next.external, next.local);
      if (outcome === 'unknown-parent' && next.parent !== null && next.tier !== 'device') {
        const key = parentKey(next, next.parent.lo, next.parent.hi);
        waiting.set(key, [...(waiting.get(key) ?? []), next]);
        left += next.external.length / 2;
        continue;
      }
      if (outcome !== 'stored' && outcome !== 'duplicate') {
        throw unusable(`an event of worker ${next.instance} rank ${next.rank} does not apply (${outcome})`);
      }
      if (waiting.size === 0) continue;
      for (let at = 0; at < next.external.length; at += 2) {
        const key = parentKey(next, next.external[at] ?? 0, next.external[at + 1] ?? 0);
        const freed = waiting.get(key) ?? [];
        waiting.delete(key);
        for (const one of freed) left -= one.external.length / 2;
        queue.push(...freed);
      }
    }
  }
  const known = new Map(dumped.watermarks.map((point) => [`${point.instance}/${point.rank}`, point]));
  const incomplete = new Set([...waiting.values()].flat().map(({ instance, rank }) => `${instance}/${rank}`));
  for (const [slot, { instance, rank }] of partition.owners()) {
    const key = `${instance}/${rank}`;
    const point = known.get(key) ?? NOT_TOLD;
    partition.events.resume(slot, { ...point, partial: point.partial || incomplete.has(key) });
  }
  return left;
}

function parentKey({ instance, rank }: PartitionOwner, lo: number, hi: number): string {
  return `${instance}/${rank}/${lo >>> 0}/${hi >>> 0}`;
}

function unusable(problem: string): PointsmanError {
  return new PointsmanError('PM_INDEXER_PEER', `the dump cannot be used: ${problem}`);
}

// Dumps from one partition to another, without the wire between them.
import { describe, expect, it } from 'vitest';
import { parseExactJson } from '../../config/index.ts';
import { createReferenceHasher, fromBigUint64Array, type HashPairs, type OwnerSlot } from '../../kv/index.ts';
import { createMetrics } from '../../observe/index.ts';
import type { Clock } from '../../plugin/index.ts';
import { dumpPartition } from './dump-events.ts';
import { IndexerPartition } from './partition.ts';
import { applyDump, readDump } from './peer-dump.ts';

const hasher = createReferenceHasher();
const CLOCK: Clock = { now: () => 0, schedule: () => () => undefined };

function partition(): IndexerPartition {
  const parts = { model: 'tiny', routingGroup: 'default', blockSize: 4, maxBytes: 1 << 26 };
  return new IndexerPartition({ ...parts, hasher, clock: CLOCK, metrics: createMetrics() });
}

/** Contents or names of blocks, by number. */
function hashes(...numbers: readonly number[]): HashPairs {
  return fromBigUint64Array(BigUint64Array.from(numbers, (number) => BigInt(number) * 0x9e3779b97f4a7c15n));
}

const named = (number: number) => {
  const [lo = 0, hi = 0] = hashes(number);
  return { lo, hi };
};

/** Stores blocks, each named as it is numbered, behind another. */
function store(into: IndexerPartition, slot: OwnerSlot, behind: number | null, ...blocks: number[]): void {
  const parent = behind === null ? null : named(behind);
  expect(into.index.store(slot, 'device', parent, hashes(...blocks), hashes(...blocks))).toBe('stored');
}

async function dumpOf(from: IndexerPartition, pause: () => void = () => undefined): Promise<string> {
  let text = '';
  const paused = (): Promise<void> => Promise.resolve(pause());
  for await (const piece of dumpPartition(from, hasher, 0, paused)) text += piece;
  return `{"tiny:default":${text}}`;
}

const rank = (number: number) => ({ instance: 7n, rank: number });

describe('a dump of one index', () => {
  it('does no more than some thousand blocks between two pauses, however many there are', async () => {
    const from = partition();
    const slot = from.slotFor(rank(0));
    const blocks = Array.from({ length: 20_000 }, (_, at) => at + 1);
    store(from, slot, null, ...blocks);
    // Many short chains as well: each is an event of its own.
    for (let at = 0; at < 3_000; at += 1) store(from, slot, null, 100_000 + at);
    let chained = 0;
    let most = 0;
    const counting: Pick<typeof hasher, 'chain'> = {
      chain: (...hashed) => {
        chained += 1;
        hasher.chain(...hashed);
      },
    };
    const pause = async (): Promise<void> => {
      most = Math.max(most, chained);
      chained = 0;
      events = 0;
    };
    let events = 0;
    let mostEvents = 0;
    let longest = 0;
    for await (const piece of dumpPartition(from, counting, 0, pause)) {
      mostEvents = Math.max(mostEvents, ++events);
      longest = Math.max(longest, piece.split('block_hash').length - 1);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2048);
    expect(longest).toBe(1024);
    expect(mostEvents).toBeLessThanOrEqual(1024 / 16);
  });

  it('says how far each rank could be trusted, and whoever takes it holds to that', async () => {
    const from = partition();
    const marks = [
      { sequence: 4, time: 1.5, stale: true, partial: false },
      { sequence: 5, time: null, stale: false, partial: true },
      { sequence: 6, time: 2.5, stale: false, partial: false },
    ];
    for (const [number, point] of marks.entries()) {
      const slot = from.slotFor(rank(number));
      from.events.resume(slot, point);
      store(from, slot, null, 1, 2);
    }
    const text = await dumpOf(from);
    expect(parseExactJson(text)).toMatchObject({
      'tiny:default': {
        watermarks: marks.map((point, number) => ({ worker_id: 7, dp_rank: number, ...point })),
      },
    });
    const to = partition();
    for (const dumped of readDump(text)) expect(applyDump(to, dumped)).toBe(0);
    for (const [number, { sequence, time, stale, partial }] of marks.entries()) {
      const expected = { lastSequence: sequence, lastTime: time, stale, partial };
      expect(to.events.feed(to.slotFor(rank(number)))).toMatchObject(expected);
    }
  });

  it('takes watermarks without marks, as earlier versions write them, and refuses other marks', async () => {
    const entry = { worker_id: 7, dp_rank: 0, sequence: 3 };
    const dump = (watermark: object) =>
      JSON.stringify({ 'tiny:default': { block_size: 4, events: [], watermarks: [watermark] } });
    const [read] = readDump(dump(entry));
    expect(read?.watermarks).toEqual([{ ...rank(0), sequence: 3, time: null, stale: false, partial: false }]);
    expect(() => readDump(dump({ ...entry, stale: 1 }))).toThrow(
      'tiny:default.watermarks[0].stale must be true or false',
    );
    expect(() => readDump(dump({ ...entry, time: '1' }))).toThrow(
      'tiny:default.watermarks[0].time must be a number of seconds',
    );
  });

  it('leaves out what lies behind a block that is gone, all its branches, and calls that rank partial', async () => {
    const from = partition();
    const [slot, other] = [from.slotFor(rank(0)), from.slotFor(rank(1))];
    for (const one of [slot, other])
      from.events.resume(one, { sequence: 0, time: 0, stale: false, partial: false });
    store(from, slot, null, 1, 2, 3);
    store(from, slot, 2, 4);
    store(from, slot, null, 9);
    from.index.remove(slot, 'device', hashes(1));
    store(from, other, null, 1);
    const to = partition();
    for (const dumped of readDump(await dumpOf(from))) applyDump(to, dumped);
    const taken = to.slotFor(rank(0));
    expect(to.index.stats().residencies).toBe(2);
    expect(to.events.feed(taken)).toMatchObject({ lastSequence: 0, stale: false, partial: true });
    expect(to.events.feed(to.slotFor(rank(1)))).toMatchObject({ stale: false, partial: false });
  });

  it('has no position of a rank that was cleared meanwhile: whoever takes it asks for everything', async () => {
    const from = partition();
    const slot = from.slotFor(rank(0));
    from.events.resume(slot, { sequence: 5, time: 0, stale: false, partial: false });
    store(from, slot, null, 1, 2);
    let pauses = 0;
    const text = await dumpOf(from, () => {
      pauses += 1;
      if (pauses === 1) from.index.clear(slot, 'all');
    });
    expect(parseExactJson(text)).toEqual({ 'tiny:default': { block_size: 4, events: [], watermarks: [] } });
  });
});

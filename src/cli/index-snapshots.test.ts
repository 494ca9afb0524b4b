import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { createKvEventApplier, encodeEventBatch, type KvReplayListener } from '../events/index.ts';
import { BlockSizes, Fleet, type WorkerCapabilities } from '../fleet/index.ts';
import { blockHashSeed, createPrefixIndex, createReferenceHasher } from '../kv/index.ts';
import { type MetricName, type Metrics, NO_METRICS } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { IndexSnapshots } from './index-snapshots.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-snapshot-'));
afterAll(() => rmSync(folder, { recursive: true }));
const hasher = createReferenceHasher();
const NOON = 1_700_000_000_000;

interface SetUp {
  readonly path: string;
  readonly epochs?: readonly (string | null)[];
  readonly blockSize?: number;
  readonly at?: number;
  readonly maxBytes?: number;
}

function advertising(epoch: string): WorkerCapabilities {
  return {
    epoch,
    model: 'tiny',
    workerType: 'aggregated',
    blockSize: 16,
    hashScheme: 'x',
    reportsOutcomes: false,
    ranks: new Map(),
  };
}

/** A router's parts with one worker per epoch, ids from 1; an epoch of null was not told yet. */
function setUp({ path, epochs = ['a', 'b'], blockSize = 16, at = NOON, maxBytes = 1 << 20 }: SetUp) {
  const clock = new ManualClock(at);
  const fleet = new Fleet();
  const blockSizes = new BlockSizes(fleet, () => blockSize);
  const index = createPrefixIndex({ hasher });
  const counted: string[] = [];
  const warned: string[] = [];
  const metrics: Metrics = {
    ...NO_METRICS,
    count(name: MetricName, labels = {}) {
      if (name.startsWith('pointsman_snapshot')) counted.push([name.slice(19), labels.result].join(' '));
    },
  };
  const events = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    blockSizeOf: (owner) => blockSizes.ofSlot(owner),
    learnBlockSize: () => undefined,
    metrics: NO_METRICS,
    clock,
  });
  for (const [number, epoch] of epochs.entries()) {
    fleet.add(workerFixture({ id: BigInt(number + 1) }).spec, epoch === null ? null : advertising(epoch));
  }
  const log = {
    ...NO_LOG,
    warn: (message: string) => warned.push(message),
    error: (message: string) => warned.push(message),
  };
  const snapshots = new IndexSnapshots({
    path,
    everyMs: 30_000,
    maxAgeMs: 600_000,
    maxBytes,
    index,
    events,
    fleet,
    blockSizes,
    hasher,
    routingGroupOf: () => 'default',
    clock,
    metrics,
    log,
  });
  /** Batch `sequence` of an owner: one more block behind those that the batches before it told. */
  const hear = (owner: number, sequence: number): void => {
    const external = Uint32Array.of(sequence + 1, owner);
    const tokenIds = new Uint32Array(16).fill(sequence + 1);
    const parent = sequence === 0 ? null : { lo: sequence, hi: owner };
    const scope = { tier: 'device', loraName: null, cacheSalt: null, sessionId: null } as const;
    const event = { kind: 'stored', external, parent, tokenIds, blockSize: 16, ...scope } as const;
    events.onDecodedBatch(owner, sequence, { timestamp: 0, events: [event], rank: null });
  };
  return { clock, fleet, index, events, snapshots, counted, warned, hear };
}

/** A file in which worker 1 (epoch a) and 2 (epoch b) have three blocks each, up to batch 2. */
async function written(name: string): Promise<string> {
  const path = join(folder, name);
  const { snapshots, hear } = setUp({ path });
  for (const owner of [0, 1]) for (const sequence of [0, 1, 2]) hear(owner, sequence);
  await snapshots.close();
  return path;
}

test('a restart finds its blocks again, and its streams go on behind the watermark', async () => {
  const path = await written('restart');
  expect(readdirSync(folder).filter((name) => name.startsWith('restart'))).toEqual(['restart']);
  const { snapshots, index, events, counted, warned, hear } = setUp({ path, at: NOON + 60_000 });
  snapshots.restore();
  expect(index.stats().holdings).toBe(6);
  expect(counted).toEqual(['owners_total restored', 'owners_total restored', 'restores_total restored']);
  hear(0, 3);
  hear(1, 5);
  expect(index.stats().holdings).toBe(7);
  expect(events.feed(0)).toMatchObject({ lastSequence: 3, gaps: 0, stale: false, restarts: 0 });
  expect(events.feed(1)).toMatchObject({ lastSequence: 5, gaps: 1, missedBatches: 2, stale: true });
  // An engine that begins anew is noticed as ever.
  hear(0, 0);
  expect(events.feed(0)).toMatchObject({ lastSequence: 0, restarts: 1 });
  expect(warned).toEqual([]);
});

test('what an engine no longer told before the snapshot is still marked as missing after it', async () => {
  const path = join(folder, 'partial');
  const first = setUp({ path });
  let listener: KvReplayListener | null = null;
  first.events.askAt(0, {
    replay: (_, asking) => {
      listener = asking;
      return () => undefined;
    },
  });
  first.hear(0, 5);
  first.hear(1, 0);
  const answer = listener as KvReplayListener | null;
  // Its history begins with batch 4.
  answer?.batch(4, encodeEventBatch({ timestamp: 0, events: [], rank: null }));
  answer?.ended();
  expect(first.events.feed(0)).toMatchObject({ lastSequence: 5, stale: false, partial: true });
  await first.snapshots.close();
  const { snapshots, events } = setUp({ path });
  snapshots.restore();
  expect(events.feed(0)).toMatchObject({ lastSequence: 5, stale: false, partial: true });
  expect(events.feed(1)).toMatchObject({ lastSequence: 0, stale: false, partial: false });
});

test('a worker in another life is left out, at once or as soon as it says so', async () => {
  const path = await written('epochs');
  const { snapshots, index, events, fleet, counted, warned } = setUp({ path, epochs: ['other', null] });
  snapshots.restore();
  expect(counted).toEqual(['owners_total epoch', 'owners_total restored', 'restores_total restored']);
  expect(index.stats().holdings).toBe(3);
  fleet.setCapabilities(2n, advertising('b2'));
  expect(index.stats().holdings).toBe(0);
  expect(events.feed(1)).toBeNull();
  expect(counted.at(-1)).toBe('owners_total epoch');
  expect(warned).toEqual([
    'a worker restarted since the snapshot was taken: its restored blocks are dropped',
  ]);
});

test('a worker that says it is still in the same life keeps its blocks', async () => {
  const path = await written('same');
  const { snapshots, index, fleet } = setUp({ path, epochs: [null, null] });
  snapshots.restore();
  fleet.setCapabilities(1n, advertising('a'));
  fleet.setCapabilities(2n, advertising('b'));
  expect(index.stats().holdings).toBe(6);
});

test('workers that are not configured any more, and blocks of another size, are left out', async () => {
  const path = await written('unknown');
  const fewer = setUp({ path, epochs: ['a'] });
  fewer.snapshots.restore();
  expect(fewer.index.stats().holdings).toBe(3);
  expect(fewer.counted).toEqual(['owners_total worker', 'owners_total restored', 'restores_total restored']);
  const larger = setUp({ path, blockSize: 32 });
  larger.snapshots.restore();
  expect(larger.index.stats().holdings).toBe(0);
  expect(larger.counted.slice(0, 2)).toEqual(['owners_total block_size', 'owners_total block_size']);
  expect(larger.warned[0]).toBe(
    'the snapshot has blocks of another size than the model: nothing of this worker is restored',
  );
});

test('a file that is old, cut off, too large or none is refused in words, and the start goes on', async () => {
  const path = await written('refused');
  const refused = (over: Partial<SetUp>): [string[], string[], number] => {
    const { snapshots, counted, warned, index } = setUp({ path, ...over });
    snapshots.restore();
    return [counted, warned, index.stats().holdings];
  };
  const unusable = 'the snapshot of the prefix index cannot be used: ';
  expect(refused({ at: NOON + 600_001 })).toEqual([
    ['restores_total old'],
    ['the snapshot of the prefix index is older than snapshot.max_age; the router starts without it'],
    0,
  ]);
  const { length } = readFileSync(path);
  expect(refused({ maxBytes: 100 })[1]).toEqual([
    `${unusable}it has ${length} bytes, and limits.index_bytes is 100; the router starts without it`,
  ]);
  truncateSync(path, length - 1);
  expect(refused({})).toEqual([
    ['restores_total refused'],
    [`${unusable}its checksum does not fit: it is cut off or was changed; the router starts without it`],
    0,
  ]);
  expect(refused({ path: folder })[0]).toEqual(['restores_total refused']);
  expect(refused({ path: join(folder, 'none') })).toEqual([[], [], 0]);
});

test('it is written every so often, never half, and a folder that is not there is said each time', async () => {
  const path = join(folder, 'often');
  const { snapshots, clock, counted, hear } = setUp({ path });
  hear(0, 0);
  snapshots.start();
  for (const count of [1, 2]) {
    clock.advanceTo(NOON + count * 30_000);
    await snapshots.write();
    expect(counted.filter((entry) => entry === 'writes_total written').length).toBe(count);
    await new Promise((resolve) => setImmediate(resolve));
  }
  writeFileSync(`${path}.new`, 'left by a process that was killed');
  await snapshots.close();
  expect(existsSync(`${path}.new`)).toBe(false);
  const lost = setUp({ path: join(folder, 'missing', 'file') });
  await lost.snapshots.write();
  expect(lost.counted).toEqual(['writes_total failed']);
  expect(lost.warned[0]).toMatch(/^a snapshot of the prefix index cannot be written: ENOENT/);
});

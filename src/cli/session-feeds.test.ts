// Lineages are kept while the policies in force ask for them, whoever replaced them, and no longer.
import { expect, test } from 'vitest';
import { Fleet, type WorkerSpec } from '../fleet/index.ts';
import type { RoleProvisions } from '../host/index.ts';
import { createBlockHasher, createPrefixIndex } from '../kv/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { SessionFeeds } from './session-feeds.ts';

const asks = (lineage: RoleProvisions['lineage']): readonly { readonly provisions: RoleProvisions }[] => [
  {
    provisions: {
      index: 'yes',
      eventSubscription: 'yes',
      chainRetention: 'no',
      copyLocations: 'no',
      lineage,
      residency: 'no',
      hintStage: 'yes',
    },
  },
];

const WORKER: WorkerSpec = {
  id: 1n,
  model: 'm',
  url: 'virtual:',
  dialect: 'sim',
  role: 'aggregated',
  ranks: { first: 0, count: 1 },
  kvEvents: new Map(),
  maxNumBatchedTokens: null,
  totalKvBlocks: null,
  taints: [],
  topology: {},
};

test('begins and ends with the policies that ask', () => {
  let resolution = asks('no');
  const clock = new ManualClock();
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const fleet = new Fleet();
  fleet.add(WORKER);
  const feeds = new SessionFeeds({
    fleet,
    residency: index,
    host: { resolution: () => resolution },
    limits: { lineageBytes: 2 ** 20, lineageSessions: 8, lineageTtlMs: 0 },
    useKvEvents: true,
    clock,
    metrics: NO_METRICS,
  });
  const partition = { model: 'm', routingGroup: 'default' };
  const scope = { partition, role: 'aggregated', cacheSalt: null } as const;
  const hashes = hasher.hashPrompt(
    Uint32Array.from({ length: 8 }, (_, at) => at),
    2,
    { lo: 0, hi: 0 },
  );
  index.store(0, 'device', null, hashes.sequence, hashes.local);
  const session = { sessionId: 's', agentHeaders: {} };
  const book = (): void => {
    const match = index.find(hashes.local, hashes.sequence, ['device']);
    feeds.booked({ ...scope, session }, 0, match, hashes);
    clock.advanceTo(clock.now() + 1);
  };
  const blocks = () =>
    feeds.lineageFor(scope, 0)?.uniqueBlocks('s', { workerId: 1n, rank: 0 }).length ?? null;
  book();
  expect([feeds.keeps, blocks()]).toEqual([false, null]);
  resolution = asks('yes');
  expect(blocks()).toBe(0);
  book();
  expect([feeds.keeps, blocks()]).toEqual([true, 4]);
  // The same is asked for by others: what is known stays.
  resolution = asks('yes');
  expect(blocks()).toBe(4);
  index.remove(0, 'device', hashes.sequence.subarray(4));
  clock.advanceTo(clock.now() + 1);
  expect(blocks()).toBe(2);
  resolution = asks('disabled');
  expect([blocks(), feeds.keeps]).toEqual([null, false]);
  resolution = asks('yes');
  expect(blocks()).toBe(0);
});

test('an id that no session can have is nobody', () => {
  const index = createPrefixIndex({ hasher: createBlockHasher() });
  const clock = new ManualClock();
  const feeds = new SessionFeeds({
    fleet: new Fleet(),
    residency: index,
    host: { resolution: () => asks('yes') },
    limits: { lineageBytes: 2 ** 20, lineageSessions: 8, lineageTtlMs: 0 },
    useKvEvents: true,
    clock,
    metrics: NO_METRICS,
  });
  const partition = { model: 'm', routingGroup: 'default' };
  for (const [cacheSalt, sessionId] of [[null, 'x'.repeat(257)]] as const) {
    const session = { sessionId, sessionFinal: true, agentHeaders: {} };
    const request = { partition, role: 'aggregated', cacheSalt, session } as const;
    feeds.booked(request, 0, null, null);
    feeds.ended(request);
    feeds.stored(0, { sessionId, cacheSalt, external: Uint32Array.of(1, 2) });
    expect(feeds.lineageFor(request, null)?.frontiers(sessionId)).toEqual([]);
  }
});

test('sessions of equal id are apart by tenant, and what engines say of them counts only while nobody names tenants', () => {
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const clock = new ManualClock();
  const fleet = new Fleet();
  fleet.add(WORKER);
  const feeds = new SessionFeeds({
    fleet,
    residency: index,
    host: { resolution: () => asks('yes') },
    limits: { lineageBytes: 2 ** 20, lineageSessions: 8, lineageTtlMs: 0 },
    useKvEvents: true,
    clock,
    metrics: NO_METRICS,
  });
  const partition = { model: 'm', routingGroup: 'default' };
  const scope = (tenant: string | null) =>
    ({ partition, role: 'aggregated', cacheSalt: null, tenant }) as const;
  const tokens = Uint32Array.from({ length: 8 }, (_, at) => at);
  const hashes = hasher.hashPrompt(tokens, 2, { lo: 0, hi: 0 });
  index.store(0, 'device', null, hashes.sequence, hashes.local);
  const blocks = (tenant: string | null) =>
    feeds.lineageFor(scope(tenant), 0)?.uniqueBlocks('s', { workerId: 1n, rank: 0 }).length;
  const told = (depth: number): void => {
    feeds.stored(0, { sessionId: 's', cacheSalt: null, external: hashes.sequence.subarray(0, 2 * depth) });
    clock.advanceTo(clock.now() + 1);
  };
  told(1);
  expect(blocks(null)).toBe(1);
  const match = index.find(hashes.local, hashes.sequence, ['device']);
  feeds.booked({ ...scope('a'), session: { sessionId: 's', agentHeaders: {} } }, 0, match, hashes);
  clock.advanceTo(clock.now() + 1);
  expect([blocks(null), blocks('a'), blocks('b')]).toEqual([1, 4, 0]);
  told(4);
  expect([blocks(null), blocks('a')]).toEqual([1, 4]);
  feeds.stored(0, { sessionId: 's', cacheSalt: 'salt', external: hashes.sequence.slice() });
  clock.advanceTo(clock.now() + 1);
  const salted = { ...scope(null), cacheSalt: 'salt' };
  expect(feeds.lineageFor(salted, 0)?.uniqueBlocks('s', { workerId: 1n, rank: 0 })).toHaveLength(0);
});

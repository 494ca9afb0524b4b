// The standalone indexer over real HTTP and ZeroMQ.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Publisher } from 'zeromq';
import { parseExactJson } from '../../config/index.ts';
import { encodeEventBatch, type KvEvent } from '../../events/index.ts';
import {
  blockHashSeed,
  createReferenceHasher,
  fromBigUint64Array,
  hashAt,
  u64FromBigInt,
  u64ToBigInt,
} from '../../kv/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { type Clock, exactJsonStringify, NO_LOG } from '../../plugin/index.ts';
import { type RunningIndexer, type StartIndexerOptions, startIndexer } from './start-indexer.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const CLOCK: Clock = {
  now: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
const BIG = 2n ** 64n - 2n;
const hasher = createReferenceHasher();
const TOKENS = Array.from({ length: 12 }, (_, at) => at + 1);
/** Engine hashes of three blocks; one is beyond every double. */
const NAMES = [2n ** 63n + 1n, 2n ** 53n + 1n, 7n];

function locals(count: number): bigint[] {
  const { local } = hasher.hashPrompt(Uint32Array.from(TOKENS), 4, blockHashSeed({}));
  return Array.from({ length: count }, (_, at) => u64ToBigInt(hashAt(local, at)));
}

async function indexer(over: Partial<StartIndexerOptions> = {}): Promise<RunningIndexer> {
  const running = await startIndexer({
    host: '127.0.0.1',
    port: 0,
    workers: [],
    peers: [],
    indexBytes: 1 << 24,
    testEndpoints: false,
    clock: CLOCK,
    metrics: createMetrics(),
    log: NO_LOG,
    ...over,
  });
  closers.push(() => running.stop());
  return running;
}

async function post(url: string, path: string, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === 'string' ? body : exactJsonStringify(body);
  const answer = await fetch(`${url}${path}`, { method: 'POST', body: text, headers });
  return [answer.status, parseExactJson(await answer.text())] as const;
}

async function get(url: string, path: string): Promise<unknown> {
  return parseExactJson(await (await fetch(`${url}${path}`)).text());
}

async function until(what: string, ask: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!(await ask())) {
    if (performance.now() > deadline) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** An engine's publisher. */
async function engine() {
  const socket = new Publisher({ linger: 0 });
  await socket.bind('tcp://127.0.0.1:*');
  closers.push(() => socket.close());
  let sequence = 0n;
  return {
    endpoint: socket.lastEndpoint ?? '',
    async publish(events: readonly KvEvent[], rank: number | null = null): Promise<void> {
      const number = Buffer.alloc(8);
      number.writeBigUInt64BE(sequence++);
      await socket.send(['', number, encodeEventBatch({ timestamp: 0, events, rank })]);
    },
  };
}

function stored(from: number, to: number, tier: 'device' | 'host' | 'disk' = 'device'): KvEvent {
  const external = fromBigUint64Array(BigUint64Array.from(NAMES.slice(from, to)));
  const parent = from === 0 ? null : u64FromBigInt(NAMES[from - 1] ?? 0n);
  const tokenIds = Uint32Array.from(TOKENS.slice(4 * from, 4 * to));
  return {
    kind: 'stored',
    external,
    parent,
    tokenIds,
    blockSize: 4,
    tier,
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

const REGISTRATION = { model_name: 'tiny', block_size: 4 };
const QUERY = { model_name: 'tiny', token_ids: TOKENS };
const NOTHING = { scores: {}, frequencies: [], instances: {} };

async function registered(url: string, instance: bigint, endpoint: string, more: object = {}): Promise<void> {
  const answer = await post(url, '/register', { instance_id: instance, endpoint, ...REGISTRATION, ...more });
  expect(answer).toEqual([201, { status: 'ok' }]);
  await until('the listener is active', async () => {
    const workers = (await get(url, `/workers?model_name=${REGISTRATION.model_name}`)) as {
      status: string;
    }[];
    return workers.every(({ status }) => status === 'active');
  });
}

async function tokensOf(url: string, instance: bigint): Promise<number | undefined> {
  const [, answer] = await post(url, '/query', QUERY);
  return (answer as { instances: Record<string, { longest_matched: number }> }).instances[String(instance)]
    ?.longest_matched;
}

describe('the standalone indexer', () => {
  it('registers, hears events, answers queries by tokens and by hashes, and forgets what is unregistered', async () => {
    const { url } = await indexer();
    const source = await engine();
    await registered(url, BIG, source.endpoint, { routing_group: null });
    expect(await post(url, '/query', QUERY)).toEqual([200, NOTHING]);
    await source.publish([stored(0, 2), stored(0, 1, 'host'), stored(2, 3, 'host')]);
    await until('the blocks are known', async () => (await tokensOf(url, BIG)) === 12);
    expect(await (await fetch(`${url}/metrics`)).text()).toMatch(/pointsman_indexer_index_blocks 3\n/);
    const expected = {
      scores: { [String(BIG)]: { 0: 8 } },
      frequencies: [],
      instances: { [String(BIG)]: { longest_matched: 12, gpu: 8, dp: { 0: 8 }, cpu: 12, disk: 12 } },
    };
    expect(await post(url, '/query', QUERY)).toEqual([200, expected]);
    const signed = locals(3).map((hash) => BigInt.asIntN(64, hash));
    expect(await post(url, '/query_by_hash', { model_name: 'tiny', block_hashes: signed })).toEqual([
      200,
      expected,
    ]);
    expect(await post(url, '/query', { ...QUERY, cache_salt: 'other' })).toEqual([200, NOTHING]);
    expect(await post(url, '/query', { ...QUERY, lora_name: 'other' })).toEqual([200, NOTHING]);
    expect(await get(url, '/workers?routing_group=default')).toEqual([
      {
        instance_id: BIG,
        source: 'zmq',
        status: 'active',
        ...REGISTRATION,
        routing_group: 'default',
        endpoints: { 0: source.endpoint },
        listeners: { 0: { endpoint: source.endpoint, status: 'active' } },
      },
    ]);
    expect(await get(url, '/workers?model_name=other')).toEqual([]);
    expect(await post(url, '/unregister', { instance_id: BIG, model_name: 'tiny' })).toEqual([
      200,
      { status: 'ok' },
    ]);
    expect(await post(url, '/query', QUERY)).toEqual([200, NOTHING]);
    const text = await (await fetch(`${url}/metrics`)).text();
    expect(text).toMatch(/pointsman_indexer_index_blocks 0\n/);
    expect(text).toMatch(/pointsman_indexer_index_bytes [1-9]\d+\n/);
    expect(text).toContain('pointsman_indexer_requests_total{endpoint="/register",method="POST"} 1');
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it('credits a rank that a batch names, and forgets one rank within a group', async () => {
    const { url } = await indexer();
    const [first, second] = [await engine(), await engine()];
    await registered(url, 1n, first.endpoint);
    await registered(url, 1n, second.endpoint, { dp_rank: 1 });
    await first.publish([stored(0, 1)]);
    await second.publish([stored(0, 2)], 3);
    await until('both are known', async () => (await tokensOf(url, 1n)) === 8);
    await until('both are known', async () => {
      const [, answer] = await post(url, '/query', QUERY);
      return Object.keys((answer as { scores: Record<string, object> }).scores['1'] ?? {}).length === 2;
    });
    expect((await post(url, '/query', QUERY))[1]).toMatchObject({ scores: { 1: { 0: 4, 3: 8 } } });
    const rank = { instance_id: 1, model_name: 'tiny', routing_group: 'default', dp_rank: 0 };
    expect(await post(url, '/unregister', rank)).toEqual([200, { status: 'ok' }]);
    expect((await post(url, '/query', QUERY))[1]).toMatchObject({ scores: { 1: { 3: 8 } } });
    // Without a group the rank does not count: all of it goes, the rank nobody registered included.
    await post(url, '/unregister', { instance_id: 1, model_name: 'tiny', dp_rank: 7 });
    expect(await post(url, '/query', QUERY)).toEqual([200, NOTHING]);
  });

  it('refuses in words, with the statuses of the Rust service', async () => {
    const { url } = await indexer();
    const source = await engine();
    const { endpoint } = source;
    await registered(url, 1n, endpoint);
    const refusals = [
      [
        '/register',
        { instance_id: 1, endpoint, ...REGISTRATION },
        409,
        'rank 0 of instance 1 is registered already',
      ],
      [
        '/register',
        { instance_id: 1, endpoint, ...REGISTRATION, model_name: 'other' },
        409,
        'instance 1 is registered for tiny:default; unregister it there first',
      ],
      [
        '/register',
        { instance_id: 2, endpoint, ...REGISTRATION, block_size: 8 },
        409,
        'block_size 8 of instance 2 does not fit tiny:default, whose blocks have 4 tokens',
      ],
      [
        '/register',
        { instance_id: 2, endpoint: 'x', ...REGISTRATION },
        400,
        'endpoint must be a ZeroMQ address such as tcp://10.0.0.7:5557',
      ],
      [
        '/register',
        { instance_id: -1, endpoint, ...REGISTRATION },
        400,
        'instance_id must be an integer from 0 to 2^64 - 1',
      ],
      ['/register', '{', 400, 'the body is not JSON'],
      ['/register', [], 400, 'the body must be a JSON object'],
      // Refused before it is parsed, which would take seconds.
      ['/query', '['.repeat(8 * 1024 * 1024), 400, 'the body nests deeper than 32 levels'],
      ['/unregister', { instance_id: 9, model_name: 'tiny' }, 404, 'instance 9 is not registered for tiny'],
      [
        '/query',
        { ...QUERY, model_name: 'none' },
        404,
        'there is no index for none:default; register a worker first',
      ],
      [
        '/query',
        { ...QUERY, token_ids: [1, -1] },
        400,
        'token_ids[1] must be a whole number from 0 to 4294967295',
      ],
      [
        '/query_by_hash',
        { model_name: 'tiny', block_hashes: [1.5] },
        400,
        'block_hashes[0] must be an integer of 64 bits',
      ],
      [
        '/query_by_hash',
        { model_name: 'tiny', block_hashes: [], cache_salt: 'a' },
        400,
        'cache_salt must be absent: hashes are made with the salt already; use /query to have it applied',
      ],
      ['/deregister_peer', { url: 'http://127.0.0.1:1' }, 404, 'that peer is not registered'],
      ['/register_peer', { url: 'nowhere' }, 400, 'url must be an address such as http://10.0.0.7:8090'],
      ['/test/pause_listener', { instance_id: 1 }, 404, 'the indexer has no POST /test/pause_listener'],
      ['/query', ' '.repeat(8 * 1024 * 1024 + 1), 413, 'the body is larger than 8388608 bytes'],
    ] as const;
    for (const [path, body, status, error] of refusals) {
      expect(await post(url, path, body)).toMatchObject([status, { error }]);
    }
    expect((await post(url, '/query', QUERY, { origin: 'http://elsewhere.example' }))[0]).toBe(403);
  });

  it('keeps peers, and pauses listeners only where tests are allowed', async () => {
    const { url } = await indexer({ testEndpoints: true });
    expect(await post(url, '/register_peer', { url: 'http://127.0.0.1:9/' })).toEqual([
      201,
      { status: 'ok' },
    ]);
    expect(await get(url, '/peers')).toEqual(['http://127.0.0.1:9']);
    expect(await post(url, '/deregister_peer', { url: 'http://127.0.0.1:9' })).toEqual([
      200,
      { status: 'ok' },
    ]);
    expect(await post(url, '/reopen_logs', {})).toEqual([200, { status: 'ok' }]);
    const source = await engine();
    await registered(url, 1n, source.endpoint);
    expect(await post(url, '/test/pause_listener', { instance_id: 1 })).toEqual([200, { status: 'ok' }]);
    expect(await get(url, '/workers')).toMatchObject([{ status: 'paused' }]);
    expect((await post(url, '/test/pause_listener', { instance_id: 1 }))[0]).toBe(409);
    expect(await post(url, '/test/resume_listener', { instance_id: 1 })).toEqual([200, { status: 'ok' }]);
    expect((await post(url, '/test/resume_listener', { instance_id: 2 }))[0]).toBe(404);
  });
});

describe('a dump', () => {
  it('is in the form of the Rust service, with watermarks beside, and a new indexer goes on from it', async () => {
    const source = await engine();
    const first = await indexer();
    await registered(first.url, BIG, source.endpoint);
    await source.publish([stored(0, 2)]);
    await source.publish([stored(2, 3, 'host')]);
    await until('the blocks are known', async () => (await tokensOf(first.url, BIG)) === 12);
    const [a, b, c] = locals(3);
    const event = (event_id: number, storage_tier: string, parent_hash: bigint | null, blocks: object[]) => {
      const data = { stored: { parent_hash, start_position: null, blocks } };
      return { worker_id: BIG, storage_tier, event: { event_id, data, dp_rank: 0 } };
    };
    const block = (block_hash: unknown, tokens_hash: unknown) => ({
      block_hash,
      tokens_hash,
      mm_extra_info: null,
    });
    const numbers = (value: bigint | undefined) => parseExactJson(String(value));
    expect(await get(first.url, '/dump')).toEqual({
      'tiny:default': {
        block_size: 4,
        watermarks: [{ worker_id: BIG, dp_rank: 0, sequence: 1, time: null, stale: false, partial: false }],
        events: [
          event(0, 'device', null, [block(NAMES[0], numbers(a)), block(NAMES[1], numbers(b))]),
          event(1, 'host_pinned', NAMES[1] ?? null, [block(7, numbers(c))]),
        ],
      },
    });
    const worker = { instance: BIG, rank: 0, model: 'tiny', routingGroup: 'default', blockSize: 4 };
    const second = await indexer({
      workers: [{ ...worker, endpoint: source.endpoint, replayEndpoint: null }],
      peers: ['http://127.0.0.1:1', first.url],
    });
    expect(second.recoveredFrom).toBe(first.url);
    expect(await post(second.url, '/query', QUERY)).toEqual(await post(first.url, '/query', QUERY));
    await source.publish([
      { kind: 'removed', tier: 'device', external: fromBigUint64Array(BigUint64Array.of(NAMES[0] ?? 0n)) },
    ]);
    await until('the removal is known', async () => (await tokensOf(second.url, BIG)) === undefined);
    const [partition] = second.registry.partitions();
    expect(partition?.events.feed(0)).toMatchObject({ lastSequence: 2, gaps: 0, stale: false });
  });

  it('of the Rust service is accepted: no watermarks, tiers in any order; a broken one leaves nothing behind', async () => {
    const data = (parent_hash: bigint | null, block_hash: bigint, tokens_hash: bigint | undefined) => ({
      stored: { parent_hash, blocks: [{ block_hash, tokens_hash, mm_extra_info: null }] },
    });
    const [a, b, c] = locals(3);
    const one = (tier: string | null, event: object) => ({
      worker_id: BIG,
      ...(tier === null ? {} : { storage_tier: tier }),
      event: { event_id: 0, ...event },
    });
    const rust = {
      'tiny:blue:green': {
        block_size: 4,
        events: [
          one('host_pinned', { data: data(NAMES[1] ?? null, 7n, c), dp_rank: 1 }),
          one(null, { data: data(null, NAMES[0] ?? 0n, a), dp_rank: 1 }),
          one('host_pinned', { data: data(NAMES[0] ?? null, NAMES[1] ?? 0n, b), dp_rank: 1 }),
        ],
      },
    };
    const orphan = {
      'tiny:default': {
        block_size: 4,
        events: [...rust['tiny:blue:green'].events, one('device', { data: data(99n, 5n, a) })],
      },
    };
    const recovered = async (body: unknown): Promise<RunningIndexer> => {
      const peer = createServer((_request, response) => response.end(exactJsonStringify(body)));
      await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', () => resolve()));
      closers.push(() => peer.close());
      return indexer({ peers: [`http://127.0.0.1:${(peer.address() as AddressInfo).port}`] });
    };
    const { url, recoveredFrom } = await recovered(rust);
    expect(recoveredFrom).not.toBeNull();
    const asked = { ...QUERY, routing_group: 'blue:green' };
    expect((await post(url, '/query', asked))[1]).toEqual({
      scores: { [String(BIG)]: { 1: 4 } },
      frequencies: [],
      instances: { [String(BIG)]: { longest_matched: 12, gpu: 4, dp: { 1: 4 }, cpu: 12, disk: 12 } },
    });
    for (const broken of [
      orphan,
      { 'tiny:default': { error: 'no' } },
      { tiny: {} },
      [],
      { 'a:b': { block_size: 0 } },
    ]) {
      const empty = await recovered(broken);
      expect(empty.recoveredFrom).toBeNull();
      expect(empty.registry.partitions()).toEqual([]);
    }
  });
});

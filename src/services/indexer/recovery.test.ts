import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Router } from 'zeromq';
import { createBlockHasher } from '../../kv/index.ts';
import { createMetrics } from '../../observe/index.ts';
import { type Clock, type Logger, ManualClock } from '../../plugin/index.ts';
import { recoverFromPeers } from './recovery.ts';
import { IndexerRegistry } from './registry.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A peer that answers each request so. */
async function peer(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_request, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  closers.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const ANYONE = { model: 'tiny', routingGroup: 'default', blockSize: 4 };

function setUp() {
  const warnings: string[] = [];
  const log: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (message) => void warnings.push(message),
    error: () => undefined,
  };
  let connect: (() => void) | undefined;
  const manual = new ManualClock(0);
  let timers = 0;
  const clock: Clock = {
    now: () => manual.now(),
    schedule(delayMs, work) {
      timers += 1;
      return manual.schedule(delayMs, work);
    },
  };
  /** Lets others at it until so many timers were set since the start. */
  const untilTimers = async (count: number): Promise<void> => {
    while (timers < count) await new Promise((resolve) => setImmediate(resolve));
  };
  const registry = new IndexerRegistry({
    hasher: createBlockHasher(),
    clock,
    metrics: createMetrics(),
    log,
    indexBytes: 1 << 24,
    subscribe: ({ onConnection }) => {
      connect = () => onConnection?.(true);
      return Promise.resolve({ close: () => undefined });
    },
  });
  closers.push(() => registry.close());
  return {
    advance: (ms: number) => manual.advanceTo(manual.now() + ms),
    clock,
    connect: () => connect?.(),
    log,
    untilTimers,
    registry,
    warnings,
  };
}

/** A store event behind no block; the hashes are 1 to `blocks`, and the name of the first is a block of its own. */
const event = (worker: number, parent: number | null, ...names: number[]) => ({
  worker_id: worker,
  storage_tier: 'device',
  event: {
    event_id: 0,
    data: {
      stored: {
        parent_hash: parent,
        start_position: null,
        blocks: names.map((name) => ({ block_hash: name, tokens_hash: name, mm_extra_info: null })),
      },
    },
    dp_rank: 0,
  },
});

const dump = (blockSize: number, ...events: object[]): string =>
  JSON.stringify({ 'tiny:default': { block_size: blockSize, events } });

describe('a dump that does not apply', () => {
  it('leaves nothing that the next peer or a worker would stumble over', async () => {
    const { registry, ...means } = setUp();
    const bad = await peer((response) => response.end(dump(32, event(1, null, 1), event(2, 99, 2))));
    const good = await peer((response) => response.end(dump(4, event(3, null, 1, 2))));
    expect(await recoverFromPeers(registry, [bad], means)).toBeNull();
    expect(registry.partitions()).toEqual([]);
    expect(await recoverFromPeers(registry, [bad, good], means)).toBe(good);
    const [partition] = registry.partitions();
    expect(partition?.blockSize).toBe(4);
    expect(partition?.owners()).toEqual([[0, { instance: 3n, rank: 0 }]]);
    expect(partition?.index.stats().residencies).toBe(2);
  });

  it('does not make registered workers lose the place where they are asked', async () => {
    const { connect, registry, ...means } = setUp();
    const replay = new Router({ linger: 0, receiveTimeout: 10_000 });
    await replay.bind('tcp://127.0.0.1:*');
    closers.push(() => replay.close());
    await registry.register({
      ...ANYONE,
      instance: 1n,
      rank: 0,
      endpoint: 'tcp://127.0.0.1:1',
      replayEndpoint: replay.lastEndpoint,
    });
    const bad = await peer((response) => response.end(dump(4, event(1, null, 1), event(2, 99, 2))));
    connect();
    expect(await recoverFromPeers(registry, [bad], means)).toBeNull();
    registry.gate.open();
    const [, , from] = await replay.receive();
    expect(from).toEqual(Buffer.alloc(8));
    expect(registry.partitions()[0]?.owners()).toMatchObject([[0, { instance: 1n, rank: 0 }]]);
  });
});

describe('a peer', () => {
  it('that says nothing is given up for the next after 10 s', async () => {
    const { advance, registry, untilTimers, warnings, ...means } = setUp();
    const never = await peer(() => undefined);
    const good = await peer((response) => response.end(dump(4, event(3, null, 1, 2))));
    const recovered = recoverFromPeers(registry, [never, good], means);
    await untilTimers(2);
    advance(10_000);
    expect(await recovered).toBe(good);
    expect(warnings).toEqual(["a peer's blocks were not taken: it said nothing within 10 s"]);
  });

  it('that goes on and on with little is given up after two minutes', async () => {
    const { advance, registry, untilTimers, warnings, ...means } = setUp();
    let say: () => void = () => undefined;
    const slow = await peer((response) => {
      say = () => response.write(' ');
      say();
    });
    const recovered = recoverFromPeers(registry, [slow], means);
    for (let said = 1; said < 15; said += 1) {
      await untilTimers(2 + said);
      advance(8_000);
      say();
    }
    await untilTimers(2 + 15);
    advance(8_000);
    expect(await recovered).toBeNull();
    expect(warnings).toEqual(["a peer's blocks were not taken: its dump was not complete within 120 s"]);
  });

  it.each([
    ['breaks off', (response: ServerResponse) => response.write('{', () => response.destroy()), 'broke off'],
    ['ends early', (response: ServerResponse) => response.end('{"a:b":{"events":['), 'it is no JSON'],
    ['has no dump', (response: ServerResponse) => response.writeHead(503).end(), 'it answered 503'],
  ])('that %s is said to', async (_, answer, why) => {
    const { registry, warnings, ...means } = setUp();
    expect(await recoverFromPeers(registry, [await peer(answer)], means)).toBeNull();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(why);
  });
});

// More batches at once than any queue on the way may lose: publishers on real sockets, all of them sending while nobody reads.
import { afterEach, expect, it } from 'vitest';
import { systemClock } from '../src/cli/system-clock.ts';
import { createKvEventApplier, type KvEvent, type KvEventSource, subscribeZmq } from '../src/events/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex } from '../src/kv/index.ts';
import { NO_METRICS } from '../src/observe/index.ts';
import { bindEventPublisher, type EventPublisher } from '../src/simulator/index.ts';
import { until } from './live-support.ts';

const open: { close(): void }[] = [];
afterEach(() => {
  for (const one of open.splice(0).reverse()) one.close();
});

const PUBLISHERS = 16;
/** Twice what the broadcast of dyn#14167 had room for, from each. */
const BATCHES = 2048;
const BLOCK = 4;

/** Block `nth` of a publisher, the first of a prompt of its own. */
function stored(publisher: number, nth: number): KvEvent {
  return {
    kind: 'stored',
    external: Uint32Array.of(nth + 1, publisher + 1),
    parent: null,
    tokenIds: Uint32Array.of(publisher, nth, 7, 8),
    blockSize: BLOCK,
    tier: 'device',
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

it('dyn#14167: 32,768 batches that 16 engines send in one go are all applied, none is missed', async () => {
  const hasher = createBlockHasher();
  const index = createPrefixIndex({ hasher });
  const clock = systemClock();
  const applier = createKvEventApplier({
    ...{ index, hasher, blockHashSeed, clock, metrics: NO_METRICS },
    blockSizeOf: () => BLOCK,
    learnBlockSize: () => undefined,
  });
  const publishers: EventPublisher[] = [];
  let connected = 0;
  for (let owner = 0; owner < PUBLISHERS; owner += 1) {
    const publisher = await bindEventPublisher({
      ...{ topic: 'kv', rank: 0, history: 0, replayFrames: 4, faults: null, clock, warn: () => undefined },
    });
    publishers.push(publisher);
    open.push(publisher);
    const source: KvEventSource = await subscribeZmq({
      ...{ endpoint: publisher.endpoint, topic: 'kv', owner, sink: applier },
      onError: (error) => {
        throw error;
      },
      onConnection: () => {
        connected += 1;
      },
    });
    open.push(source);
  }
  await until('every stream stands', () => connected === PUBLISHERS);
  // A handshake may be over before the topic has arrived: the first batch is sent until it is heard.
  for (const [owner, publisher] of publishers.entries()) {
    await until('the topic has arrived', () => {
      if (applier.feed(owner) === null) publisher.publish([{ kind: 'cleared' }], clock.now());
      return applier.feed(owner) !== null;
    });
  }
  const before = publishers.map((_, owner) => applier.feed(owner)?.batches ?? 0);
  // Not one of them is read meanwhile: this is one turn of the loop.
  for (let nth = 0; nth < BATCHES; nth += 1)
    for (const [owner, publisher] of publishers.entries())
      publisher.publish([stored(owner, nth)], clock.now());
  await until('all blocks are there', () => index.stats().blocks >= PUBLISHERS * BATCHES);
  for (const [owner] of publishers.entries()) {
    expect(applier.feed(owner)).toMatchObject({ missedBatches: 0, rejected: {} });
    expect(applier.feed(owner)?.batches).toBeGreaterThanOrEqual((before[owner] ?? 0) + BATCHES);
    expect(index.blocksOf(owner)[0]).toBe(BATCHES);
  }
}, 60_000);

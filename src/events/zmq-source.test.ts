import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { XPublisher } from 'zeromq';
import { PointsmanError } from '../plugin/index.ts';
import type { KvEventSource } from './types.ts';
import { subscribeZmq, type ZmqSubscription } from './zmq-source.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A publisher whose `subscribed` resolves when a subscription has arrived, so that nothing sent later is lost. */
async function publisher(endpoint = 'tcp://127.0.0.1:*') {
  const socket = new XPublisher({ linger: 0 });
  closers.push(() => socket.close());
  await socket.bind(endpoint);
  return { socket, endpoint: socket.lastEndpoint ?? '', subscribed: () => socket.receive() };
}

const sequence = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
};

/** Collects what arrives; `next` resolves with each batch or error in turn. */
function collector() {
  const arrived: string[] = [];
  let wake: (() => void) | null = null;
  const push = (text: string): void => {
    arrived.push(text);
    wake?.();
  };
  const options = {
    owner: 7,
    sink: {
      onBatch: (owner: number, number: number, payload: Uint8Array) =>
        push(`${owner} ${number} ${Buffer.from(payload).toString()}`),
    },
    onError: (error: PointsmanError) => push(`${error.code} ${error.message}`),
  };
  const take = async (count: number): Promise<string[]> => {
    while (arrived.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return arrived.splice(0, count);
  };
  return { options, take };
}

async function subscribe(subscription: ZmqSubscription): Promise<KvEventSource> {
  const source = await subscribeZmq(subscription);
  closers.push(() => source.close());
  return source;
}

describe('subscribeZmq', () => {
  it('delivers batches in order with their sequence and owner', async () => {
    const { socket, endpoint, subscribed } = await publisher();
    const { options, take } = collector();
    await subscribe({ endpoint, topic: '', ...options });
    await subscribed();
    for (let i = 0; i < 500; i += 1) await socket.send(['', sequence(BigInt(i)), `batch ${i}`]);
    expect(await take(500)).toEqual(Array.from({ length: 500 }, (_, i) => `7 ${i} batch ${i}`));
  });

  it('keeps to its topic', async () => {
    const { socket, endpoint, subscribed } = await publisher();
    const { options, take } = collector();
    await subscribe({ endpoint, topic: 'kv-events', ...options });
    await subscribed();
    await socket.send(['other', sequence(0n), 'not for us']);
    await socket.send(['kv-events', sequence(2n ** 40n), 'for us']);
    expect(await take(1)).toEqual(['7 1099511627776 for us']);
  });

  it('reports what is no KV event message, and a sink that throws, and goes on', async () => {
    const { socket, endpoint, subscribed } = await publisher();
    const { options, take } = collector();
    const sink = {
      onBatch(owner: number, number: number, payload: Uint8Array) {
        if (number === 1) throw new Error('boom');
        options.sink.onBatch(owner, number, payload);
      },
    };
    await subscribe({ endpoint, topic: '', ...options, sink });
    await subscribed();
    await socket.send(['', 'two frames']);
    await socket.send(['', Buffer.alloc(4), 'short sequence']);
    await socket.send(['', sequence(2n ** 64n - 1n), 'end of a replay']);
    await socket.send(['', sequence(1n), 'x']);
    await socket.send(['', sequence(2n), 'good']);
    const from = `PM_EVENT_MESSAGE KV events from ${endpoint}:`;
    expect(await take(5)).toEqual([
      `${from} a message of 2 frames is no KV event message; it must be topic, 8-byte sequence, payload`,
      `${from} a message of 3 frames is no KV event message; it must be topic, 8-byte sequence, payload`,
      `${from} a sequence number is beyond 2^53 and was ignored`,
      `${from} applying a batch failed: boom`,
      '7 2 good',
    ]);
  });

  it('waits for an engine that is not there yet', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const address = probe.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    probe.close();
    await once(probe, 'close');
    const endpoint = `tcp://127.0.0.1:${address.port}`;
    const { options, take } = collector();
    await subscribe({ endpoint, topic: '', ...options });
    const { socket, subscribed } = await publisher(endpoint);
    await subscribed();
    await socket.send(['', sequence(0n), 'late']);
    expect(await take(1)).toEqual(['7 0 late']);
  });

  it('listens where an engine connects', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const address = probe.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    probe.close();
    await once(probe, 'close');
    const endpoint = `tcp://127.0.0.1:${address.port}`;
    const { options, take } = collector();
    await subscribe({ endpoint, binds: true, topic: '', ...options });
    const socket = new XPublisher({ linger: 0 });
    closers.push(() => socket.close());
    socket.connect(endpoint);
    await socket.receive();
    await socket.send(['', sequence(0n), 'dialled']);
    expect(await take(1)).toEqual(['7 0 dialled']);
    await expect(subscribeZmq({ endpoint, binds: true, topic: '', ...options })).rejects.toThrow(
      `KV events cannot be read from "${endpoint}"`,
    );
  });

  it('ends its loop when closed, quietly and once', async () => {
    const { socket, endpoint, subscribed } = await publisher();
    const { options, take } = collector();
    const source = await subscribe({ endpoint, topic: '', ...options });
    await subscribed();
    await socket.send(['', sequence(0n), 'first']);
    await take(1);
    source.close();
    source.close();
    // The publisher hears the unsubscription of a closed socket.
    const [message] = await subscribed();
    expect(message?.[0]).toBe(0);
    await socket.send(['', sequence(1n), 'second']);
    const { options: other, take: takeOther } = collector();
    await subscribe({ endpoint, topic: '', ...other });
    await subscribed();
    await socket.send(['', sequence(2n), 'third']);
    expect(await takeOther(1)).toEqual(['7 2 third']);
    await expect(Promise.race([take(1), Promise.resolve('nothing')])).resolves.toBe('nothing');
  });

  it('refuses what is no address', async () => {
    const { options } = collector();
    await expect(subscribeZmq({ endpoint: 'nonsense', topic: '', ...options })).rejects.toThrow(
      PointsmanError,
    );
    await expect(subscribeZmq({ endpoint: 'nonsense', topic: '', ...options })).rejects.toThrow(
      'KV events cannot be read from "nonsense" (Invalid argument); give an address such as tcp://10.0.0.7:5557',
    );
  });
});

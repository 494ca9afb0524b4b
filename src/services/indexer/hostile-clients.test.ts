// Clients that stop halfway: what they leave behind, and what they can hold up.
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../observe/index.ts';
import { type Clock, NO_LOG } from '../../plugin/index.ts';
import { type RunningIndexer, startIndexer } from './start-indexer.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Long waits are over at once, those that are cancelled excepted. */
const CLOCK: Clock = {
  now: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, Math.min(delayMs, 50));
    return () => clearTimeout(timer);
  },
};
const BODY = '{"instance_id":7,"model_name":"tiny"}';

async function indexer(): Promise<RunningIndexer> {
  return startIndexer({
    host: '127.0.0.1',
    port: 0,
    workers: [
      {
        instance: 7n,
        rank: 0,
        model: 'tiny',
        routingGroup: 'default',
        blockSize: 4,
        endpoint: 'tcp://127.0.0.1:9',
        replayEndpoint: null,
      },
    ],
    peers: [],
    indexBytes: 1 << 24,
    testEndpoints: false,
    clock: CLOCK,
    metrics: createMetrics(),
    log: NO_LOG,
  });
}

/** Sends so much of a request and no more. */
async function half(url: string, text: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  closers.push(() => socket.destroy());
  socket.on('error', () => undefined);
  await new Promise<void>((resolve) => socket.write(text, () => resolve()));
  return socket;
}

const unregister = (length: number): string =>
  `POST /unregister HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n\r\n${BODY}`;

describe('an indexer', () => {
  it('does nothing for a request that broke off, although what came of it looks whole', async () => {
    const running = await indexer();
    closers.push(() => running.stop());
    const before = async (): Promise<number> => {
      const text = await (await fetch(`${running.url}/metrics`)).text();
      return text.split('\n').filter((line) => /errors_total.*unregister/.test(line)).length;
    };
    const socket = await half(running.url, unregister(BODY.length + 1));
    socket.destroy();
    while ((await before()) === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(running.registry.workers(null, null)).toHaveLength(1);
  });

  it('stops although a client never ends its request', async () => {
    const running = await indexer();
    await half(running.url, unregister(BODY.length + 1));
    // Once this is answered, the other was taken in.
    await fetch(`${running.url}/health`);
    await running.stop();
    await expect(fetch(`${running.url}/health`)).rejects.toThrow();
  });
});

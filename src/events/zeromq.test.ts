import { afterEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { replayEndpoint } from './replay-endpoint.fixtures.ts';
import { zmqReplay } from './zmq-replay.ts';
import { subscribeZmq } from './zmq-source.ts';

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

describe('a process that listens to a large fleet', () => {
  // Before any other socket of this process, as in a router: libzmq takes no larger number afterwards.
  it('has sockets for more than a thousand connections, and for questions beside them', async () => {
    const problems: string[] = [];
    for (let owner = 0; owner < 360; owner += 1) {
      const source = await subscribeZmq({
        endpoint: 'tcp://127.0.0.1:1',
        topic: '',
        owner,
        sink: { onBatch: () => undefined },
        onError: (error) => problems.push(error.message),
        onConnection: () => undefined,
      });
      closers.push(() => source.close());
    }
    const { endpoint, close } = await replayEndpoint(() => [['', new Uint8Array(8), '']]);
    closers.push(close);
    const replay = zmqReplay({
      endpoint,
      clock: new ManualClock(0),
      onError: (error) => problems.push(error.message),
    });
    const over = await new Promise<string>((resolve) => {
      closers.push(
        replay.replay(0, { batch: () => undefined, ended: () => resolve('ended'), failed: resolve }),
      );
    });
    expect([over, problems]).toEqual(['ended', []]);
  });
});

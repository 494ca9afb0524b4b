import { afterEach, describe, expect, it } from 'vitest';
import { Dealer } from 'zeromq';
import type { FetchAnswer, FetchGrantRequest, HandoffClaim } from '../types.ts';
import { type ControlReply, decodeControlReply, encodeRelease } from './control-messages.ts';
import { createControlPeers } from './control-peers.ts';
import { bindControlSource } from './control-source.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Values pushed by callbacks, taken one by one in order. */
function channel<T>() {
  const queue: T[] = [];
  let wake: (() => void) | null = null;
  return {
    push(value: T): void {
      queue.push(value);
      wake?.();
    },
    async take(): Promise<T> {
      for (;;) {
        const value = queue.shift();
        if (value !== undefined) return value;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** A source that grants what `answer` says and tells what it was asked. */
async function source(epoch: string, answer: FetchAnswer) {
  const asked = channel<FetchGrantRequest>();
  const released = channel<string>();
  const answers = channel<string>();
  const claims = channel<{ claim: HandoffClaim; answered: (answer: FetchAnswer) => void }>();
  const dropped = channel<string>();
  const bound = await bindControlSource({
    epoch: () => epoch,
    grant(request) {
      asked.push(request);
      return answer;
    },
    release: (key) => released.push(key),
    claim: (claim, answered) => claims.push({ claim, answered }),
    drop: (handoff) => dropped.push(handoff),
    onAnswer: (code) => answers.push(code),
  });
  closers.push(() => bound.close());
  return { bound, asked, released, answers, claims, dropped, endpoint: bound.endpoint };
}

async function peers() {
  const notices = channel<true>();
  const made = await createControlPeers(() => notices.push(true));
  closers.push(() => made.close());
  const reserve = (endpoint: string, id: number, more: { rate?: (gbps: number) => void } = {}) =>
    new Promise<FetchAnswer>((resolve) => {
      made.reserve(
        endpoint,
        { id, from: 1, blockHashes: BigUint64Array.of(4n, 5n), deadlineMs: 5000 },
        resolve,
        more.rate,
      );
    });
  return { made, notices, reserve };
}

/** A raw DEALER, for what no well-behaved peer sends. */
async function raw(endpoint: string) {
  const socket = new Dealer({ linger: 0 });
  closers.push(() => socket.close());
  socket.connect(endpoint);
  const reply = async (): Promise<ControlReply> => {
    const frames = await socket.receive();
    expect(frames).toHaveLength(2);
    expect(frames[0]).toHaveLength(0);
    return decodeControlReply(frames[1]!);
  };
  return { socket, reply };
}

describe('the control channel', () => {
  it('carries a reservation, its answer and its end', async () => {
    const { endpoint, asked, released, answers } = await source('run1', { held: 2, bytes: 4096, gbps: 50 });
    const { made, notices, reserve } = await peers();
    expect(await reserve(endpoint, 9)).toEqual({ held: 2, bytes: 4096, gbps: 50 });
    await notices.take();
    const request = await asked.take();
    expect(request).toMatchObject({ from: 1, blockHashes: BigUint64Array.of(4n, 5n), deadlineMs: 5000 });
    expect(await answers.take()).toBe('reserved');
    made.release(endpoint, 9, 'done');
    made.release(endpoint, 9, 'cancel');
    made.release('tcp://127.0.0.1:1', 9, 'cancel');
    expect(await released.take()).toBe(request.key);
  });

  it('tells refusals as they are, and an address that is none as unreachable', async () => {
    for (const error of ['busy', 'too_many', 'nothing_held'] as const) {
      const { endpoint } = await source('run1', { error });
      const { reserve } = await peers();
      expect(await reserve(endpoint, 1)).toEqual({ error });
    }
    const { reserve } = await peers();
    for (const endpoint of ['', 'tcp://127.0.0.1', 'ipc://a-socket', 'tcp://127.0.0.1:99999']) {
      expect(await reserve(endpoint, 1)).toEqual({ error: 'unreachable' });
    }
  });

  it('names grants so that equal ids of two peers stay apart', async () => {
    const { endpoint, asked } = await source('run1', { held: 2, gbps: 50 });
    const [a, b] = [await peers(), await peers()];
    await Promise.all([a.reserve(endpoint, 1), b.reserve(endpoint, 1)]);
    expect((await asked.take()).key).not.toBe((await asked.take()).key);
  });

  it('re-announces the share of the link to the peer concerned', async () => {
    const { bound, endpoint, asked } = await source('run1', { held: 2, gbps: 50 });
    const { reserve } = await peers();
    const rates = channel<number>();
    await reserve(endpoint, 1, { rate: (gbps) => rates.push(gbps) });
    bound.announceRate((await asked.take()).key, 12.5);
    expect(await rates.take()).toBe(12.5);
  });

  it('stops what flows when the source is gone', async () => {
    const { bound, endpoint } = await source('run1', { held: 2, gbps: 50 });
    const { reserve, notices } = await peers();
    const rates = channel<number>();
    await reserve(endpoint, 1, { rate: (gbps) => rates.push(gbps) });
    await notices.take();
    bound.close();
    expect(await rates.take()).toBe(0);
    await notices.take();
  });

  it('refuses a reservation made for another run, and accepts one that names none', async () => {
    const { endpoint, answers } = await source('run2', { held: 2, gbps: 50 });
    const { socket, reply } = await raw(endpoint);
    const ask = async (epoch: string): Promise<ControlReply> => {
      const { encode } = await import('@msgpack/msgpack');
      const message = { op: 'reserve', id: 1, epoch, from: 0, block_hashes: [4], deadline_ms: 10 };
      await socket.send([Buffer.alloc(0), encode(message)]);
      return reply();
    };
    expect(await ask('run1')).toEqual({ op: 'error', id: 1n, code: 'wrong_epoch', epoch: 'run2' });
    expect(await answers.take()).toBe('wrong_epoch');
    expect(await ask('run2')).toMatchObject({ op: 'reserved', held: 2 });
    expect(await ask('')).toMatchObject({ op: 'reserved', epoch: 'run2' });
  });

  it('asks a restarted source again under its new epoch', async () => {
    const first = await source('run1', { held: 2, gbps: 50 });
    const { reserve } = await peers();
    await reserve(first.endpoint, 1);
    first.bound.close();
    const { Router } = await import('zeromq');
    const router = new Router({ linger: 0 });
    closers.push(() => router.close());
    // libzmq closes in the background: the port is free when binding succeeds.
    for (let bound = false; !bound; ) {
      bound = await router.bind(first.endpoint).then(
        () => true,
        () => false,
      );
    }
    const { encodeReply } = await import('./control-messages.ts');
    const { decode } = await import('@msgpack/msgpack');
    const answer = reserve(first.endpoint, 2);
    const epochs: unknown[] = [];
    for (let i = 0; i < 2; i += 1) {
      const [identity, , payload] = await router.receive();
      epochs.push((decode(payload!) as { epoch: string }).epoch);
      const reply: ControlReply =
        i === 0
          ? { op: 'error', id: 2n, code: 'wrong_epoch', epoch: 'run2' }
          : { op: 'reserved', id: 2n, held: 2, bytes: 1n, gbps: 1, epoch: 'run2' };
      await router.send([identity!, Buffer.alloc(0), encodeReply(reply)]);
    }
    expect(epochs).toEqual(['run1', 'run2']);
    expect(await answer).toEqual({ held: 2, bytes: 1, gbps: 1 });
  });

  it('answers an unknown op with an error and survives everything else', async () => {
    const { endpoint, answers, released } = await source('run1', { held: 2, gbps: 50 });
    const { socket, reply } = await raw(endpoint);
    const { encode } = await import('@msgpack/msgpack');
    await socket.send([Buffer.alloc(0), Buffer.from('no msgpack')]);
    await socket.send(['no delimiter']);
    await socket.send([Buffer.alloc(0), encode({ op: 'done', id: 1 }), 'one frame more']);
    for (let i = 0; i < 3; i += 1) expect(await answers.take()).toBe('undecodable');
    await socket.send([Buffer.alloc(0), encode({ op: 'teleport', id: 3 })]);
    expect(await reply()).toEqual({ op: 'error', id: 3n, code: 'unknown_op', epoch: 'run1' });
    await socket.send([Buffer.alloc(0), encodeRelease('cancel', 77)]);
    expect(await released.take()).toMatch(/^[0-9a-f]+:77$/);
  });
});

// What a subscriber that missed batches hears from an engine, over real sockets.

import { afterEach, describe, expect, it } from 'vitest';
import { Dealer, Request } from 'zeromq';
import { decodeEventBatch } from '../../events/index.ts';
import { listen, post, start, stopAll } from './wire.fixtures.ts';

const sockets: { close(): void }[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.close();
  await stopAll();
});

const START_1 = Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]);
const END = 'ffffffffffffffff';
const hex = (frames: readonly Uint8Array[]): string[] =>
  frames.map((frame) => Buffer.from(frame).toString('hex'));

function dealer(endpoint: string): Dealer {
  const socket = new Dealer({ linger: 0 });
  sockets.push(socket);
  socket.connect(endpoint);
  return socket;
}

/** Messages up to the end marker, which has an empty last frame. */
async function answerOf(socket: Dealer): Promise<Uint8Array[][]> {
  const messages: Uint8Array[][] = [];
  for await (const frames of socket) {
    messages.push(frames);
    if (frames.at(-1)?.length === 0) break;
  }
  return messages;
}

/** An engine that has published at least `batches` batches, one per prompt, of which the newest was heard. */
async function engineWith(batches: number, more: Parameters<typeof start>[1] = {}) {
  const engine = (await start({}, more)).engines[0]!;
  const heard = await listen(engine.kv_events);
  let prompts = 0;
  // Early batches may have been published before the subscription stood.
  for (; heard.sequences.length < batches; prompts += 1) {
    const tokens = Array.from({ length: 9 }, (_, at) => 10 * (prompts % 1000) + at);
    await (await post(`${engine.url}/v1/completions`, { prompt: tokens, max_tokens: 1 })).arrayBuffer();
  }
  await heard.until(() => heard.sequences.at(-1) === prompts - 1);
  return { engine, heard };
}

describe('a replay request', () => {
  it('is answered with every kept batch from the sequence on, then an end marker, in four frames', async () => {
    const { engine, heard } = await engineWith(4);
    const socket = dealer(engine.kv_events_replay!);
    await socket.send([Buffer.alloc(0), START_1]);
    const messages = await answerOf(socket);
    expect(hex(messages.pop()!)).toEqual(['', '', END, '']);
    const kept = heard.sequences.at(-1)!;
    expect(messages.map((frames) => hex(frames.slice(0, 3)))).toEqual(
      Array.from({ length: kept }, (_, at) => ['', '', (at + 1).toString(16).padStart(16, '0')]),
    );
    const replayed = messages.flatMap((frames) =>
      decodeEventBatch(frames[3]!).events.map(({ kind }) => kind),
    );
    expect(replayed.every((kind) => kind === 'stored')).toBe(true);
  });

  it('is answered in three frames in the older layout', async () => {
    const { engine, heard } = await engineWith(3, { eventReplayFrames: 3 });
    const socket = dealer(engine.kv_events_replay!);
    await socket.send([Buffer.alloc(0), START_1]);
    const messages = await answerOf(socket);
    expect(hex(messages.pop()!)).toEqual(['', END, '']);
    expect(messages.map((frames) => frames.length)).toEqual(Array(heard.sequences.at(-1)!).fill(3));
  });

  it('begins later when the history is shorter, and ends at once beyond the newest batch', async () => {
    const { engine, heard } = await engineWith(5, { eventHistory: 2 });
    const socket = dealer(engine.kv_events_replay!);
    await socket.send([Buffer.alloc(0), Buffer.alloc(8)]);
    const messages = await answerOf(socket);
    const newest = heard.sequences.at(-1)!;
    expect(messages.slice(0, -1).map((frames) => Number(Buffer.from(frames[2]!).readBigUInt64BE()))).toEqual([
      newest - 1,
      newest,
    ]);
    await socket.send([Buffer.alloc(0), Buffer.alloc(8, 0xff)]);
    expect(await answerOf(socket)).toHaveLength(1);
  });

  it('may come from a REQ socket, which adds the empty frame itself', async () => {
    const { engine } = await engineWith(1);
    const socket = new Request({ linger: 0 });
    sockets.push(socket);
    socket.connect(engine.kv_events_replay!);
    await socket.send(Buffer.alloc(8));
    const [topic, sequence, payload] = await socket.receive();
    expect([topic?.length, Number(Buffer.from(sequence!).readBigUInt64BE())]).toEqual([0, 0]);
    expect(decodeEventBatch(payload!).events.length).toBeGreaterThan(0);
  });

  it('of another shape is ignored with a warning, and the next one is answered', async () => {
    const warnings: string[] = [];
    const { engine } = await engineWith(1, { warn: (problem) => warnings.push(problem) });
    const socket = dealer(engine.kv_events_replay!);
    const empty = Buffer.alloc(0);
    for (const bad of [
      [START_1],
      [empty, empty],
      [empty, START_1, empty],
      [START_1, START_1],
      [empty, Buffer.alloc(9)],
    ]) {
      await socket.send(bad);
    }
    await socket.send([empty, Buffer.alloc(8, 0xff)]);
    expect((await answerOf(socket)).map(hex)).toEqual([['', '', END, '']]);
    expect(warnings).toEqual(
      Array(5).fill('a replay request was ignored; it must be an empty frame and a sequence of 8 bytes'),
    );
  });
});

describe('the address of replays', () => {
  it('stands in the advertisement, and is missing without a history', async () => {
    const rankOf = async (url: string): Promise<unknown> =>
      ((await (await fetch(`${url}/kv_hints/capabilities`)).json()) as { ranks: { '0': unknown } }).ranks[
        '0'
      ];
    const keeping = (await start()).engines[0]!;
    expect(await rankOf(keeping.url)).toMatchObject({ kv_events_replay: keeping.kv_events_replay });
    const forgetting = (await start({}, { eventHistory: 0 })).engines[0]!;
    expect(forgetting.kv_events_replay).toBeNull();
    expect(await rankOf(forgetting.url)).not.toHaveProperty('kv_events_replay');
  });

  it('is not offered for a history without a size', async () => {
    for (const eventHistory of [-1, 1.5, 1_000_001]) {
      await expect(start({}, { eventHistory })).rejects.toThrow(
        `the simulated engine's event history is ${eventHistory} batches; it must be a whole number from 0 to 1000000`,
      );
    }
  });
});

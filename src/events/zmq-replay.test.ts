import { afterEach, describe, expect, it } from 'vitest';
import { ManualClock, type PointsmanError } from '../plugin/index.ts';
import { FORMS, replayEndpoint } from './replay-endpoint.fixtures.ts';
import { sequenceFrame } from './zmq-frames.ts';
import { type ZmqReplayOptions, zmqReplay } from './zmq-replay.ts';

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function serving(answers: Parameters<typeof replayEndpoint>[0]) {
  const endpoint = await replayEndpoint(answers);
  closers.push(() => endpoint.close());
  return endpoint;
}

/** Asks and collects what is heard until the end. */
function ask(from: number, options: Partial<ZmqReplayOptions> & { readonly endpoint: string }) {
  const heard: string[] = [];
  const errors: string[] = [];
  const clock = new ManualClock(0);
  let end: () => void = () => undefined;
  const replay = zmqReplay({
    clock,
    onError: (error: PointsmanError) => errors.push(`${error.code} ${error.message}`),
    ...options,
  });
  const over = new Promise<string>((resolve) => {
    end = replay.replay(from, {
      batch: (sequence, payload) => heard.push(`${sequence} ${Buffer.from(payload).toString()}`),
      ended: () => resolve('ended'),
      failed: resolve,
    });
  });
  closers.push(end);
  return { heard, errors, clock, over, end };
}

describe('zmqReplay', () => {
  it.each([3, 4] as const)('reads answers of %d frames', async (frames) => {
    const form = FORMS[frames];
    const { endpoint, questions } = await serving((from) => [
      ...Array.from({ length: 200 }, (_, at) => form.batch(from + at)),
      form.end,
    ]);
    const { heard, errors, over } = ask(2 ** 40, { endpoint });
    expect(await over).toBe('ended');
    expect(heard).toEqual(Array.from({ length: 200 }, (_, at) => `${2 ** 40 + at} batch ${2 ** 40 + at}`));
    expect([questions, errors]).toEqual([[2 ** 40], []]);
  });

  it('passes over what is no answer, and says so', async () => {
    const form = FORMS[4];
    const { endpoint } = await serving(() => [
      form.batch(0),
      ['', 'two'],
      ['x', sequenceFrame(1), 'no delimiter'],
      ['', 'kv', 'short', 'batch'],
      form.batch(1),
      form.end,
    ]);
    const { heard, errors, over } = ask(0, { endpoint });
    expect(await over).toBe('ended');
    expect(heard).toEqual(['0 batch 0', '1 batch 1']);
    expect(errors).toEqual([
      `PM_EVENT_MESSAGE KV event replay from ${endpoint}: a message of 2 frames is no answer`,
      `PM_EVENT_MESSAGE KV event replay from ${endpoint}: a message of 3 frames is no answer`,
      `PM_EVENT_MESSAGE KV event replay from ${endpoint}: a sequence number is none of 8 bytes below 2^53`,
    ]);
  });

  it('gives up on a flood of something else, and on an answer without end', async () => {
    const foreign = await serving(() => Array.from({ length: 200 }, () => ['', 'two']));
    const other = ask(0, foreign);
    expect(await other.over).toBe('failed');
    expect(other.errors.length).toBe(100);
    const endless = await serving(() => Array.from({ length: 20 }, (_, at) => FORMS[3].batch(at)));
    const { errors, heard, over } = ask(0, { endpoint: endless.endpoint, maxBatches: 10 });
    expect(await over).toBe('failed');
    expect(heard.length).toBe(10);
    expect(errors).toEqual([
      `PM_EVENT_MESSAGE KV event replay from ${endless.endpoint}: an answer of more than 10 batches was broken off`,
    ]);
  });

  it('waits as long as there are messages, then so long and no longer', async () => {
    const { endpoint } = await serving(() => [FORMS[4].batch(0)]);
    const { clock, heard, over } = ask(0, { endpoint, idleMs: 100 });
    while (heard.length === 0) {
      // A long wait for the first message in real time is none by this clock.
      await new Promise((resolve) => setImmediate(resolve));
    }
    clock.advanceTo(99);
    expect(clock.nextTimerAt()).toBe(100);
    clock.advanceTo(100);
    expect(await over).toBe('timed_out');
    expect(clock.nextTimerAt()).toBe(null);
  });

  it('fails where there is no address, and hears nothing after it was ended', async () => {
    const { errors, over } = ask(0, { endpoint: 'nonsense' });
    expect(await over).toBe('failed');
    expect(errors).toEqual([
      'PM_EVENT_MESSAGE KV event replay from nonsense: asking for missed batches failed: Invalid argument',
    ]);
    const { endpoint, questions } = await serving(() => [FORMS[4].batch(0), FORMS[4].end]);
    const ended = ask(0, { endpoint });
    ended.end();
    ended.end();
    const second = ask(5, { endpoint });
    expect(await second.over).toBe('ended');
    expect([ended.heard, ended.clock.nextTimerAt(), questions]).toEqual([[], null, [5]]);
  });
});

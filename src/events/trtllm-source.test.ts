// When a server is asked for its events, and what becomes of answers that are late, wrong or missing.
import { expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { decodeEventBatch } from './decode-batch.ts';
import { FAILED_POLL_MS, IDLE_POLL_MS, POLL_MS, pollTrtllm } from './trtllm-source.ts';

type Answer = { readonly status: number; readonly text: string } | Error;

function setUp(answers: readonly Answer[], blockSize: number | null = 4) {
  const clock = new ManualClock(1_000_000);
  const askedAt: number[] = [];
  const heard: string[] = [];
  const waiting = [...answers];
  const signals: AbortSignal[] = [];
  const source = pollTrtllm({
    endpoint: 'http://a/kv_cache_events',
    owner: 3,
    clock,
    blockSizeOf: () => blockSize,
    sink: {
      onBatch: (owner, sequence, payload) => {
        const { events, timestamp } = decodeEventBatch(payload);
        heard.push(`${owner} #${sequence} at ${timestamp}: ${events.map(({ kind }) => kind).join()}`);
      },
    },
    onConnection: (connected) => heard.push(connected ? 'connected' : 'cut'),
    onError: ({ message }) => heard.push(message),
    poll: async (_, signal) => {
      askedAt.push(clock.now() - 1_000_000);
      signals.push(signal);
      const answer = waiting.shift() ?? { status: 200, text: '[]' };
      if (answer instanceof Error) throw answer;
      return answer;
    },
  });
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  };
  const pass = async (ms: number): Promise<void> => {
    const end = clock.now() + ms;
    await settle();
    for (let at = clock.nextTimerAt(); at !== null && at <= end; at = clock.nextTimerAt()) {
      clock.advanceTo(at);
      await settle();
    }
    clock.advanceTo(end);
  };
  return { askedAt, heard, pass, source, signals };
}

const CREATED =
  '[{"event_id":0,"data":{"type":"created"}},{"event_id":1,"data":{"type":"removed","block_hashes":[1]}}]';

it('an answer goes on event by event, and a server without news is asked less and less often', async () => {
  const { askedAt, heard, pass, source } = setUp([{ status: 200, text: CREATED }]);
  await pass(3_000);
  expect(heard).toEqual(['connected', '3 #0 at 1000: ', '3 #1 at 1000: removed']);
  const pauses = askedAt.slice(1).map((at, index) => at - (askedAt[index] ?? 0));
  expect(pauses[0]).toBe(POLL_MS);
  expect(pauses.every((pause, at) => pause >= (pauses[at - 1] ?? 0))).toBe(true);
  expect(pauses.at(-1)).toBe(IDLE_POLL_MS);
  source.close();
  const { length } = askedAt;
  await pass(2_000);
  expect(askedAt).toHaveLength(length);
});

it('failures are said, and asked again after a pause', async () => {
  const { askedAt, heard, pass, source } = setUp([
    new Error('refused'),
    { status: 404, text: '' },
    { status: 200, text: 'x' },
    { status: 200, text: '[{}]' },
  ]);
  await pass(2 * FAILED_POLL_MS + 2 * IDLE_POLL_MS);
  expect(askedAt.slice(0, 3)).toEqual([0, FAILED_POLL_MS, 2 * FAILED_POLL_MS]);
  expect(heard).toEqual([
    'KV events from http://a/kv_cache_events: refused',
    'KV events from http://a/kv_cache_events: the server answered with status 404',
    'connected',
    'KV events from http://a/kv_cache_events: the answer of /kv_cache_events is not JSON',
    'KV events from http://a/kv_cache_events: an event has no event_id that is a whole number',
  ]);
  source.close();
});

it('nothing is asked while the block size is not known, as nothing could be made of the answer', async () => {
  const { askedAt, heard, pass, source } = setUp([], null);
  await pass(2_000);
  expect([askedAt, heard]).toEqual([[], []]);
  source.close();
});

it('closing ends a question under way', async () => {
  const { signals, source } = setUp([]);
  source.close();
  expect(signals[0]?.aborted).toBe(true);
});

// A router in front of recorded exchanges with trtllm-serve that it asks for KV events: the queue is emptied by each question.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../src/config/index.ts';
import { router, until } from './live-support.ts';

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), 'utf8'));
const EXCHANGES: Readonly<Record<string, { readonly answer: string }>> = read('trtllm-exchanges');
const EVENTS: Readonly<Record<string, string>> = read('trtllm-kv-events');

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Plays the server. */
async function trtllm() {
  const queue: string[] = [];
  const state = { polls: 0, down: false };
  const answers: Readonly<Record<string, string | undefined>> = {
    '/health': '',
    '/version': EXCHANGES.version?.answer,
    '/v1/models': EXCHANGES.models?.answer,
    '/v1/completions': EXCHANGES.completion?.answer,
  };
  const server = createServer((request, response) => {
    request.resume();
    const path = request.url ?? '';
    const isPoll = path === '/kv_cache_events' && request.method === 'POST';
    if (isPoll) state.polls += 1;
    const text = isPoll ? (queue.shift() ?? '[]') : answers[path];
    response.writeHead(text === undefined ? 404 : isPoll && state.down ? 500 : 200, {
      'content-type': 'application/json',
    });
    response.end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}`, queue, state };
}

const yaml = (
  worker: string,
  model = '{ served_as: tiny-sim, block_size: 4, tokens: { source: estimate } }',
) => `
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models: { tiny: ${model} }
workers:
  - ${worker}
`;

describe('events that are asked for', () => {
  it('fill the index, are marked where some are missing, and are asked for again when the server is back', async () => {
    const { queue, state, url } = await trtllm();
    queue.push(EVENTS.start ?? '', EVENTS.stored ?? '', EVENTS.grown ?? '');
    const running = await router(
      yaml(`{ id: 1, url: "${url}", dialect: trtllm, kv_events: { 0: { poll: true } } }`),
    );
    const { core } = running;
    const [worker] = core.fleet.workers();
    const slot = worker?.slots[0] ?? -1;
    await until('its three blocks are known', () => core.index?.blocksOf(slot)[0] === 3);
    expect(worker?.approximate?.size ?? 0).toBe(0);
    expect(running.readiness().warnings).toEqual([]);
    expect(core.events?.feed(slot)).toMatchObject({ lastSequence: 5, stale: false });

    queue.push('[{"event_id":9,"data":{"type":"removed","block_hashes":[5]}}]');
    await until('a gap is seen', () => core.events?.feed(slot)?.lastSequence === 9);
    expect(core.events?.feed(slot)).toMatchObject({ missedBatches: 3, stale: true });
    expect(core.index?.blocksOf(slot)[0]).toBe(2);

    state.down = true;
    await until('the router sees that nobody answers', () =>
      running.readiness().warnings.some((warning) => warning.includes('/kv_cache_events are not connected')),
    );
    state.down = false;
    await until('it asks again', () =>
      running.readiness().warnings.every((warning) => !warning.includes('not connected')),
    );
    const { polls } = state;
    await running.stop(0);
    expect(state.polls - polls).toBeLessThan(1_000);
  });

  it('are left alone where nobody says that this router may have them', async () => {
    const { queue, state, url } = await trtllm();
    queue.push(EVENTS.start ?? '');
    const { core } = await router(yaml(`{ id: 1, url: "${url}", dialect: trtllm }`));
    await until('the worker is known', () => core.fleet.workers()[0]?.engine?.dialect === 'trtllm');
    expect([state.polls, core.fleet.workers()[0]?.approximate?.get(0)]).toEqual([0, 'not_announced']);
  });
});

it.each([
  [
    '{ url: "http://a", dialect: vllm, kv_events: { 0: { poll: true } } }',
    'events are asked for from workers with dialect: trtllm alone, not vllm; give the address where the engine publishes as connect',
  ],
  [
    '{ url: "http://a", dialect: trtllm, kv_events: { 0: { poll: true, connect: "tcp://a:1" } } }',
    'events are asked for at the url of the worker; leave out connect, bind, replay and topic',
  ],
])('poll is refused: %s', (worker, sentence) => {
  expect(() => parseConfig(yaml(worker), 'router.yaml')).toThrow(sentence);
});

it('poll is refused without a block size', () => {
  const worker = '{ url: "http://a", dialect: trtllm, kv_events: { 0: { poll: true } } }';
  expect(() => parseConfig(yaml(worker, '{ tokens: { source: estimate } }'), 'router.yaml')).toThrow(
    'needs block_size of the model: TensorRT-LLM announces partly filled blocks too, and does not say how long a full one is (its tokens_per_block)',
  );
});

// The built router over prefill and decode engines in processes of their own: what clients see of the handoff, which is nothing, and what
// is left in the engines when a process is killed or a client leaves.
import { afterAll, describe, expect, it } from 'vitest';
import type { DecisionRecord } from '../src/observe/index.ts';
import {
  eventually,
  metric,
  promptOf,
  type Serving,
  serve,
  simulators,
  stopAll,
} from './support/live-processes.ts';

afterAll(stopAll);

type Kind = 'nixl' | 'nixl_push' | 'mooncake' | 'bootstrap';

async function fleet(handoff: Kind, ...args: string[]) {
  const shape = ['--handoff', handoff, '--handoff-timeout-ms', '3000', ...args];
  const prefill = await simulators(1, '--role', 'prefill', ...shape);
  const decode = await simulators(1, '--role', 'decode', ...shape);
  const workers = [prefill, decode].map(
    ({ engines }, index) =>
      `  - { id: ${index + 1}, model: tiny, url: "${engines[0]?.url}", dialect: sim, role: ${index === 0 ? 'prefill' : 'decode'} }`,
  );
  const router = await serve({
    'router.yaml': `models: { tiny: { served_as: tiny-sim, block_size: 16, tokens: { source: estimate } } }
workers:
${workers.join('\n')}
`,
  });
  return { prefill, decode, router, urls: [prefill, decode].map(({ engines }) => engines[0]?.url ?? '') };
}

function ask({ url }: Serving, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', max_tokens: 4, ...body }),
    ...(signal && { signal }),
  });
}

async function legsOf({ admin }: Serving, requestId: string): Promise<DecisionRecord[]> {
  return eventually(`both legs of ${requestId} are recorded`, async () => {
    const answer = await fetch(`${admin}/decisions?request=${requestId}`);
    const records = JSON.parse(await answer.text()) as DecisionRecord[];
    return records.length === 2 && records.every(({ outcome }) => outcome !== null) ? records : undefined;
  });
}

/** Requests in an engine, the share of its blocks in use, and prefills that wait for another engine. */
const HELD = [
  'vllm:num_requests_running{model_name="tiny-sim"}',
  'vllm:num_requests_waiting{model_name="tiny-sim"}',
  'vllm:kv_cache_usage_perc{model_name="tiny-sim"}',
  'pointsman_sim_handoffs{model_name="tiny-sim"}',
] as const;

function held(url: string): Promise<number[]> {
  return Promise.all(HELD.map((line) => metric(url, line)));
}

/** The decode engine has taken room for the prompt. */
async function blocksAreComing(decodeUrl: string): Promise<void> {
  await eventually('the blocks are on their way', async () =>
    (await metric(decodeUrl, HELD[2])) > 0 ? true : undefined,
  );
}

async function nothingIsLeft(router: Serving, urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    await eventually(`${url} holds nothing`, async () =>
      (await held(url)).every((count) => count === 0) ? true : undefined,
    );
  }
  expect(await metric(router.admin, 'pointsman_bookings_active')).toBe(0);
}

describe.each<Kind>(['nixl', 'nixl_push', 'mooncake', 'bootstrap'])('a fleet by %s', (kind) => {
  it('answers whole and as a stream, with the cached tokens of the prefill and no word of the handoff', async () => {
    // Slow enough for the prefill's answer to be there before that of the decode leg ends.
    const { router, urls } = await fleet(kind, '--speed', '1');
    const prompt = promptOf(1, 100);
    const first = await ask(router, { prompt });
    const text = await first.text();
    expect(first.status).toBe(200);
    expect(text).not.toMatch(/kv_transfer_params|remote_|bootstrap|prefill/);
    expect(JSON.parse(text)).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { prompt_tokens: 100, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } },
    });
    expect([...first.headers].filter(([name]) => /remote|bootstrap|prefill|kv/.test(name))).toEqual([]);
    const again = await ask(router, { prompt, stream: true, stream_options: { include_usage: true } });
    const events = (await again.text()).trim().split('\n\n');
    expect(events.at(-1)).toBe('data: [DONE]');
    expect(events.join()).not.toMatch(/kv_transfer_params|remote_|bootstrap|prefill/);
    // The decode engine would say 99: it got all of them.
    expect(JSON.parse((events.at(-2) ?? '').replace('data: ', ''))).toMatchObject({
      choices: [],
      usage: { completion_tokens: 4, prompt_tokens_details: { cached_tokens: 96 } },
    });
    const legs = await legsOf(router, again.headers.get('x-request-id') ?? '');
    expect(legs.map(({ role, pick }) => `${role} ${pick.worker_id}`)).toEqual(['prefill 1', 'decode 2']);
    expect(legs.map(({ handoff }) => handoff?.kind)).toEqual([kind, kind]);
    expect(legs[1]?.handoff?.other?.decision_id).toBe(legs[0]?.id);
    await nothingIsLeft(router, urls);
  });

  it('fails the request when the decode process is killed, and the blocks are let go', async () => {
    // A second of transfer: 100 tokens of 1.25 MB at 1 Gbit/s.
    const slow = ['--speed', '1', '--nic-gbps', '1', '--kv-bytes-per-token', '1250000'];
    const { decode, router, urls } = await fleet(kind, ...slow);
    const answer = ask(router, { prompt: promptOf(1, 100) });
    await blocksAreComing(urls[1] ?? '');
    decode.kill();
    expect((await answer).status).toBe(502);
    await nothingIsLeft(router, urls.slice(0, 1));
  });

  it('fails the request when the prefill process is killed, and the blocks are let go', async () => {
    const slow = ['--speed', '1', '--nic-gbps', '1', '--kv-bytes-per-token', '1250000'];
    const { prefill, router, urls } = await fleet(kind, ...slow);
    const answer = ask(router, { prompt: promptOf(1, 100) });
    await blocksAreComing(urls[1] ?? '');
    prefill.kill();
    // Either the router loses the prefill leg, or the decode engine says that nothing comes.
    expect([502, 503]).toContain((await answer).status);
    await nothingIsLeft(router, urls.slice(1));
  });

  it('keeps nothing for a client that leaves while its blocks are on their way', async () => {
    const slow = ['--speed', '1', '--nic-gbps', '1', '--kv-bytes-per-token', '1250000'];
    const { router, urls } = await fleet(kind, ...slow);
    const leaving = new AbortController();
    const answer = ask(router, { prompt: promptOf(1, 100), max_tokens: 1000 }, leaving.signal);
    await blocksAreComing(urls[1] ?? '');
    leaving.abort();
    await expect(answer).rejects.toThrow();
    await nothingIsLeft(router, urls);
  });
});

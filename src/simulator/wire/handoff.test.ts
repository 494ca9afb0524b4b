// Handoffs between engines on the wire: the fields of vLLM and SGLang over HTTP, the claim over the control channel.
import { afterEach, describe, expect, it } from 'vitest';
import { hashesOfPrompt, listen, metric, metricBecomes, post, start, stopAll } from './wire.fixtures.ts';

afterEach(stopAll);

const PROMPT = Array.from({ length: 18 }, (_, index) => 50 + index);
const USAGE = 'vllm:kv_cache_usage_perc{model_name="tiny-sim"}';
const HANDOFFS = 'pointsman_sim_handoffs{model_name="tiny-sim"}';

async function pair(handoffTimeoutMs = 60_000) {
  const [prefill] = (await start({ role: 'prefill', handoffTimeoutMs })).engines;
  const [decode] = (await start({ role: 'decode', handoffTimeoutMs })).engines;
  if (prefill === undefined || decode === undefined) throw new Error('two engines were started');
  return { prefill, decode };
}

async function ask(url: string, body: object): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await post(
    `${url}/v1/completions`,
    { prompt: PROMPT, max_tokens: 3, ...body },
    { 'x-request-id': 'r1' },
  );
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

describe('a handoff by the answer of the prefill', () => {
  it('says where the blocks are, and the decode engine announces them under the same hashes', async () => {
    const { prefill, decode } = await pair();
    const heard = [await listen(prefill.kv_events), await listen(decode.kv_events)];
    const first = await ask(prefill.url, {
      max_tokens: 1,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    });
    const params = first.body.kv_transfer_params as Record<string, unknown>;
    const control = new URL(prefill.control);
    expect(params).toMatchObject({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_engine_id: prefill.epoch,
      remote_request_id: 'r1',
      remote_host: control.hostname,
      remote_port: Number(control.port),
      remote_num_tokens: 18,
      tp_size: 1,
    });
    expect(params.remote_block_ids).toHaveLength(5);
    expect(await metric(prefill.url, HANDOFFS)).toBe(1);
    const second = await ask(decode.url, { kv_transfer_params: params });
    expect(second).toMatchObject({
      status: 200,
      body: { usage: { completion_tokens: 3, prompt_tokens_details: { cached_tokens: 17 } } },
    });
    expect(second.body).not.toHaveProperty('kv_transfer_params');
    await metricBecomes(prefill.url, HANDOFFS, 0);
    await metricBecomes(prefill.url, USAGE, 0);
    await metricBecomes(decode.url, USAGE, 0);
    const [given, taken] = await Promise.all(
      heard.map(({ until }) => until((events) => hashesOfPrompt(events, PROMPT).length === 4)),
    );
    expect(hashesOfPrompt(taken ?? [], PROMPT)).toEqual(hashesOfPrompt(given ?? [], PROMPT));
    // The blocks are gone: the same again finds nothing.
    const late = await ask(decode.url, { kv_transfer_params: params });
    expect(late).toMatchObject({
      status: 503,
      body: { error: { message: 'the KV of this request was not handed over: nothing_held' } },
    });
  });

  it('lets the blocks go at the timeout', async () => {
    const { prefill } = await pair(50);
    await ask(prefill.url, { max_tokens: 1, kv_transfer_params: { do_remote_decode: true } });
    await metricBecomes(prefill.url, HANDOFFS, 0);
    await metricBecomes(prefill.url, USAGE, 0);
  });

  it('names what is wrong with its fields', async () => {
    const { prefill, decode } = await pair();
    const sentence = async (url: string, params: object): Promise<unknown> => {
      const { body, status } = await ask(url, { kv_transfer_params: params });
      expect(status).toBe(400);
      return (body.error as { message: string }).message;
    };
    expect(await sentence(decode.url, { do_remote_decode: true })).toBe(
      'this engine has the role decode and takes no prefill leg',
    );
    expect(await sentence(prefill.url, { do_remote_decode: true, do_remote_prefill: true })).toBe(
      'do_remote_decode and do_remote_prefill cannot both be true',
    );
    expect(
      await sentence(decode.url, { do_remote_prefill: true, remote_host: 'h', remote_port: 70_000 }),
    ).toBe('remote_port must be a whole number from 0 to 65535');
  });
});

describe('a handoff in a room', () => {
  it('goes on once both are there, and tells what was cached where it was computed', async () => {
    const { prefill, decode } = await pair();
    const control = new URL(prefill.control);
    for (const [round, cached] of [
      [0, 0],
      [1, 16],
    ] as const) {
      const room = {
        bootstrap_host: control.hostname,
        bootstrap_port: Number(control.port),
        bootstrap_room: 7 + round,
      };
      const [first, second] = await Promise.all([
        ask(prefill.url, { max_tokens: 1, ...room }),
        ask(decode.url, { ...room, disagg_prefill_dp_rank: 0 }),
      ]);
      expect([first.status, second.status]).toEqual([200, 200]);
      expect(second.body).toMatchObject({
        usage: { completion_tokens: 3, prompt_tokens_details: { cached_tokens: cached } },
      });
    }
    for (const { url } of [prefill, decode]) await metricBecomes(url, USAGE, 0);
  });
});

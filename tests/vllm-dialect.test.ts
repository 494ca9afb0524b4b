// The router in front of doubles of vLLM: what reaches them byte by byte, what comes back, and what is never sent.
import { afterEach, describe, expect, it } from 'vitest';
import type { DoubleRequest } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { router, until, words } from './live-support.ts';
import { EVENTS, stopDoubles, vllm } from './support/vllm-doubles.ts';

afterEach(stopDoubles);

const TOLD = ['--enable-prompt-tokens-details', '--kv-events-config', EVENTS];

interface Engine {
  readonly url: string;
  readonly kvEvents: readonly { readonly address: string; readonly replay: string | null }[];
}

/** `router.yaml` over doubles; `worker` are further members of each. */
function yaml(engines: readonly Engine[], worker: (at: number) => string = () => '', extra = ''): string {
  const workers = engines.map(({ kvEvents, url }, at) => {
    const events = kvEvents.map(
      ({ address, replay }, rank) => `${rank}: { connect: "${address}", replay: "${replay}" }`,
    );
    return `  - { id: ${at + 1}, url: "${url}", kv_events: { ${events.join(', ')} }${worker(at)} }`;
  });
  return `${extra}
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models:
  tiny:
    served_as: tiny-sim
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
${workers.join('\n')}
`;
}

const post = async (url: string, path: string, body: object, headers: Record<string, string> = {}) => {
  const answer = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, text, json: (): unknown => JSON.parse(text) };
};
const generating = (requests: readonly DoubleRequest[]): DoubleRequest[] =>
  requests.filter(({ path }) => path.endsWith('completions'));
const sentTo = (double: { requests(): readonly DoubleRequest[] }): string[] =>
  generating(double.requests()).map(({ body }) => body.toString());
const workersOf = async ({ adminUrl }: { adminUrl: string }): Promise<Record<string, unknown>[]> => {
  const answer: unknown = await (await fetch(`${adminUrl}/workers`)).json();
  return Array.isArray(answer) ? answer : [];
};
const cachedOf = ({ json }: { json: () => unknown }): number | undefined =>
  (json() as { usage?: { prompt_tokens_details?: { cached_tokens?: number } | null } }).usage
    ?.prompt_tokens_details?.cached_tokens;

describe('a worker of dialect auto', () => {
  it('is recognized as vLLM, and fills what configuration leaves open with what it says', async () => {
    const double = await vllm([...TOLD, '--num-gpu-blocks-override', '500', '--max-model-len', '2048']);
    const running = await router(yaml([double]));
    const [worker] = await workersOf(running);
    expect(worker).toMatchObject({
      state: 'ready',
      dialect: 'auto',
      capabilities: null,
      engine: {
        dialect: 'vllm',
        version: '0.20.0',
        models: ['tiny-sim'],
        block_size: 4,
        total_kv_blocks: 500,
        max_model_length: 2048,
        ranks: 1,
        prefix_caching: true,
        kv_events: null,
      },
    });
    expect(running.core.blockSizes.ofModel('tiny')).toBe(4);
    expect(running.readiness()).toMatchObject({ reasons: [] });
  });

  it('is sent exactly what it hashes, and its events make the second turn a hit that it reports', async () => {
    const double = await vllm(TOLD);
    const running = await router(yaml([double]));
    const prompt = words(40, 1);
    const body = { model: 'tiny', prompt, max_tokens: 1, temperature: 0 };
    expect((await post(running.url, '/v1/completions', body)).status).toBe(200);
    const [sent = ''] = sentTo(double);
    expect(sent).toMatch(
      /^\{"prompt":\[[0-9,]+\],"model":"tiny-sim","max_tokens":1,"temperature":0,"stream":false\}$/,
    );
    const slot = running.core.fleet.slotOf(1n, 0);
    await until('its blocks are known', () => (running.core.index?.blocksOf(slot)[0] ?? 0) >= 10);
    const again = await post(running.url, '/v1/completions', {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(again.text).toContain('"prompt_tokens_details":{"cached_tokens":');
    const last = again.text.split('\n\n').at(-3) ?? '';
    expect(last).toMatch(/"choices":\[\],"usage":/);
  });
});

describe('what is sent', () => {
  it('pins the rank, and each rank’s events are its own', async () => {
    const double = await vllm([...TOLD, '--data-parallel-size', '2']);
    const running = await router(yaml([double], () => ', dialect: vllm, ranks: { count: 2 }'));
    const sentRanks = () =>
      generating(double.requests()).map(({ headers }) => headers['x-data-parallel-rank']);
    // Equal costs are settled at random, so any number of requests may go to one rank: as many as it takes, and 64 never do.
    for (let seed = 1; seed <= 64 && new Set(sentRanks()).size < 2; seed += 1)
      await post(running.url, '/v1/completions', { model: 'tiny', prompt: words(40, seed), max_tokens: 1 });
    const ranks = sentRanks();
    expect([...new Set(ranks)].sort()).toEqual(['0', '1']);
    const { core } = running;
    const blocks = (rank: number) => core.index?.blocksOf(core.fleet.slotOf(1n, rank))[0] ?? 0;
    await until('both ranks tell their blocks', () => blocks(0) > 0 && blocks(1) > 0);
    const page = await (await fetch(`${double.url}/metrics`)).text();
    const prompts = [0, 1].map((rank) =>
      Number(new RegExp(`prompt_tokens_total\\{engine="${rank}"[^}]*\\} (\\S+)`).exec(page)?.[1]),
    );
    expect(prompts).toEqual(
      [0, 1].map((rank) => ranks.filter((named) => named === String(rank)).length * 40),
    );
  });

  it('carries a priority the way round vLLM has it, and names the flag when the server has none', async () => {
    const trusting = 'router: { trust_routing_fields_from: ["127.0.0.0/8"] }';
    const stock = await vllm();
    const able = await vllm(['--scheduling-policy', 'priority']);
    const body = { model: 'tiny', prompt: 'hello', max_tokens: 1, nvext: { agent_hints: { priority: 3 } } };
    const refusing = await router(yaml([stock], () => ', dialect: vllm', trusting));
    const refused = await post(refusing.url, '/v1/completions', body);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(
      'Got priority -3 but Priority scheduling is not enabled. (the priority is one that the router passed on: start vLLM with --scheduling-policy priority, or set router.agents.forward_priority to false)',
    );
    const taking = await router(yaml([able], () => ', dialect: vllm', trusting));
    expect((await post(taking.url, '/v1/completions', body)).status).toBe(200);
    expect(sentTo(able)[0]).toContain('"priority":-3');
  });

  it('relays refusals as they are', async () => {
    const double = await vllm(['--max-model-len', '64']);
    const running = await router(yaml([double]));
    const answer = await post(running.url, '/v1/completions', {
      model: 'tiny',
      prompt: words(70, 1),
      max_tokens: 1,
    });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain("This model's maximum context length is 64 tokens.");
  });

  it('keeps salted prompts apart as vLLM does, and knows them again', async () => {
    const double = await vllm(TOLD);
    const running = await router(yaml([double]));
    const ask = (salt: string) =>
      post(running.url, '/v1/completions', {
        model: 'tiny',
        prompt: words(40, 5),
        max_tokens: 1,
        cache_salt: salt,
      });
    expect([cachedOf(await ask('a')), cachedOf(await ask('a')), cachedOf(await ask('b'))]).toEqual([
      0, 36, 0,
    ]);
  });
});

describe('hints', () => {
  const advertised = (over: string) => `, dialect: vllm, capabilities: {
    protocol_versions: ["0.1"], epoch: fixed, model: tiny-sim, worker_type: aggregated, block_size: 4,
    hash_scheme: vllm/sha256, reports_outcomes: false, ranks: { "0": { router_hint: true${over} } } }`;
  const trusting = 'router: { trust_incoming_hints_from: ["127.0.0.0/8"] }';
  const fetch = {
    action_id: 'a1',
    action_type: 'kv.fetch',
    action_version: '1.0',
    payload: { source_control_endpoint: 'tcp://127.0.0.1:9', block_hashes: [1, 2] },
  };
  const strange = { action_id: 'a2', action_type: 'acme.pin', action_version: '1.0', payload: { x: 1 } };
  const hint = { protocol_version: '0.1', message_id: 'm', actions: [fetch, strange] };
  const FETCHED = '{"source_control_endpoint":"tcp://127.0.0.1:9","block_hashes":[1,2]}';
  const ENVELOPE =
    `"kv_transfer_params":{"kv_hint":{"protocol_version":"0.1","message_id":"m","actions":[` +
    `{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":${FETCHED}},` +
    `{"action_id":"a2","action_type":"acme.pin","action_version":"1.0","payload":{"x":1}}]}}`;
  const body = { model: 'tiny', prompt: words(40, 9), max_tokens: 1, kv_transfer_params: { kv_hint: hint } };

  it('reach a tier that declared them, byte by byte, which skips what it does not know', async () => {
    const double = await vllm(TOLD, { hints: 'envelope' });
    const running = await router(yaml([double], () => advertised(''), trusting));
    expect((await post(running.url, '/v1/completions', body)).status).toBe(200);
    expect(sentTo(double)[0]).toContain(ENVELOPE);
    expect(double.hintOutcomes()).toMatchObject([
      [{ action_id: 'a1' }, { action_id: 'a2', outcome: 'rejected', reason: 'unsupported' }],
    ]);
  });

  it('reach an older tier as the payload of the copy alone', async () => {
    const double = await vllm(TOLD, { hints: 'legacy' });
    const running = await router(yaml([double], () => `${advertised('')}, kv_hint_form: legacy`, trusting));
    expect((await post(running.url, '/v1/completions', body)).status).toBe(200);
    expect(sentTo(double)[0]).toContain(`"kv_transfer_params":{"router_hint":${FETCHED}}`);
    expect(double.hintOutcomes()).toMatchObject([[{ action_id: 'a1' }]]);
  });

  it('are limited to the actions that were declared', async () => {
    const double = await vllm(TOLD, { hints: 'envelope' });
    const running = await router(yaml([double], () => advertised(', actions: ["kv.fetch@1.0"]'), trusting));
    await post(running.url, '/v1/completions', body);
    const known = { ...body, kv_transfer_params: { kv_hint: { ...hint, actions: [fetch] } } };
    await post(running.url, '/v1/completions', known);
    const [undeclared, declared] = sentTo(double);
    // A caller's envelope is taken whole or not at all.
    expect(undeclared).not.toContain('kv_transfer_params');
    expect(declared).toContain(`"payload":${FETCHED}}]}}`);
  });

  it('never reach a worker that declared nothing', async () => {
    const double = await vllm(TOLD, { hints: 'envelope' });
    const running = await router(yaml([double], () => ', dialect: vllm', trusting));
    expect((await post(running.url, '/v1/completions', body)).status).toBe(200);
    expect(sentTo(double)[0]).not.toContain('kv_transfer_params');
    expect(double.hintOutcomes()).toEqual([]);
  });
});

describe('prefill and decode', () => {
  it('hand a prompt over through what the prefill answers, relayed unchanged', async () => {
    const connector = ['--kv-transfer-config', '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'];
    const [prefill, decode] = [await vllm([...TOLD, ...connector]), await vllm([...TOLD, ...connector])];
    const roles = ['prefill', 'decode'];
    const running = await router(yaml([prefill, decode], (at) => `, dialect: vllm, role: ${roles[at]}`));
    const body = { model: 'tiny', prompt: words(40, 11), max_tokens: 3 };
    const answer = await post(running.url, '/v1/completions', body);
    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject({ usage: { prompt_tokens: 40, completion_tokens: 3 } });
    expect(cachedOf(answer)).toBe(0);
    expect(answer.text).not.toContain('remote_engine_id');
    const [first = ''] = sentTo(prefill);
    expect(first).toContain('"kv_transfer_params":{"do_remote_decode":true');
    expect(JSON.parse(first)).toMatchObject({ max_tokens: 1, stream: false });
    const [second = ''] = sentTo(decode);
    expect(JSON.parse(second)).toMatchObject({
      max_tokens: 3,
      kv_transfer_params: {
        do_remote_prefill: true,
        remote_num_tokens: 40,
        remote_port: Number(new URL(prefill.control[0] ?? '').port),
      },
    });
    const ids = generating([...prefill.requests(), ...decode.requests()]).map(
      ({ headers }) => headers['x-request-id'],
    );
    expect(new Set(ids).size).toBe(1);
  });
});

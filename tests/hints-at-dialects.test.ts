// What becomes of one envelope at the engine of every dialect: the bytes that arrive, an unknown action that does no harm, and nothing at
// all where the worker did not declare that it takes hints. Tests of each dialect have the rarer forms.
import { readFileSync } from 'node:fs';
import { request as ask, createServer } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { startDouble } from '../src/cli/sim-doubles.ts';
import { systemClock } from '../src/cli/system-clock.ts';
import { DIALECTS } from '../src/engines/index.ts';
import { createBlockHasher } from '../src/kv/index.ts';
import { DEFAULT_ENGINE_SETTINGS, startSimulators } from '../src/simulator/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { router } from './live-support.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A server in front of an engine that writes down what comes. */
async function recorded(url: string) {
  const bodies: string[] = [];
  const { hostname, port } = new URL(url);
  const server = createServer((incoming, response) => {
    const { headers, method, url: path } = incoming;
    const onward = ask({ hostname, port, path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    const parts: Buffer[] = [];
    incoming.on('data', (part: Buffer) => parts.push(part));
    incoming.on('end', () => {
      if (/completions|generate/.test(path ?? '')) bodies.push(Buffer.concat(parts).toString());
      onward.end(Buffer.concat(parts));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    bodies,
  };
}

async function simulated(): Promise<string> {
  const { close, engines } = await startSimulators({
    ...{ count: 1, port: 0, hasher: createBlockHasher(), clock: systemClock(), maxBodyBytes: 1_000_000 },
    ...{ eventHistory: 100, eventReplayFrames: 4, eventFaults: null, restarts: [], warn: () => undefined },
    settings: { ...DEFAULT_ENGINE_SETTINGS, model: 'tiny-sim', speedup: 1000 },
  });
  closers.push(() => close(0));
  return engines[0]?.url ?? '';
}

async function played(
  shape: 'vllm' | 'sglang' | 'llamacpp',
  args: readonly string[],
  hints: 'none' | 'envelope' | 'legacy',
): Promise<string> {
  const { close, engines } = await startDouble(shape, [...args, '--port', '0'], {
    ...{ hints, eventWire: 'map', hashSeed: 0, seed: 0, speed: 1000, bodyBytes: 1_000_000 },
    warn: () => undefined,
  });
  closers.push(() => close(0));
  return engines[0]?.url ?? '';
}

/** The recorded exchanges of TensorRT-LLM, which takes the retention and nothing else. */
async function trtllm(): Promise<string> {
  const exchanges: Readonly<Record<string, { readonly answer: string }>> = JSON.parse(
    readFileSync(new URL('./fixtures/trtllm-exchanges.json', import.meta.url), 'utf8'),
  );
  const answers: Readonly<Record<string, string | undefined>> = {
    '/health': '',
    '/version': exchanges.version?.answer,
    '/v1/models': exchanges.models?.answer,
    '/v1/completions': exchanges.retention?.answer,
  };
  const server = createServer((incoming, response) => {
    incoming.resume();
    const text = answers[incoming.url ?? ''];
    response.writeHead(text === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
}

const FETCHED = '{"source_control_endpoint":"tcp://127.0.0.1:9","block_hashes":[1,18446744073709551615]}';
const ACTIONS = [
  '{"action_id":"a1","action_type":"acme.pin","action_version":"1.0","payload":{"x":1}}',
  `{"action_id":"a2","action_type":"kv.fetch","action_version":"1.0","payload":${FETCHED}}`,
  '{"action_id":"a3","action_type":"kv.retain","action_version":"1.1","payload":{"scope":null,"directives":[{"start":0,"end":16,"priority":90,"duration":30}]}}',
  '{"action_id":"a4","action_type":"kv.evict","action_version":"1.0","payload":{"block_hashes":[18446744073709551615],"execute_at":"request_completion"}}',
];
const ENVELOPE = `{"protocol_version":"0.1","message_id":"m","actions":[${ACTIONS.join()}]}`;
const RETENTION =
  '{"token_range_retention_configs":[{"token_start":0,"token_end":16,"priority":90,"duration_ms":30000}],"decode_retention_priority":35,"decode_duration_ms":null}';

interface Case {
  readonly dialect: string;
  readonly form: 'envelope' | 'legacy';
  readonly start: () => Promise<string>;
  /** What arrives; null = nothing. */
  readonly bytes: string | null;
  /** Outcome and reason of each action, as far as they are known with the answer. */
  readonly outcomes: Readonly<Record<string, string>>;
}

const left = (...ids: string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(ids.map((id) => [id, 'rejected not_in_dialect']));
const SGLANG = ['--model-path', 'tiny-sim', '--page-size', '16'];
const LLAMA = ['-m', 'm.gguf', '--alias', 'tiny-sim', '-c', '4096'];

const CASES: readonly Case[] = [
  {
    ...{ dialect: 'sim', form: 'envelope', start: simulated },
    bytes: `"kv_transfer_params":{"kv_hint":${ENVELOPE}}`,
    outcomes: { a1: 'rejected unsupported' },
  },
  {
    ...{ dialect: 'vllm', form: 'envelope', start: () => played('vllm', [], 'envelope') },
    bytes: `"kv_transfer_params":{"kv_hint":${ENVELOPE}}`,
    outcomes: {},
  },
  {
    ...{ dialect: 'vllm', form: 'legacy', start: () => played('vllm', [], 'legacy') },
    bytes: `"kv_transfer_params":{"router_hint":${FETCHED}}`,
    outcomes: left('a1', 'a3', 'a4'),
  },
  {
    ...{ dialect: 'sglang', form: 'envelope', start: () => played('sglang', SGLANG, 'envelope') },
    bytes: `"kv_hints":${ENVELOPE}`,
    outcomes: {},
  },
  {
    ...{ dialect: 'sglang', form: 'legacy', start: () => played('sglang', SGLANG, 'legacy') },
    bytes: `"kv_router_hint":${FETCHED}`,
    outcomes: left('a1', 'a3', 'a4'),
  },
  {
    ...{ dialect: 'trtllm', form: 'envelope', start: trtllm },
    bytes: `"kv_cache_retention_config":${RETENTION}`,
    outcomes: left('a1', 'a2', 'a4'),
  },
  {
    ...{ dialect: 'llamacpp', form: 'envelope', start: () => played('llamacpp', LLAMA, 'none') },
    bytes: null,
    outcomes: left('a1', 'a2', 'a3', 'a4'),
  },
];

const DECLARED = `{ protocol_versions: ["0.1"], epoch: fixed, model: tiny-sim, worker_type: aggregated, block_size: 16,
    hash_scheme: x, reports_outcomes: true, ranks: { "0": { router_hint: true } } }`;

/** Sends one request with the envelope. @returns what arrived, without the prompt, and what the decision record says of the hint. */
async function send({ dialect, form, start }: Case, capabilities: string) {
  const engine = await recorded(await start());
  const running = await router(`
router: { trust_incoming_hints_from: ["127.0.0.0/8"] }
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
  - { url: "${engine.url}", dialect: ${dialect}, kv_hint_form: ${form}, capabilities: ${capabilities} }
`);
  const answer = await fetch(`${running.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"model":"tiny","prompt":"on town and goods","max_tokens":1,"kv_transfer_params":{"kv_hint":${ENVELOPE}}}`,
  });
  await answer.text();
  const [record] = running.core.decisions?.list(1, {}) ?? [];
  return { status: answer.status, bodies: engine.bodies, record };
}

it('has every dialect', () => {
  expect(new Set(CASES.map(({ dialect }) => dialect))).toEqual(new Set(DIALECTS.keys()));
});

it.each(CASES)(
  'an envelope for $dialect ($form) arrives in its words, and no action does harm',
  async (one) => {
    const { bodies, record, status } = await send(one, DECLARED);
    expect([status, bodies.length]).toEqual([200, 1]);
    const [body = ''] = bodies;
    if (one.bytes === null) expect(body).not.toMatch(/hint|a[1-4]"|kv_transfer/);
    else {
      expect(body).toContain(one.bytes);
      // Nothing of it stands anywhere else.
      expect(body.replace(one.bytes, '')).not.toMatch(/hint|action|kv_transfer|retention/);
    }
    const told = Object.fromEntries(
      (record?.hints?.sent ?? []).map(({ action_id: id, outcome, reason }) => [id, `${outcome} ${reason}`]),
    );
    expect(told).toMatchObject(one.outcomes);
  },
);

it.each(CASES)('a worker of $dialect ($form) that declared nothing is sent nothing', async (one) => {
  const { bodies, status } = await send(one, 'none');
  expect([status, bodies.length]).toEqual([200, 1]);
  expect(bodies[0]).not.toMatch(/hint|action|kv_transfer|retention/);
});

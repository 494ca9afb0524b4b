// A running router flags what engines do otherwise than it believes, out of traffic alone and within 100 requests of each worker.
import { afterEach, expect, test } from 'vitest';
import type { FindingCode } from '../src/parity/index.ts';
import { TINY_TOKENIZER } from '../src/tokens/index.ts';
import { router, until, words } from './live-support.ts';
import {
  ADAPTER,
  FAULTS,
  type Fault,
  type FaultyEngine,
  faultyEngine,
  faultyFleetYaml,
} from './support/faulty-engine.ts';
import { stopDoubles, vllm } from './support/vllm-doubles.ts';

const FLAGGED: Readonly<Record<Fault, FindingCode>> = {
  'wrong block size': 'block_size',
  'random hash seed': 'hash_seed',
  'other template': 'template',
  // From outside both look the same: nobody listens.
  'events off': 'not_connected',
  'literal bind address': 'not_connected',
  'swapped ranks': 'swapped_ranks',
  'hybrid groups': 'hybrid_groups',
  'page size 1': 'page_size_1',
  'salt ignored': 'salt_ignored',
  'old replay': 'replay_old',
  'no replay': 'no_replay',
  'clock jump': 'event_clock',
  'duplicate stores': 'duplicate_stores',
  'LoRA mismatch': 'lora_mismatch',
  'prefix caching off': 'prefix_caching_off',
};

const running: FaultyEngine[] = [];
afterEach(async () => {
  for (const engine of running.splice(0)) engine.close();
  await stopDoubles();
});

/** Request `nth` of a worker: chats, plain, salted and adapter prompts, half of them heard before. */
function requestOf(nth: number): { path: string; body: object } {
  const text = words(90, 1 + Math.floor(nth / 2));
  const common = { max_tokens: 1, model: nth % 5 === 4 ? ADAPTER : 'tiny' };
  if (nth % 5 === 3)
    return { path: '/v1/chat/completions', body: { ...common, messages: [{ role: 'user', content: text }] } };
  const salt = nth % 5 === 2 ? { cache_salt: `tenant-${nth % 2}` } : null;
  return {
    path: '/v1/completions',
    body: { ...common, prompt: words(90, 1 + Math.floor(nth / 10)), ...salt },
  };
}

test('flags each of the 15 faults within 100 requests, and nothing on healthy workers', async () => {
  for (const faults of [...FAULTS.map((fault) => [fault]), [], []] as Fault[][])
    running.push(await faultyEngine(faults));
  const on = await router(faultyFleetYaml(running, 'router: { trust_routing_fields_from: ["127.0.0.0/8"] }'));
  const { parity } = on.core;
  const codes = (worker: number): string[] => [
    ...new Set(
      (parity?.findings() ?? []).filter((one) => one.worker === BigInt(worker)).map(({ code }) => code),
    ),
  ];
  const sent = new Map<number, number>();
  const flagged = new Map<number, number>();
  const faulty = FAULTS.map((_, at) => at + 1);
  await Promise.all(
    running.map(async (_, at) => {
      const worker = at + 1;
      const fault = FAULTS[at];
      for (let nth = 0; nth < (fault === undefined ? 50 : 100); nth += 1) {
        if (fault !== undefined && nth % 20 === 19 && codes(worker).includes(FLAGGED[fault])) break;
        const { body, path } = requestOf(nth);
        const answer = await fetch(`${on.url}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-dynamo-worker-instance-id': String(worker) },
          body: JSON.stringify(body),
        });
        expect(answer.status, await answer.text()).toBe(200);
        sent.set(worker, nth + 1);
      }
    }),
  );
  await until('all faults are flagged', () => {
    for (const worker of faulty) {
      const fault = FAULTS[worker - 1];
      if (fault !== undefined && codes(worker).includes(FLAGGED[fault]))
        flagged.set(worker, sent.get(worker) ?? 0);
    }
    return flagged.size === FAULTS.length;
  }).catch(() => undefined);
  const seen = Object.fromEntries(FAULTS.map((fault, at) => [fault, codes(at + 1)]));
  for (const fault of FAULTS) expect.soft(seen[fault], fault).toContain(FLAGGED[fault]);
  // Nothing else is said of any of them but what follows from its fault.
  const also: Partial<Record<Fault, string[]>> = { 'prefix caching off': ['events_off'] };
  for (const fault of FAULTS)
    expect
      .soft(
        seen[fault]?.filter((code) => code !== FLAGGED[fault] && !also[fault]?.includes(code)),
        fault,
      )
      .toEqual([]);
  expect([codes(16), codes(17)]).toEqual([[], []]);
  // Blocks of another size are of no use at all: that cache is estimated.
  expect(on.core.fleet.worker(1n)?.approximate?.get(0)).toBe('other_block_size');
  // The same is told wherever people look.
  const { warnings } = on.readiness();
  const workers = await (await fetch(`${on.adminUrl}/workers`)).text();
  expect(workers).toMatch(/"findings":\s*\[\s*"hybrid_groups"/);
  const decision = on.core.decisions?.list(1, { workerId: BigInt(1 + FAULTS.indexOf('hybrid groups')) })[0];
  expect(decision?.parity?.findings).toContain('hybrid_groups');
  expect(warnings.join('\n')).toContain('--disable-hybrid-kv-cache-manager');
  const metrics = await (await fetch(`${on.adminUrl}/metrics`)).text();
  for (const code of new Set(Object.values(FLAGGED))) {
    expect(metrics).toMatch(new RegExp(`pointsman_parity_findings\\{finding="${code}"\\} [1-9]`));
  }
});

test('sends probe prompts of its own where it is told to, and judges them', async () => {
  running.push(await faultyEngine(['hybrid groups']), await faultyEngine([]));
  const on = await router(faultyFleetYaml(running, 'parity: { probe_prompts: true, probe_every: 1s }'));
  const codes = (): (readonly [bigint, string])[] =>
    (on.core.parity?.findings() ?? []).map(({ code, worker }) => [worker, code] as const);
  await until('a fault shows without any traffic', () => codes().length > 0);
  expect(codes()).toEqual([[1n, 'hybrid_groups']]);
  expect(on.core.decisions?.list(1, {})).toEqual([]);
});

test('with parity.ask_token_ids it says where the ids of live chats part, and clients see none of them', async () => {
  const double = await vllm(
    ['--served-model-name', 'tiny-sim', '--block-size', '16', '--enable-prompt-tokens-details'],
    { faults: { otherTemplate: true } },
  );
  const on = await router(`listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
parity: { ask_token_ids: true }
models:
  tiny:
    served_as: tiny-sim
    block_size: 16
    tokens: { source: local, tokenizer: "${TINY_TOKENIZER.tokenizer}", template: "${TINY_TOKENIZER.template}" }
workers:
  - { id: 1, model: tiny, url: "${double.url}", dialect: vllm }
`);
  for (let nth = 1; nth <= 3; nth += 1) {
    const answer = await fetch(`${on.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'tiny', max_tokens: 1 },
        messages: [{ role: 'user', content: words(60, nth) }],
      }),
    });
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    expect(text).not.toContain('prompt_token_ids');
  }
  const said = (): string | undefined =>
    on.core.parity?.findings().find(({ code }) => code === 'template')?.sentence;
  await until('it is told', () => said() !== undefined);
  expect(said()).toMatch(/\(first at token 0 of \d+ here, \d+ there\)$/);
});

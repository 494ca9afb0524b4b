import { describe, expect, it } from 'vitest';
import { cleanRequest } from './ingress.ts';
import { ROUTER_ONLY_BODY, ROUTER_ONLY_HEADERS, ROUTER_ONLY_NVEXT } from './router-only-fields.ts';

const NOBODY = { routing: false, hints: false, agents: false };
const EVERYTHING = { routing: true, hints: true, agents: true };

const ENVELOPE = {
  protocol_version: '0.1',
  message_id: 'm-1',
  actions: [
    {
      action_id: 'a1',
      action_type: 'kv.fetch',
      action_version: '1.0',
      payload: { block_hashes: [18446744073709551615n] },
    },
  ],
};

function clean(headers: Record<string, string>, body: Record<string, unknown>, trust: typeof NOBODY) {
  const removed: string[] = [];
  const request = cleanRequest(headers, body, trust, (field) => removed.push(field));
  return { ...request, removed };
}

/** Fields that surface.md names; the table may know more. */
const NAMED_HEADERS = [
  'x-bypass-remote-prefill',
  'x-dynamo-worker-instance-id',
  'x-pointsman-explain',
  'x-dynamo-meta-policy-class',
];
const NAMED_BODY = [
  'kv_hints',
  'kv_transfer_params',
  'router_hint',
  'disaggregated_params',
  'router_config_override',
  'input_ids',
  'input_embeds',
  'prompt_embeds',
  'prompt_token_ids',
];

describe('ingress', () => {
  it('has every named field in its tables', () => {
    for (const name of NAMED_HEADERS) expect(ROUTER_ONLY_HEADERS.has(name)).toBe(true);
    for (const name of NAMED_BODY) expect(ROUTER_ONLY_BODY.has(name)).toBe(true);
  });

  it.each([...ROUTER_ONLY_HEADERS.keys()])('drops and counts header %s of an untrusted caller', (name) => {
    const { trusted, removed } = clean({ [name]: '1', 'x-dynamo-session-id': 's' }, {}, NOBODY);
    expect(trusted.headers).toEqual({});
    expect(removed).toEqual([name]);
  });

  it.each([...ROUTER_ONLY_HEADERS])('treats header %s of a trusted caller by its rule (%s)', (name, rule) => {
    const { trusted, removed } = clean({ [name]: ' 1 ' }, {}, { ...EVERYTHING, hints: false });
    expect(trusted.headers).toEqual(rule !== 'nobody' ? { [name]: '1' } : {});
    expect(removed).toEqual(rule !== 'nobody' ? [] : [name]);
  });

  it.each([...ROUTER_ONLY_BODY.keys()])('drops and counts body field %s of an untrusted caller', (name) => {
    const { body, trusted, removed } = clean(
      {},
      { model: 'tiny', [name]: { do_remote_prefill: true } },
      NOBODY,
    );
    expect(body).toEqual({ model: 'tiny' });
    expect(trusted.body).toEqual({});
    expect(removed).toEqual([name]);
  });

  it.each([...ROUTER_ONLY_BODY])(
    'treats body field %s of a trusted caller by its rule (%s)',
    (name, rule) => {
      const { body, trusted, removed, incomingHint } = clean(
        {},
        { model: 'tiny', [name]: ENVELOPE },
        EVERYTHING,
      );
      expect(body).toEqual({ model: 'tiny', ...(rule === 'agents' ? { [name]: ENVELOPE } : {}) });
      expect(trusted.body).toEqual(rule === 'routing' ? { [name]: ENVELOPE } : {});
      expect(incomingHint).toEqual(rule === 'hints' ? ENVELOPE : null);
      expect(removed).toEqual(rule === 'nobody' ? [name] : []);
    },
  );

  it.each(['bootstrap_host', 'bootstrap_port', 'bootstrap_room', 'bootstrap_new'])(
    'drops %s from everyone',
    (name) => {
      for (const trust of [NOBODY, EVERYTHING]) {
        const { body, removed } = clean({}, { model: 'tiny', [name]: 1 }, trust);
        expect(body).toEqual({ model: 'tiny' });
        expect(removed).toEqual(['bootstrap_*']);
      }
    },
  );

  it.each([...ROUTER_ONLY_NVEXT])('treats nvext.%s by its rule (%s)', (name, rule) => {
    const body = { model: 'tiny', nvext: { [name]: 7, annotations: ['a'] } };
    const untrusted = clean({}, body, NOBODY);
    expect(untrusted.body).toEqual({ model: 'tiny' });
    expect(untrusted.nvext).toEqual({ annotations: ['a'] });
    expect(untrusted.trusted.nvext).toEqual({});
    expect(untrusted.removed).toEqual([`nvext.${name}`]);
    const trusted = clean({}, body, EVERYTHING);
    expect(trusted.body).toEqual({ model: 'tiny' });
    expect(trusted.trusted.nvext).toEqual(rule === 'nobody' ? {} : { [name]: 7 });
    expect(trusted.removed).toEqual(rule === 'nobody' ? [`nvext.${name}`] : []);
  });

  it('keeps a hint in kv_transfer_params from a trusted caller and drops what else stands there', () => {
    const params = { kv_hint: ENVELOPE, do_remote_prefill: true };
    const trusted = clean({}, { kv_transfer_params: params }, { ...NOBODY, hints: true });
    expect(trusted.incomingHint).toEqual(ENVELOPE);
    expect(trusted.body).toEqual({});
    expect(trusted.removed).toEqual(['kv_transfer_params']);
    const untrusted = clean({}, { kv_transfer_params: params }, { ...EVERYTHING, hints: false });
    expect(untrusted.incomingHint).toBeNull();
    expect(untrusted.removed).toEqual(['kv_transfer_params.kv_hint', 'kv_transfer_params']);
  });

  it('takes the first of two envelopes and counts the other', () => {
    const second = { ...ENVELOPE, message_id: 'm-2' };
    const { incomingHint, removed } = clean(
      {},
      { kv_hints: ENVELOPE, kv_transfer_params: { kv_hint: second } },
      EVERYTHING,
    );
    expect(incomingHint?.message_id).toBe('m-1');
    expect(removed).toEqual(['kv_transfer_params.kv_hint']);
  });

  const action = ENVELOPE.actions[0];
  it.each([
    null,
    'text',
    { ...ENVELOPE, protocol_version: '0.2' },
    { ...ENVELOPE, message_id: '' },
    { ...ENVELOPE, actions: [] },
    { ...ENVELOPE, actions: Array(33).fill(action) },
    { ...ENVELOPE, actions: [action, { ...action, payload: [] }] },
    { ...ENVELOPE, actions: [{ ...action, action_id: 1 }] },
  ])('drops and counts a malformed envelope of a trusted caller as a whole (%#)', (envelope) => {
    const { incomingHint, removed } = clean({}, { kv_hints: envelope }, EVERYTHING);
    expect(incomingHint).toBeNull();
    expect(removed).toEqual(['kv_hints']);
  });

  it('passes on of an envelope only what the protocol names', () => {
    const { incomingHint } = clean({}, { kv_hints: { ...ENVELOPE, extra: 1 } }, EVERYTHING);
    expect(incomingHint).toEqual(ENVELOPE);
  });

  it('looks into the extension channel of vLLM', () => {
    const { body, removed } = clean(
      {},
      { vllm_xargs: { fine: 1, kv_transfer_params: 'x', kv_hint: 'y' } },
      EVERYTHING,
    );
    expect(body).toEqual({ vllm_xargs: { fine: 1 } });
    expect(removed).toEqual(['vllm_xargs']);
  });

  it('leaves ordinary fields and the object that was handed in alone', () => {
    const sent = { model: 'tiny', kv_hints: {}, seed: 18446744073709551615n };
    const { body } = clean({}, sent, NOBODY);
    expect(body).toEqual({ model: 'tiny', seed: 18446744073709551615n });
    expect(Object.keys(sent)).toEqual(['model', 'kv_hints', 'seed']);
  });

  it('refuses an nvext that is no object', () => {
    expect(() => clean({}, { nvext: 3 }, NOBODY)).toThrow('nvext must be an object');
  });
});

describe('a __proto__ member', () => {
  it('lends the request no fields, anywhere', () => {
    const { body, nvext, trusted } = clean(
      {},
      JSON.parse(
        '{"__proto__":{"model":"tiny","pinned_worker":{}},"nvext":{"__proto__":{"agent_hints":{"osl":1}}}}',
      ),
      EVERYTHING,
    );
    expect([body.model, trusted.body.pinned_worker, nvext.agent_hints]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(Object.keys(body)).toEqual(['__proto__']);
  });
});

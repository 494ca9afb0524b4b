import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { readGenerateRequest } from './generate-request.ts';
import { parseBody } from './parse-body.ts';
import { asksToExplain, readConstraints, readTenant } from './routing-constraints.ts';

const USER = { role: 'user', content: 'hi' };
const TRUSTED_NOTHING = { headers: {}, body: {}, nvext: {} };
const NO_HINTS = { expectedOutputTokens: null, priority: 0, strictPriority: 0 };

describe('readGenerateRequest', () => {
  it('reads a chat and its defaults', () => {
    expect(readGenerateRequest('chat', { model: 'tiny', messages: [USER] })).toEqual({
      model: 'tiny',
      stream: false,
      cacheSalt: null,
      maxOutputTokens: 4096,
      prompt: {
        api: 'chat',
        chat: {
          messages: [USER],
          tools: undefined,
          addGenerationPrompt: true,
          addSpecialTokens: false,
          variables: {},
          lastRole: 'user',
        },
      },
    });
  });

  it('reads what changes the ids of a prompt: its shortening, a continued message, a template of its own', () => {
    const cut = { truncate_prompt_tokens: 9, truncation_side: 'right' };
    const chat = {
      model: 'tiny',
      messages: [USER],
      documents: [1],
      chat_template: 'x',
      continue_final_message: true,
    };
    expect(readGenerateRequest('chat', { ...chat, ...cut }).prompt).toMatchObject({
      chat: {
        addGenerationPrompt: false,
        continueFinalMessage: true,
        ownTemplate: 'x',
        variables: { documents: [1] },
        truncation: { tokens: 9, side: 'right' },
      },
    });
    const prompt = (fields: object): unknown =>
      readGenerateRequest('completions', { model: 'tiny', prompt: 'x', ...fields }).prompt;
    expect(prompt({ truncate_prompt_tokens: 3 })).toMatchObject({ truncation: { tokens: 3, side: 'left' } });
    expect(prompt({ truncate_prompt_tokens: -1 })).not.toHaveProperty('truncation');
    expect(() => prompt({ truncate_prompt_tokens: 0 })).toThrow(
      'truncate_prompt_tokens must be -1, or 1 and more',
    );
    expect(() => prompt({ truncate_prompt_tokens: -2 })).toThrow(
      'truncate_prompt_tokens must be an integer from -1',
    );
    expect(() => prompt({ truncation_side: 'top' })).toThrow('truncation_side must be "left" or "right"');
  });

  it('prefers max_completion_tokens and takes null for absent', () => {
    const body = {
      model: 'tiny',
      messages: [USER],
      max_tokens: 5,
      max_completion_tokens: 7,
      stream: null,
      n: null,
    };
    expect(readGenerateRequest('chat', body).maxOutputTokens).toBe(7);
    expect(readGenerateRequest('chat', { ...body, max_completion_tokens: null }).maxOutputTokens).toBe(5);
  });

  it.each([
    ['hello', 'hello'],
    [['hello'], 'hello'],
    [
      [1, 2],
      [1, 2],
    ],
    [[[1, 2]], [1, 2]],
    [[], []],
  ])('reads prompt %j as one prompt', (prompt, expected) => {
    const request = readGenerateRequest('completions', { model: 'tiny', prompt });
    expect(request.prompt).toEqual({ api: 'completions', prompt: expected, addSpecialTokens: true });
    expect(request.maxOutputTokens).toBe(16);
  });

  it.each<[object, string]>([
    [{}, 'model is missing; it must name a model of GET /v1/models'],
    [{ model: 3 }, 'model must be a text of 1 to 512 characters'],
    [{ model: 'm', stream: 'yes' }, 'stream must be true or false'],
    [{ model: 'm', stream_options: {} }, 'stream_options is only allowed together with stream: true'],
    [{ model: 'm', stream: true, stream_options: [] }, 'stream_options must be an object'],
    [{ model: 'm', n: 2 }, 'n must be 1; send one request per answer'],
    [{ model: 'm', best_of: 3 }, 'best_of must be 1; send one request per answer'],
    [{ model: 'm', max_tokens: 0 }, 'max_tokens must be an integer from 1 to 2147483647'],
    [{ model: 'm', max_tokens: 1.5 }, 'max_tokens must be an integer from 1 to 2147483647'],
    [{ model: 'm', max_tokens: 18446744073709551615n }, 'max_tokens must be an integer from 1 to 2147483647'],
    [
      { model: 'm', max_completion_tokens: '5' },
      'max_completion_tokens must be an integer from 1 to 2147483647',
    ],
    [{ model: 'm', cache_salt: '' }, 'cache_salt must be a text of 1 to 1024 characters'],
    [{ model: 'm' }, 'messages must be a list of at least one message'],
    [{ model: 'm', messages: [] }, 'messages must be a list of at least one message'],
    [{ model: 'm', messages: [USER, 'x'] }, 'messages[1] must be an object'],
    [{ model: 'm', messages: [{ content: 'x' }] }, 'messages[0].role must be a text such as "user"'],
    [
      { model: 'm', messages: [USER, USER, { role: 'user', content: 3 }] },
      'messages[2].content must be a string or a list of parts',
    ],
    [{ model: 'm', messages: [{ role: 'user' }] }, 'messages[0].content must be a string or a list of parts'],
    [
      { model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, 3] }] },
      'messages[0].content[1] must be an object with a type such as "text"',
    ],
    [
      { model: 'm', messages: [{ role: 'user', content: [{ type: 'text' }] }] },
      'messages[0].content[0].text must be a string',
    ],
    [{ model: 'm', messages: [USER], tools: {} }, 'tools must be a list of objects'],
    [{ model: 'm', messages: [USER], chat_template_kwargs: 3 }, 'chat_template_kwargs must be an object'],
  ])('refuses chat %# with a sentence that names the field', (body, message) => {
    try {
      readGenerateRequest('chat', { ...body });
      expect.unreachable();
    } catch (thrown) {
      expect(thrown).toMatchObject({ code: 'PM_REQUEST_INVALID', status: 400, message });
      if (!(thrown instanceof PointsmanError)) throw thrown;
      expect(thrown.details.param).toBe(message.split(' ')[0]);
    }
  });

  it('accepts an assistant that only called tools, and parts other than text', () => {
    const messages = [
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'assistant' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] },
    ];
    expect(() => readGenerateRequest('chat', { model: 'm', messages })).not.toThrow();
  });

  it.each<[unknown, string]>([
    [undefined, 'prompt must be a text or a list of token ids'],
    [{}, 'prompt must be a text or a list of token ids'],
    [['a', 'b'], 'prompt holds 2 prompts; send one request per prompt'],
    [[[1], [2], [3]], 'prompt holds 3 prompts; send one request per prompt'],
  ])('refuses prompt %j', (prompt, message) => {
    expect(() => readGenerateRequest('completions', { model: 'm', prompt })).toThrow(message);
  });

  it('answers any JSON object with a request or a coded error', () => {
    const value = fc.oneof(fc.jsonValue(), fc.constant([USER]));
    const body = fc.record(
      {
        model: fc.constant('m'),
        messages: value,
        prompt: value,
        stream: value,
        n: value,
        max_tokens: value,
        tools: value,
      },
      { requiredKeys: ['model'] },
    );
    fc.assert(
      fc.property(fc.constantFrom('chat' as const, 'completions' as const), body, (api, sent) => {
        try {
          readGenerateRequest(api, sent);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(PointsmanError);
        }
      }),
    );
  });
});

describe('parseBody', () => {
  it('keeps every digit of long integers', () => {
    expect(parseBody(Buffer.from('{"seed":18446744073709551615}'))).toEqual({ seed: 18446744073709551615n });
  });

  it.each([
    ['', 'the body is empty; it must be a JSON object'],
    ['[1]', 'the body must be a JSON object'],
    ['"secret', 'the body is not valid JSON'],
    [`{"a":${'['.repeat(200)}${']'.repeat(200)}}`, 'the body nests deeper than 128 levels'],
    // Told before it is parsed.
    ['['.repeat(200), 'the body nests deeper than 128 levels'],
  ])('refuses %j', (text, message) => {
    expect(() => parseBody(Buffer.from(text))).toThrow(message);
  });

  it('never repeats the text of a body that is no JSON', () => {
    try {
      parseBody(Buffer.from('{"prompt": "my secret" oops}'));
      expect.unreachable();
    } catch (thrown) {
      expect(String(thrown)).toMatch(/^PointsmanError: the body is not valid JSON( \(at character \d+\))?$/);
    }
  });

  it('refuses bytes that are no UTF-8', () => {
    expect(() => parseBody(Buffer.from([0x7b, 0xff, 0x7d]))).toThrow('the body is not valid UTF-8');
  });
});

describe('readConstraints', () => {
  it('constrains nothing for a caller who may not or did not ask', () => {
    expect(readConstraints(TRUSTED_NOTHING, NO_HINTS)).toEqual({
      pinnedPrefill: null,
      pinnedWorker: null,
      allowedWorkers: null,
      requiredTaints: [],
      preferredTaints: new Map(),
      temperature: null,
      priority: 0,
      strictPriority: 0,
    });
  });

  it('reads pins from headers first, then body, then nvext, with every digit', () => {
    const headers = { 'x-dynamo-worker-instance-id': '18446744073709551615', 'x-dp-rank': '2' };
    const body = { pinned_worker: { worker_id: 7, dp_rank: 1 } };
    const nvext = { backend_instance_id: 9n };
    const pin = (trusted: object) =>
      readConstraints({ ...TRUSTED_NOTHING, ...trusted }, NO_HINTS).pinnedWorker;
    expect(pin({ headers, body, nvext })).toEqual({ workerId: 18446744073709551615n, rank: 2 });
    expect(pin({ body, nvext })).toEqual({ workerId: 7n, rank: 1 });
    expect(pin({ nvext })).toEqual({ workerId: 9n, rank: null });
  });

  it('reads allowed workers, taints and temperature', () => {
    const body = {
      allowed_worker_ids: [1, 2n],
      routing_constraints: { required_taints: ['gpu'], preferred_taints: { zone: 0.5 } },
      router_config_override: { router_temperature: 0.25 },
    };
    expect(readConstraints({ ...TRUSTED_NOTHING, body }, { ...NO_HINTS, priority: 3 })).toMatchObject({
      allowedWorkers: [1n, 2n],
      requiredTaints: ['gpu'],
      preferredTaints: new Map([['zone', 0.5]]),
      temperature: 0.25,
      priority: 3,
    });
  });

  it.each<[object, string]>([
    [
      { headers: { 'x-worker-instance-id': '-1' } },
      'x-worker-instance-id must be an integer from 0 to 18446744073709551615',
    ],
    [
      { body: { pinned_worker: {} } },
      'pinned_worker.worker_id must be an integer from 0 to 18446744073709551615',
    ],
    [
      { nvext: { decode_worker_id: 1, dp_rank: 4294967296 } },
      'nvext.dp_rank must be an integer from 0 to 4294967295',
    ],
    [{ body: { allowed_worker_ids: 3 } }, 'allowed_worker_ids must be a list of at most 4096 worker ids'],
    [
      { body: { router_config_override: { overlap_score_credit: 1 } } },
      'router_config_override.overlap_score_credit cannot be set per request; only router_temperature can',
    ],
    [
      { body: { router_config_override: { router_temperature: -1 } } },
      'router_config_override.router_temperature must be a number of 0 or more',
    ],
    [
      { body: { routing_constraints: { preferred_taints: { a: 'x' } } } },
      'routing_constraints.preferred_taints must map taints to weights of 0 or more',
    ],
  ])('refuses a malformed constraint rather than to choose freely (%#)', (trusted, message) => {
    expect(() => readConstraints({ ...TRUSTED_NOTHING, ...trusted }, NO_HINTS)).toThrow(message);
  });

  it('takes the priority of agent hints, a negative one as none', () => {
    const priorities = (priority: number | null) =>
      readConstraints(TRUSTED_NOTHING, { priority, strictPriority: 2 });
    expect(priorities(7)).toMatchObject({ priority: 7, strictPriority: 2 });
    for (const none of [-5, 0, null]) expect(priorities(none).priority).toBe(0);
  });

  it('takes a tenant of 1 to 256 printable characters, and refuses any other', () => {
    const tenant = (value: string) => readTenant({ headers: { 'x-tenant-id': value } });
    expect(readTenant({ headers: {} })).toBeNull();
    expect([tenant('a'), tenant('x'.repeat(256))]).toEqual(['a', 'x'.repeat(256)]);
    for (const wrong of ['', 'x'.repeat(257), 'caf\u00e9', 'a\u0001b']) {
      expect(() => tenant(wrong)).toThrow('x-tenant-id must be 1 to 256 printable ASCII characters');
    }
  });

  it('explains on 1 or true', () => {
    expect(asksToExplain({ 'x-pointsman-explain': '1' })).toBe(true);
    expect(asksToExplain({ 'x-pointsman-explain': '0' })).toBe(false);
    expect(asksToExplain({})).toBe(false);
  });
});

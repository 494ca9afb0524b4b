import { describe, expect, it } from 'vitest';
import { bench, COMPLETION, errorOf, post, REPORT, SSE, STREAM } from '../../tests/gateway-bench.ts';
import { ROUTER, routerConfigFixture } from '../../tests/gateway-fixtures.ts';
import { sessionNamespace } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';

describe('a generate request', () => {
  it('reaches the road whole and brings the answer back with the router’s headers', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.booked({ workerId: 18446744073709551615n, rank: 1 }, 'd-1');
      sink.head(200, { 'content-type': 'application/json', 'content-length': '2' });
      sink.data(Buffer.from('{}'));
      sink.finished(REPORT);
    };
    const answer = await post(
      on,
      '{"model":"default","prompt":"hello world","max_tokens":4,"seed":18446744073709551615,"cache_salt":"s"}',
      { 'x-dynamo-session-id': 's-1', 'x-pointsman-explain': '1' },
    );
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe('{}');
    expect(answer.headers.get('x-request-id')).toBe('req-1');
    expect(answer.headers.get('x-pointsman-worker')).toBe('18446744073709551615:1');
    expect(answer.headers.get('x-pointsman-decision')).toBeNull();
    expect(on.road.arrivals[0]?.request).toEqual({
      requestId: 'req-1',
      door: 'gateway',
      partition: { model: 'tiny', routingGroup: 'default' },
      role: 'aggregated',
      servedAs: 'tiny-sim',
      api: 'completions',
      body: {
        model: 'default',
        prompt: 'hello world',
        max_tokens: 4,
        seed: 18446744073709551615n,
        cache_salt: 's',
      },
      stream: false,
      tokens: new Uint32Array(3),
      tokensSource: 'estimate',
      estimated: 'source',
      maxOutputTokens: 4,
      expectedOutputTokens: null,
      enginePriority: null,
      loraName: null,
      cacheSalt: 's',
      session: { sessionId: 's-1', agentHeaders: {}, namespace: sessionNamespace({ cacheSalt: 's' }) },
      tenant: null,
      policyClass: null,
      constraints: {
        pinnedWorker: null,
        pinnedPrefill: null,
        allowedWorkers: null,
        requiredTaints: [],
        preferredTaints: new Map(),
        temperature: null,
        priority: 0,
        strictPriority: 0,
      },
      incomingHint: null,
      agentHints: null,
      stripped: ['x-pointsman-explain'],
      tokenizeMicros: 0,
    });
    expect(on.counts).toEqual([
      'pointsman_stripped_fields_total x-pointsman-explain',
      'pointsman_requests_total gateway tiny 200',
    ]);
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it.each([
    ['user', 'user_message'],
    ['tool', 'tool_result'],
    ['assistant', 'other'],
  ])('of a chat says what caused it, also without a session id: %s', async (role, inputTrigger) => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.booked({ workerId: 1n, rank: 0 }, 'd-1');
      sink.head(200, {});
      sink.finished(REPORT);
    };
    const messages = [
      { role: 'user', content: 'a' },
      { role, content: 'b' },
    ];
    const { status } = await post(on, { model: 'tiny', messages }, {}, '/v1/chat/completions');
    expect(status).toBe(200);
    expect(on.road.arrivals[0]?.request).toMatchObject({ session: null, inputTrigger });
  });

  it('of a tenant carries no session of an engine that its client names, as another tenant may own it', async () => {
    const on = await bench();
    on.config = routerConfigFixture({ router: { ...ROUTER, trustRoutingFieldsFrom: ['127.0.0.1'] } });
    on.road.onArrival = ({ sink }) => {
      sink.head(200, {});
      sink.finished(REPORT);
    };
    const sent = { ...COMPLETION, session_id: 'others:s-1', session_params: { id: 'others:s-1' } };
    await post(on, sent, {});
    await post(on, sent, { 'x-tenant-id': 'acme' });
    const [free, tenants] = on.road.arrivals.map(({ request }) => request);
    expect(free?.body).toEqual(sent);
    expect(free?.stripped).toEqual([]);
    expect(tenants?.body).toEqual(COMPLETION);
    expect(tenants?.stripped).toEqual(['session_id', 'session_params']);
  });

  it('honours routing fields and hints only from trusted networks', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.booked({ workerId: 1n, rank: 0 }, 'd-1');
      sink.head(200, {});
      sink.finished(REPORT);
    };
    const hint = {
      protocol_version: '0.1',
      message_id: 'm',
      actions: [{ action_id: 'x', action_type: 't', action_version: '1.0', payload: {} }],
    };
    const send = () =>
      post(
        on,
        { ...COMPLETION, kv_hints: hint },
        { 'x-pointsman-explain': '1', 'x-forwarded-for': '10.0.0.1', 'x-worker-instance-id': '7' },
      );
    on.config = routerConfigFixture({
      router: { ...ROUTER, trustRoutingFieldsFrom: ['10.0.0.0/8'], trustIncomingHintsFrom: ['10.0.0.0/8'] },
    });
    expect((await send()).headers.get('x-pointsman-decision')).toBeNull();
    on.config = routerConfigFixture({
      router: { ...ROUTER, trustRoutingFieldsFrom: ['127.0.0.0/8'], trustIncomingHintsFrom: ['127.0.0.1'] },
    });
    expect((await send()).headers.get('x-pointsman-decision')).toBe('d-1');
    const [untrusted, trusted] = on.road.arrivals;
    expect(untrusted?.request.constraints.pinnedWorker).toBeNull();
    expect(untrusted?.request.incomingHint).toBeNull();
    expect(trusted?.request.constraints.pinnedWorker).toEqual({ workerId: 7n, rank: null });
    expect(trusted?.request.incomingHint).toEqual(hint);
    expect(trusted?.request.body).toEqual(COMPLETION);
  });

  it.each([
    ['trusted', [], false],
    ['trusted', ['127.0.0.1'], true],
    ['all', [], true],
    ['off', ['127.0.0.1'], false],
  ] as const)(
    'honours agent hints where agent_hints is %s and %j is trusted: %s',
    async (hints, networks, honoured) => {
      const on = await bench();
      const agents = { ...ROUTER.agents, hints };
      on.config = routerConfigFixture({ router: { ...ROUTER, agents, trustRoutingFieldsFrom: networks } });
      on.road.onArrival = ({ sink }) => {
        sink.head(200, {});
        sink.finished(REPORT);
      };
      const agent_hints = { priority: -3, strict_priority: 2, osl: 40 };
      const body = { ...COMPLETION, priority: -99, nvext: { agent_hints } };
      await post(on, body, { 'x-dynamo-request-priority': '8' });
      const [arrival] = on.road.arrivals;
      expect(arrival?.request).toMatchObject({
        enginePriority: honoured ? 8 : null,
        expectedOutputTokens: honoured ? 40 : null,
        constraints: { priority: honoured ? 8 : 0, strictPriority: honoured ? 2 : 0 },
        body: honoured ? { ...COMPLETION, priority: -99 } : COMPLETION,
        agentHints: honoured
          ? { priority: 8, strict_priority: 2, expected_output_tokens: 40, speculative_prefill: false }
          : null,
        stripped: honoured ? [] : ['priority', 'nvext.agent_hints', 'x-dynamo-request-priority'],
      });
      expect(arrival?.request.body).not.toHaveProperty('nvext');
      const counts = ['nvext.agent_hints', 'priority', 'x-dynamo-request-priority'];
      const removed = on.counts.filter((line) => line.startsWith('pointsman_stripped_fields_total'));
      expect(removed.sort()).toEqual(
        honoured ? [] : counts.map((field) => `pointsman_stripped_fields_total ${field}`),
      );
      // An untrusted caller's hints are not even looked at; a trusted one's are, and refused by name.
      const wrong = await post(on, { ...COMPLETION, nvext: { agent_hints: { osl: 'many' } } });
      expect(wrong.status).toBe(honoured ? 400 : 200);
      if (honoured) expect(await wrong.json()).toMatchObject({ error: { param: 'nvext.agent_hints.osl' } });
    },
  );

  it('tells engines no priority where forward_priority is off', async () => {
    const on = await bench();
    const agents = { ...ROUTER.agents, hints: 'all', forwardPriority: false } as const;
    on.config = routerConfigFixture({ router: { ...ROUTER, agents } });
    on.road.onArrival = ({ sink }) => {
      sink.head(200, {});
      sink.finished(REPORT);
    };
    await post(on, { ...COMPLETION, nvext: { agent_hints: { priority: 3 } } });
    expect(on.road.arrivals[0]?.request).toMatchObject({
      enginePriority: null,
      constraints: { priority: 3 },
    });
  });

  it('streams the head and each piece at once', async () => {
    const on = await bench();
    const arrival = on.road.next();
    const answering = post(on, STREAM);
    const { sink } = await arrival;
    sink.head(200, SSE);
    const answer = await answering;
    const reader = answer.body!.getReader();
    sink.data(Buffer.from('data: 1\n\n'));
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('data: 1\n\n');
    sink.data(Buffer.from('data: [DONE]\n\n'));
    expect(Buffer.from((await reader.read()).value!).toString()).toBe('data: [DONE]\n\n');
    sink.finished(REPORT);
    expect((await reader.read()).done).toBe(true);
  });

  it('ends a stream whose engine died with an error event and no [DONE]', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.head(200, SSE);
      sink.data(Buffer.from('data: 1\n\n'));
      sink.failed(new PointsmanError('PM_ENGINE_LOST', 'worker 1 closed the connection'), true);
    };
    const answer = await post(on, STREAM);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(
      'data: 1\n\ndata: {"error":{"message":"worker 1 closed the connection","type":"server_error","param":null,"code":"upstream_disconnected"}}\n\n',
    );
    expect(on.counts).toEqual(['pointsman_requests_total gateway tiny 502']);
  });

  it('breaks the connection where a whole answer was cut short', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) => {
      sink.head(200, { 'content-type': 'application/json', 'content-length': '100' });
      sink.data(Buffer.from('{'));
      sink.failed(new PointsmanError('PM_ENGINE_LOST', 'gone'), true);
    };
    await expect(post(on, COMPLETION).then((answer) => answer.text())).rejects.toThrow();
  });

  it.each<[PointsmanError, number, Record<string, unknown>, string | null]>([
    [
      new PointsmanError('PM_ENGINE_UNREACHABLE', 'worker 1 cannot be reached'),
      502,
      { message: 'worker 1 cannot be reached', type: 'server_error', code: 'PM_ENGINE_UNREACHABLE' },
      null,
    ],
    [
      new PointsmanError('PM_ENGINE_REFUSED', 'too long', { details: { engine_status: 422 } }),
      422,
      { message: 'too long', type: 'invalid_request_error', code: 'PM_ENGINE_REFUSED' },
      null,
    ],
    [
      new PointsmanError('PM_ENGINE_FAILED', 'the engine failed with status 503', {
        details: { engine_status: 503, retry_after: '9' },
      }),
      503,
      { type: 'server_error' },
      '9',
    ],
    [
      new PointsmanError('PM_ENGINE_FAILED', 'the engine failed', { details: { engine_status: 500 } }),
      502,
      {},
      null,
    ],
    [new PointsmanError('PM_OVERLOADED', 'full'), 429, { type: 'rate_limit_error' }, '1'],
  ])(
    'answers a refusal before the first byte in the API’s shape (%#)',
    async (error, status, fields, retryAfter) => {
      const on = await bench();
      on.road.onArrival = ({ sink }) => sink.failed(error, false);
      const answer = await post(on, STREAM);
      expect(answer.status).toBe(status);
      expect(answer.headers.get('retry-after')).toBe(retryAfter);
      expect(answer.headers.get('x-request-id')).toBe('req-1');
      expect(await answer.json()).toMatchObject({ error: { param: null, ...fields } });
    },
  );

  it('writes an engine’s own words to the client and not to the log', async () => {
    const on = await bench();
    on.road.onArrival = ({ sink }) =>
      sink.failed(
        new PointsmanError('PM_ENGINE_REFUSED', 'cannot read "my secret"', {
          details: { engine_status: 400 },
        }),
        false,
      );
    expect((await errorOf(post(on, { ...COMPLETION, prompt: 'my secret' }))).error.message).toBe(
      'cannot read "my secret"',
    );
    expect(on.logged.length).toBeGreaterThan(0);
    expect(on.logged.join('')).not.toContain('secret');
  });

  it('tells the client nothing of a failure inside, and the log where it was', async () => {
    const on = await bench();
    const cause = new TypeError('x is not a function');
    on.road.onArrival = ({ sink }) =>
      sink.failed(new PointsmanError('PM_INTERNAL', 'something failed inside the router', { cause }), false);
    const { error } = await errorOf(post(on, COMPLETION));
    expect(error).toMatchObject({ code: 'PM_INTERNAL', message: 'something failed inside the router' });
    expect(on.logged.join('\n')).toContain('generate.test.ts');
  });

  it('logs a failure whose cause refuses to be looked at', async () => {
    const on = await bench();
    const refuse = () => {
      throw new Error('x');
    };
    const cause = new Proxy({}, { get: refuse, getPrototypeOf: refuse });
    on.road.onArrival = ({ sink }) =>
      sink.failed(new PointsmanError('PM_INTERNAL', 'something failed inside the router', { cause }), false);
    expect((await errorOf(post(on, COMPLETION))).error).toMatchObject({ code: 'PM_INTERNAL' });
    expect(on.logged.join('\n')).toContain('something without a text was thrown');
  });

  it('aborts once when the client goes away, before and after the head', async () => {
    const on = await bench();
    for (const withHead of [false, true]) {
      const arrival = on.road.next();
      const controller = new AbortController();
      const answering = fetch(`${on.url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify(STREAM),
        signal: controller.signal,
      });
      const reached = await arrival;
      if (withHead) {
        reached.sink.head(200, SSE);
        await answering;
      }
      controller.abort();
      await answering.catch(() => {});
      while (reached.aborts === 0) await new Promise((resolve) => setImmediate(resolve));
      expect(on.gateway.activeRequests()).toBe(0);
      // What the engine still sends goes nowhere.
      reached.sink.data(Buffer.from('x'));
      reached.sink.finished(REPORT);
      expect(reached.aborts).toBe(1);
    }
    expect(on.counts).toEqual([
      'pointsman_requests_total gateway tiny 499',
      'pointsman_requests_total gateway tiny 200',
    ]);
  });

  it('holds the engine back while the client does not read, and lets go when it reads', async () => {
    const on = await bench();
    const arrival = on.road.next();
    const answering = post(on, STREAM);
    const reached = await arrival;
    reached.sink.head(200, SSE);
    const answer = await answering;
    let sent = 0;
    while (!reached.paused) {
      reached.sink.data(Buffer.alloc(65536, 'x'));
      sent += 65536;
      await new Promise((resolve) => setImmediate(resolve));
    }
    let received = 0;
    for await (const part of answer.body!) {
      received += part.length;
      if (received === sent) reached.sink.finished(REPORT);
    }
    expect(reached.paused).toBe(false);
    expect(received).toBe(sent);
  });

  it('gives up on a client that reads nothing for a minute', async () => {
    const on = await bench();
    const arrival = on.road.next();
    const answering = post(on, STREAM);
    const reached = await arrival;
    reached.sink.head(200, SSE);
    const answer = await answering;
    while (!reached.paused) {
      reached.sink.data(Buffer.alloc(1 << 20, 'x'));
      await new Promise((resolve) => setImmediate(resolve));
    }
    on.clock.advanceTo(on.clock.now() + 59_999);
    expect(reached.aborts).toBe(0);
    on.clock.advanceTo(on.clock.now() + 1);
    expect(reached.aborts).toBe(1);
    await expect(answer.text()).rejects.toThrow();
  });
});

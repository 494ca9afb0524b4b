// Session and agent headers as bytes on a socket: malicious, oversized and repeated ones, every limit at n and n + 1.
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SessionContext } from '../src/plugin/index.ts';
import { type Bench, bench, COMPLETION, REPORT, raw } from './gateway-bench.ts';
import { LIMITS, ROUTER } from './gateway-fixtures.ts';

const BODY = JSON.stringify(COMPLETION);
const ROOM = { limits: { ...LIMITS, headerBytes: 256 * 1024 } };

/** Sends header lines as they are, and gives back the status and what came to the road. */
async function send(on: Bench, lines: readonly string[], body = BODY) {
  const before = on.road.arrivals.length;
  on.road.onArrival = ({ sink }) => {
    sink.head(200, { 'content-type': 'application/json' });
    sink.finished(REPORT);
  };
  const head = ['POST /v1/completions HTTP/1.1', 'host: x', 'connection: close', ...lines];
  const request = `${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const answer = await raw(on, request).text;
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);
  return { status, request: on.road.arrivals[before]?.request ?? null };
}

async function sessionOf(on: Bench, ...lines: string[]): Promise<SessionContext | null> {
  const { status, request } = await send(on, lines);
  expect(status).toBe(200);
  expect(request).not.toBeNull();
  return request?.session ?? null;
}

describe('ids on the wire', () => {
  it('have 256 bytes at most; a longer one counts as not sent, and the request is served', async () => {
    const on = await bench(ROOM);
    const fits = 'x'.repeat(256);
    expect((await sessionOf(on, `x-dynamo-session-id: ${fits}`))?.sessionId).toBe(fits);
    expect(await sessionOf(on, `x-dynamo-session-id: ${fits}x`)).toBeNull();
    expect((await sessionOf(on, `x-dynamo-session-id: ${fits}x`, 'thread-id: t'))?.sessionId).toBe('t');
    const child = await sessionOf(on, 'x-session-id: c', `x-parent-session-id: ${fits}`);
    expect(child?.parentSessionId).toBe(fits);
    expect(await sessionOf(on, 'x-session-id: c', `x-parent-session-id: ${fits}x`)).not.toHaveProperty(
      'parentSessionId',
    );
  });

  it('cannot be of the router’s own kinds: those of groups and of conversations begin with a control character', async () => {
    const on = await bench(ROOM);
    const digest = createHash('sha256').update('parent').digest('hex');
    for (const forged of [`\u0001sg:${digest}`, '\u0001kl:0', 'a\u0000b', 'a\u007fb', '\u001b[31m']) {
      // The parser refuses control characters on its own, before anything here reads them.
      const { status, request } = await send(on, [`x-dynamo-session-id: ${forged}`]);
      expect(request === null ? status : request.session).toBe(request === null ? 400 : null);
    }
    for (const text of ['\u00e9', 'a\u00a0b', '\u0085']) {
      const { status, request } = await send(on, [`x-session-id: ${text}`]);
      expect([status, request?.session]).toEqual([200, null]);
    }
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it('are not made by lines that try to be two headers, or by ones that are folded', async () => {
    const on = await bench(ROOM);
    for (const line of [
      'x-session-id: a\rx-dynamo-session-id: b',
      'x-session-id: a\nb',
      ' x-session-id: a',
    ]) {
      const { status, request } = await send(on, [line]);
      if (request === null) expect(status).toBe(400);
      else expect(request.session?.sessionId).not.toBe('b');
    }
    const percent = await sessionOf(on, 'x-session-id: %0d%0ax-dynamo-session-id:%20b');
    expect(percent?.sessionId).toBe('%0d%0ax-dynamo-session-id:%20b');
  });

  it('are the first of a header that comes several times, whatever its case', async () => {
    const on = await bench(ROOM);
    const session = await sessionOf(on, 'Thread-Id: one', 'THREAD-ID: two', 'thread-id: one');
    expect(session?.sessionId).toBe('one');
    expect(session?.agentHeaders).toEqual({ 'thread-id': ['one', 'two', 'one'] });
    expect(await sessionOf(on, 'x-session-id: ', 'x-session-id: b')).toBeNull();
    const final = await sessionOf(
      on,
      'x-session-id: a',
      'x-dynamo-session-final: false',
      'x-dynamo-session-final: true',
    );
    expect(final?.sessionFinal).toBe(false);
  });

  it('come from the body where that is configured, after the headers, and go on to the engine', async () => {
    const agents = { ...ROUTER.agents, sessionBodyFields: ['prompt_cache_key', 'session_id'] } as const;
    const on = await bench({ ...ROOM, router: { ...ROUTER, agents } });
    const ids = { session_id: 's', prompt_cache_key: 'k', previous_response_id: 'r' };
    const body = JSON.stringify({ ...COMPLETION, ...ids });
    const { request } = await send(on, [], body);
    expect(request?.session?.sessionId).toBe('k');
    expect(request?.body).toMatchObject(ids);
    expect((await send(on, ['x-session-id: h'], body)).request?.session?.sessionId).toBe('h');
    on.config = { ...on.config, router: ROUTER };
    expect((await send(on, [], body)).request?.session).toBeNull();
  });
});

describe('agent headers on the wire', () => {
  const ID = 'x-dynamo-session-id: s';
  const captured = async (on: Bench, lines: readonly string[]) =>
    Object.values((await sessionOf(on, ID, ...lines))?.agentHeaders ?? {}).flat();

  it('are 64 values at most', async () => {
    const on = await bench(ROOM);
    const lines = Array.from({ length: 65 }, (_, at) => `x-codex-${at}: ${at}`);
    expect((await captured(on, lines.slice(0, 64))).length).toBe(64);
    expect((await captured(on, lines)).length).toBe(64);
    const repeated = Array.from({ length: 65 }, (_, at) => `x-codex-a: ${at}`);
    expect(await captured(on, repeated)).toEqual(Array.from({ length: 64 }, (_, at) => String(at)));
  });

  it('are 16,384 bytes each at most', async () => {
    const on = await bench(ROOM);
    const most = 'x'.repeat(16_384);
    expect(await captured(on, [`x-codex-a: ${most}`])).toEqual([most]);
    expect(await captured(on, [`x-codex-a: ${most}x`, 'x-codex-b: kept'])).toEqual(['kept']);
  });

  it('are 32,768 bytes in all at most, with their names', async () => {
    const on = await bench(ROOM);
    const name = 'x-codex-a';
    const half = 'x'.repeat(16_384 - name.length);
    const both = [`${name}: ${half}`, `${name}: ${half}`];
    expect(await captured(on, both)).toEqual([half, half]);
    expect(await captured(on, [`${name}: ${half}`, `${name}: ${half}y`, 'x-codex-b: kept'])).toEqual([
      half,
      'kept',
    ]);
  });

  it('that hold too much for the router’s own limit are refused, and nothing of the request is kept', async () => {
    const on = await bench({ limits: { ...LIMITS, headerBytes: 4096 } });
    const { status, request } = await send(on, [ID, `x-codex-a: ${'x'.repeat(8192)}`]);
    expect([status, request]).toEqual([431, null]);
    expect(on.gateway.activeRequests()).toBe(0);
  });

  it('hold no credentials, and no names that objects have by themselves', async () => {
    const on = await bench(ROOM);
    const session = await sessionOf(
      on,
      ID,
      'authorization: Bearer secret',
      'cookie: a=b',
      'x-api-key: secret',
      'proxy-authorization: secret',
      '__proto__: x-codex-a',
      'constructor: 1',
      'x-codex-__proto__: 1',
    );
    expect(session?.agentHeaders).toEqual({ 'x-codex-__proto__': ['1'] });
    expect(JSON.stringify(session)).not.toContain('secret');
  });
});

describe('tenants on the wire', () => {
  const key = 'key-a';
  const sha256 = createHash('sha256').update(key).digest('hex');
  const auth = { apiKeys: [{ name: 'a', sha256, models: null, tenant: 'of-key' }] };
  const show = `authorization: Bearer ${key}`;

  it('come from the API key, and from x-tenant-id of a trusted caller before that', async () => {
    const on = await bench({ ...ROOM, auth });
    const tenant = async (...lines: string[]) => (await send(on, [show, ...lines])).request?.tenant;
    expect(await tenant()).toBe('of-key');
    expect(await tenant('x-tenant-id: forged')).toBe('of-key');
    expect(on.counts).toContain('pointsman_stripped_fields_total x-tenant-id');
    on.config = { ...on.config, router: { ...ROUTER, trustRoutingFieldsFrom: ['127.0.0.1'] } };
    expect(await tenant('x-tenant-id: said')).toBe('said');
    expect((await send(on, [show, 'x-tenant-id: a', 'x-tenant-id: b'])).request?.tenant).toBe('a, b');
    expect((await send(on, [show, `x-tenant-id: ${'x'.repeat(257)}`])).status).toBe(400);
    on.config = { ...on.config, auth: null };
    expect((await send(on, [])).request?.tenant).toBeNull();
  });
});

it('what a session is depends on its headers and their order alone, not on others between them (P12)', async () => {
  const on = await bench(ROOM);
  const line = fc.tuple(
    fc.constantFrom(
      'x-dynamo-session-id',
      'x-dynamo-parent-session-id',
      'x-dynamo-session-final',
      'x-claude-code-session-id',
      'x-claude-code-agent-id',
      'x-claude-code-parent-agent-id',
      'thread-id',
      'session-id',
      'x-codex-parent-thread-id',
      'x-codex-turn-metadata',
      'x-deepseek-harness-session-id',
      'x-session-id',
      'x-parent-session-id',
    ),
    fc.oneof(
      fc.stringMatching(/^[\x21-\x7e]{0,8}$/),
      fc.constantFrom('a', 'true', '\u00e9', 'x'.repeat(257), '{"request_kind":"compaction"}'),
    ),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 12 }), fc.nat(), async (sent, seed) => {
      const lines = sent.map(([name, value]) => `${name}: ${value}`);
      const once = await sessionOf(on, ...lines);
      expect(await sessionOf(on, ...lines)).toEqual(once);
      // Names in another case, and lines that are none of ours in between, change nothing; nor does another order of different names.
      const noise = lines.flatMap((text) => [
        `x-noise-${seed}: ${text.length}`,
        text.replace(/^[^:]+/, upper),
      ]);
      expect(await sessionOf(on, ...noise)).toEqual(once);
      const byName = [...lines].sort((a, b) => nameOf(b).localeCompare(nameOf(a)));
      expect(await sessionOf(on, ...byName)).toEqual(once);
      expect(on.gateway.activeRequests()).toBe(0);
    }),
    { numRuns: 40 },
  );
});

function upper(name: string): string {
  return name.toUpperCase();
}

function nameOf(line: string): string {
  return line.slice(0, line.indexOf(':'));
}

// Conversations without an id on the road: who gets a name, what sees it, and who gets none.
import { describe, expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../config/index.ts';
import { KEYLESS_PREFIX, KeylessSessions, sessionNamespace } from '../kv/index.ts';
import { defineHintPolicy, PointsmanError, type SessionContext } from '../plugin/index.ts';
import { prompt, REPORT, type TestRoadOptions, testRoad } from './road.fixtures.ts';

const FIRST = { sessionId: `${KEYLESS_PREFIX}0`, agentHeaders: {} };
const SECOND = { sessionId: `${KEYLESS_PREFIX}1`, agentHeaders: {} };

async function keyless(more: TestRoadOptions = {}) {
  const names = new KeylessSessions({ maxBytes: 2 ** 20, maxConversations: 64, ttlMs: 60_000 });
  const on = await testRoad({ keyless: names, ...more });
  const sessions = () => on.transport.dispatched.map(({ request }) => request.session);
  return { ...on, names, sessions };
}

describe('a request without a session id', () => {
  it('gets its conversation for a session, which policies and engine see', async () => {
    const hinted: (SessionContext | null)[] = [];
    const definition = defineHintPolicy({
      type: 'look',
      create: () => ({
        buildHints({ session }) {
          hinted.push(session);
          return [];
        },
      }),
    });
    const on = await keyless({ hints: [{ definition }] });
    on.arrive({ tokens: prompt(1, 64) });
    on.arrive({ tokens: prompt(2, 64) });
    const { record } = on.arrive({ tokens: prompt(1, 160) });
    expect(on.sessions()).toEqual([FIRST, SECOND, FIRST]);
    expect(hinted).toEqual([FIRST, SECOND, FIRST]);
    expect(record()?.session).toMatchObject({ id_hash: 'cafecafe', parent_hash: null });
    for (const { sink } of on.transport.dispatched) sink.finished(REPORT);
    on.expectIdle();
  });

  it('has it in the namespace of its tenant', async () => {
    const on = await keyless();
    on.arrive({ tokens: prompt(1, 64), tenant: 'a' });
    on.arrive({ tokens: prompt(1, 64), tenant: 'b' });
    on.arrive({ tokens: prompt(1, 96), tenant: 'a' });
    const [first, second, third] = on.sessions();
    expect([first?.sessionId, second?.sessionId]).toEqual([FIRST.sessionId, SECOND.sessionId]);
    expect(first?.namespace).toBe(sessionNamespace({ tenant: 'a', cacheSalt: null }));
    expect(second?.namespace).not.toBe(first?.namespace);
    expect(third).toEqual(first);
  });

  it('keeps it over its wait for a turn, and over a second try', async () => {
    const config = parseConfig('router: { router_queue_threshold: 0 }', 'q.yaml').config;
    const on = await keyless({ queues: queueSettingsOf(config), retries: { retries: 1, ratio: 1 } });
    for (const seed of [1, 2, 3]) on.arrive({ tokens: prompt(seed, 64) });
    expect(on.sessions()).toEqual([FIRST, SECOND]);
    on.transport.dispatched[0]?.sink.tokens(1);
    on.clock.advanceTo(on.clock.now());
    expect(on.sessions()[2]?.sessionId).toBe(`${KEYLESS_PREFIX}2`);
    expect(on.names.count).toBe(3);
    const { sink } = on.transport.dispatched[1] ?? expect.fail();
    sink.failed(new PointsmanError('PM_ENGINE_UNREACHABLE', 'no connection'));
    on.clock.advanceTo(on.clock.now());
    expect(on.sessions().slice(3)).toEqual([SECOND]);
    expect(on.names.count).toBe(3);
  });

  it('has none where it has another, where its tokens are not exact, and where its caller says so', async () => {
    const on = await keyless();
    const session = { sessionId: 's', agentHeaders: {} };
    on.arrive({ session });
    on.arrive({ tokensSource: 'estimate' });
    on.arrive({ tokens: prompt(1, 15) });
    expect(on.sessions()).toEqual([session, null, null]);
    expect(on.names.count).toBe(0);
    const off = await testRoad();
    off.arrive();
    expect(off.transport.last.request.session).toBeNull();
  });

  it('shares it with nobody of another model, group or tenant', async () => {
    const on = await keyless();
    const tokens = prompt(1, 64);
    for (const tenant of [null, 'a', 'b', '']) on.arrive({ tokens, tenant });
    on.arrive({ tokens, partition: { model: 'tiny', routingGroup: 'other' } });
    on.arrive({ tokens, cacheSalt: 'salt' });
    on.arrive({ tokens: prompt(1, 128), tenant: 'a' });
    const names = on.sessions().map((session) => session?.sessionId);
    expect(new Set(names.slice(0, -1)).size).toBe(names.length - 1);
    expect(names.at(-1)).toBe(names[1]);
  });
});

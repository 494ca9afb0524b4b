// Which request goes ahead of a next turn, and what it costs while it is not there yet.
import { expect, it } from 'vitest';
import { type Arrival, ScriptedRoad } from '../../tests/gateway-fixtures.ts';
import { givenRequest } from '../../tests/support/road-request.ts';
import { NO_METRICS } from '../observe/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { NO_CONSTRAINTS, type RoadRequest } from '../road/index.ts';
import type { ChatPrompt } from '../tokens/index.ts';
import { SpeculativePrefills } from './speculative-prefills.ts';

const CHAT = {
  messages: [{ role: 'user', content: 'hi' }],
  tools: [{ type: 'function' }],
  addGenerationPrompt: true,
  addSpecialTokens: true,
  variables: { thinking: false },
  lastRole: 'user',
};
const REPORT = {
  promptTokens: 1,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;

function bench(limit = 2) {
  const road = new ScriptedRoad();
  const chats: ChatPrompt[] = [];
  const gauges = new Map<string, () => unknown>();
  const speculative = new SpeculativePrefills({
    road,
    tokens: () => ({
      encodeChat(chat) {
        chats.push(chat);
        return Promise.resolve({ tokens: Uint32Array.of(1, 2, 3), source: 'local' });
      },
    }),
    metrics: { ...NO_METRICS, gauge: (name, read) => void gauges.set(name, read) },
    newRequestId: () => 'ahead',
    limit: () => limit,
  });
  let ids = 0;
  const arrive = (changes: Partial<RoadRequest> = {}): Arrival => {
    const session = { sessionId: `s${++ids}`, agentHeaders: {} };
    const request = givenRequest(`r${ids}`, Uint32Array.of(1), {
      tokensSource: 'local',
      session,
      ...changes,
    });
    speculative.arrive(request, CHAT, true, {
      booked() {},
      head() {},
      data() {},
      tokens() {},
      finished() {},
      failed() {},
    });
    return road.arrivals.at(-1) ?? expect.fail();
  };
  const answer = ({ sink }: Arrival, content: string): void => {
    sink.head(200, { 'content-type': 'application/json' });
    sink.data(Buffer.from(JSON.stringify({ choices: [{ message: { role: 'assistant', content } }] })));
  };
  return {
    road,
    chats,
    speculative,
    arrive,
    answer,
    active: () => gauges.get('pointsman_speculative_prefills_active')?.(),
  };
}

it('is one token behind history and answer, of no priority, at once or not at all', async () => {
  const on = bench();
  const constraints = { ...NO_CONSTRAINTS, priority: 7, strictPriority: 3, requiredTaints: ['gpu'] };
  const changes = { constraints, enginePriority: 7, cacheSalt: 'salt', tenant: 't', policyClass: 'express' };
  const turn = on.arrive({ ...changes, loraName: 'adapter', servedAs: 'adapter', stream: true });
  on.answer(turn, 'hello');
  turn.sink.finished(REPORT);
  await Promise.resolve();
  const { lastRole: _, ...template } = CHAT;
  const messages = [...CHAT.messages, { role: 'assistant', content: 'hello' }];
  expect(on.chats).toMatchObject([{ ...template, messages, addGenerationPrompt: false }]);
  expect(on.active()).toBe(1);
  const { request, sink } = on.road.arrivals[1] ?? expect.fail();
  expect(request).toEqual({
    ...turn.request,
    requestId: 'ahead',
    door: 'speculative',
    api: 'completions',
    body: { max_tokens: 1, cache_salt: 'salt' },
    stream: false,
    tokens: Uint32Array.of(1, 2, 3),
    maxOutputTokens: 1,
    expectedOutputTokens: 1,
    constraints: { ...constraints, priority: 0, strictPriority: 0 },
    enginePriority: -2147483648,
    queueing: 'refuse',
    agentHints: null,
    stripped: [],
  });
  sink.finished(REPORT);
  expect([on.active(), on.speculative.followed]).toEqual([0, 0]);
});

it('ends with the next turn of its session, not with one of equal id and another tenant or salt', async () => {
  const on = bench();
  const session = { sessionId: 's', agentHeaders: {} };
  on.answer(on.arrive({ session, cacheSalt: 'a' }), 'hello');
  on.road.arrivals[0]?.sink.finished(REPORT);
  await Promise.resolve();
  for (const other of [{ cacheSalt: 'b' }, { cacheSalt: 'a', tenant: 'a' }, { tenant: 'a' }])
    on.arrive({ session, ...other });
  expect(on.active()).toBe(1);
  on.arrive({ session, cacheSalt: 'a' });
  expect(on.active()).toBe(0);
});

it('tells no priority to engines that were told none', async () => {
  for (const enginePriority of [null, 0]) {
    const on = bench();
    const turn = on.arrive({ enginePriority });
    on.answer(turn, 'hello');
    turn.sink.finished(REPORT);
    await Promise.resolve();
    expect(on.road.arrivals[1]?.request.enginePriority).toBeNull();
    expect(on.road.arrivals[1]?.request.body).toEqual({ max_tokens: 1 });
  }
});

it('is none beyond the limit, and nothing is followed where the limit is 0 or the router stops', async () => {
  const on = bench(1);
  const turns = [on.arrive(), on.arrive()];
  for (const turn of turns) {
    on.answer(turn, 'hello');
    turn.sink.finished(REPORT);
  }
  await Promise.resolve();
  expect([on.chats.length, on.road.arrivals.length, on.active()]).toEqual([1, 3, 1]);
  on.speculative.stop();
  expect([on.road.arrivals[2]?.aborts, on.active()]).toEqual([1, 0]);
  on.arrive();
  expect(on.speculative.followed).toBe(0);
  const off = bench(0);
  off.arrive();
  expect(off.speculative.followed).toBe(0);
});

it('keeps 64 MiB of answers at most, and lets go of those beyond', () => {
  const on = bench();
  const long = 'x'.repeat(2 ** 20 - 100);
  const turns = Array.from({ length: 70 }, () => on.arrive());
  for (const turn of turns) on.answer(turn, long);
  expect(on.speculative.followed).toBeGreaterThanOrEqual(63);
  expect(on.speculative.followed).toBeLessThanOrEqual(64);
  for (const turn of turns) turn.sink.failed(new PointsmanError('PM_ENGINE_LOST', 'gone'), true);
  expect(on.speculative.followed).toBe(0);
});

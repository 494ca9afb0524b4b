// Sessions that stay on their workers, as requests of the road see them: where they go, what fails them, and what is left behind.
import { describe, expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../config/index.ts';
import { createSoloRuntime, type HintStageResult } from '../host/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  defineHintPolicy,
  defineWorkerSelectionPolicy,
  NO_LOG,
  PointsmanError,
  pickWorker,
  type SessionContext,
} from '../plugin/index.ts';
import {
  PARTITION,
  REPORT,
  RecordingSink,
  type TestRoadOptions,
  testRoad,
  workerSpec,
} from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const LOST = new PointsmanError('PM_ENGINE_LOST', 'worker closed the connection');
const REFUSED = new PointsmanError('PM_ENGINE_REFUSED', 'the engine does not like the request');

/** Takes candidates in turn, so that nobody stays anywhere by chance. */
const rotating = (exclusiveAffinity: boolean) =>
  defineWorkerSelectionPolicy({
    type: 'rotating',
    exclusiveAffinity,
    create: () => {
      let turn = 0;
      return { picker: pickWorker({ pick: (candidates) => turn++ % candidates.count }) };
    },
  });

const of = (sessionId: string, parentSessionId?: string): { session: SessionContext } => ({
  session: { sessionId, agentHeaders: {}, ...(parentSessionId === undefined ? {} : { parentSessionId }) },
});
const pinnedTo = (workerId: bigint, rank: number | null = null) => ({
  constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank } },
});

async function bound(mode: 'hard' | 'soft', options: TestRoadOptions = {}) {
  const counts: string[] = [];
  const metrics: Metrics = {
    count: (name, labels = {}) => {
      if (name === 'pointsman_session_affinity_total') counts.push(String(labels.outcome));
    },
    observe() {},
    gauge() {},
  };
  const road = await testRoad({
    workers: [1n, 2n, 3n].map((id) => workerSpec(id)),
    selection: { definition: rotating(true) },
    affinity: { mode },
    metrics,
    ...options,
  });
  const { clock, transport } = road;
  return {
    ...road,
    counts,
    tick: () => clock.advanceTo(clock.now()),
    sentTo: () => transport.dispatched.map(({ request }) => Number(request.worker.spec.id)),
    finish: (at = transport.dispatched.length - 1) => transport.dispatched[at]?.sink.finished(REPORT),
    outcome: (one: ReturnType<typeof road.arrive>) => one.record()?.affinity,
  };
}

describe('a session bound softly', () => {
  it('stays on its worker while that can take it, and only its own requests do', async () => {
    const { arrive, sentTo, finish, outcome, counts, affinity, expectIdle } = await bound('soft');
    const first = arrive(of('s'));
    finish();
    const second = arrive(of('s'));
    finish();
    arrive();
    finish();
    arrive(of('s'));
    finish();
    expect(sentTo()).toEqual([1, 1, 2, 1]);
    expect(outcome(first)).toEqual({ mode: 'soft', target: null, outcome: 'initialised', waited_ms: null });
    expect(outcome(second)).toEqual({
      mode: 'soft',
      target: { worker_id: 1n, dp_rank: 0 },
      outcome: 'kept',
      waited_ms: null,
    });
    expect(counts).toEqual(['initialised', 'kept', 'kept']);
    expect(affinity.size).toBe(1);
    expectIdle();
  });

  it('is moved by a policy that does not keep to it, and to a worker that is there', async () => {
    const moving = await bound('soft', { selection: { definition: rotating(false) } });
    moving.arrive(of('s'));
    const second = moving.arrive(of('s'));
    expect(moving.sentTo()).toEqual([1, 2]);
    expect(moving.outcome(second)).toMatchObject({ target: { worker_id: 1n }, outcome: 'moved' });

    const { arrive, fleet, sentTo, counts } = await bound('soft');
    arrive(of('s'));
    fleet.setState(1n, 'draining');
    arrive(of('s'));
    fleet.setState(1n, 'ready');
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 3, 3]);
    expect(counts).toEqual(['initialised', 'moved', 'kept']);
  });

  it('goes where a request is pinned, and stays there', async () => {
    const { arrive, sentTo } = await bound('soft');
    arrive(of('s'));
    arrive({ ...of('s'), ...pinnedTo(3n) });
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 3, 3]);
  });

  it('moves with a request that is tried elsewhere', async () => {
    const { arrive, transport, tick, sentTo, finish, counts, expectIdle } = await bound('soft', {
      retries: { retries: 2, ratio: 1 },
    });
    arrive(of('s'));
    finish();
    arrive(of('s'));
    transport.last.sink.failed(LOST);
    tick();
    finish();
    arrive(of('s'));
    finish();
    const [, second = 0, third, fourth] = sentTo();
    expect(second).toBe(1);
    expect(third).not.toBe(1);
    expect(fourth).toBe(third);
    expect(counts).toEqual(['initialised', 'kept', 'moved', 'kept']);
    expectIdle();
  });

  it('goes on without a binding where there is no room', async () => {
    const { arrive, sentTo, counts, outcome } = await bound('soft', {
      affinity: { mode: 'soft', maxSessions: 1 },
    });
    arrive(of('s'));
    const other = arrive(of('t'));
    arrive(of('t'));
    expect(sentTo()).toEqual([1, 2, 3]);
    expect(counts).toEqual(['initialised', 'unbound', 'unbound']);
    expect(outcome(other)).toBeNull();
  });
});

describe('a session bound hard', () => {
  it('goes to its worker whatever the policy would do', async () => {
    const { arrive, sentTo, outcome, counts } = await bound('hard', {
      selection: { definition: rotating(false) },
    });
    arrive(of('s'));
    arrive(of('t'));
    const third = arrive(of('s'));
    arrive(of('t'));
    expect(sentTo()).toEqual([1, 2, 1, 2]);
    expect(outcome(third)).toMatchObject({
      mode: 'hard',
      target: { worker_id: 1n, dp_rank: 0 },
      outcome: 'bound',
    });
    expect(counts).toEqual(['initialised', 'initialised', 'bound', 'bound']);
  });

  it('fails where its worker cannot take it, and is bound anew by the next request', async () => {
    const { arrive, fleet, sentTo, counts, finish, expectIdle } = await bound('hard');
    arrive(of('s'));
    finish();
    fleet.setState(1n, 'draining');
    const failed = arrive(of('s'));
    expect(failed.sink.error).toMatchObject({
      code: 'PM_AFFINITY_UNAVAILABLE',
      status: 503,
      details: { worker_id: '1', dp_rank: 0, retry_after: '1' },
    });
    expect(failed.sink.error?.message).toMatch(
      /bound to rank 0 of worker 1, which cannot take its request now/,
    );
    arrive(of('s'));
    finish();
    fleet.setState(1n, 'ready');
    arrive(of('s'));
    finish();
    expect(sentTo()).toEqual([1, 3, 3]);
    expect(counts).toEqual(['initialised', 'invalidated', 'initialised', 'bound']);
    expectIdle();
  });

  it('is bound anew after its worker failed a request or is gone, without another try of what was bound', async () => {
    const { arrive, fleet, transport, tick, sentTo, finish, outcome, expectIdle } = await bound('hard', {
      retries: { retries: 2, ratio: 1 },
    });
    arrive(of('s'));
    finish();
    const failed = arrive(of('s'));
    transport.last.sink.failed(LOST);
    tick();
    expect(failed.sink.heard.at(-1)).toBe('failed PM_ENGINE_LOST before head');
    expect(outcome(failed)).toMatchObject({ target: { worker_id: 1n }, outcome: 'invalidated' });
    arrive(of('s'));
    finish();
    const now = sentTo().at(-1) ?? 0;
    fleet.remove(BigInt(now));
    tick();
    expect(arrive(of('s')).sink.error).toMatchObject({ code: 'PM_AFFINITY_UNAVAILABLE' });
    arrive(of('s'));
    finish();
    expect(sentTo().at(-1)).not.toBe(now);
    expect(sentTo().slice(0, 2)).toEqual([1, 1]);
    expectIdle();
  });

  it('is bound elsewhere when the request that made the binding is tried elsewhere', async () => {
    const { arrive, transport, tick, sentTo, finish, counts, expectIdle } = await bound('hard', {
      retries: { retries: 2, ratio: 1 },
    });
    const { sink } = arrive(of('s'));
    transport.last.sink.failed(LOST);
    tick();
    finish();
    arrive(of('s'));
    finish();
    expect(sink.heard.at(-1)).toBe('finished stop');
    const [first, second, third] = sentTo();
    expect(second).not.toBe(first);
    expect(third).toBe(second);
    expect(counts).toEqual(['initialised', 'invalidated', 'initialised', 'bound']);
    expectIdle();
  });

  it('stays bound when a request fails by its own fault, or its client leaves', async () => {
    const { arrive, transport, counts, affinity, sentTo } = await bound('hard');
    arrive(of('s')).ticket.abort();
    arrive(of('s'));
    transport.last.sink.failed(REFUSED);
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 1, 1]);
    expect(counts).toEqual(['initialised', 'bound', 'bound']);
    expect(affinity.size).toBe(1);
  });

  it('refuses a request that must go elsewhere, and keeps the binding', async () => {
    const { arrive, sentTo, road } = await bound('hard', {
      workers: [workerSpec(1n, { ranks: { first: 0, count: 2 } }), workerSpec(2n)],
    });
    arrive(of('s'));
    const elsewhere = [
      pinnedTo(2n),
      pinnedTo(1n, 1),
      { constraints: { ...NO_CONSTRAINTS, allowedWorkers: [2n] } },
    ].map((constraints) => arrive({ ...of('s'), ...constraints }).sink.error);
    for (const error of elsewhere) expect(error).toMatchObject({ code: 'PM_AFFINITY_CONFLICT', status: 409 });
    arrive({ ...of('s'), ...pinnedTo(1n) });
    arrive({ ...of('s'), ...pinnedTo(1n, 0) });
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 1, 1, 1]);
    expect(road.activeBookings()).toBe(4);
  });

  it('refuses what there is no room for', async () => {
    const { arrive } = await bound('hard', { affinity: { mode: 'hard', maxSessions: 1 } });
    arrive(of('s'));
    expect(arrive(of('t')).sink.error).toMatchObject({ code: 'PM_AFFINITY_FULL', status: 503 });
    expect(arrive({ session: { sessionId: 'x'.repeat(257), agentHeaders: {} } }).sink.error).toMatchObject({
      code: 'PM_AFFINITY_ID',
      status: 400,
    });
  });

  it('is not bound by a request that could not be placed', async () => {
    const { arrive, affinity, fleet } = await bound('hard');
    for (const id of [1n, 2n, 3n]) fleet.setState(id, 'draining');
    expect(arrive(of('s')).sink.error).toMatchObject({ code: 'PM_SELECTION_NO_ENDPOINTS' });
    expect(affinity.size).toBe(0);
  });

  it('can be looked at by choices, which bind nothing', async () => {
    const { arrive, road, affinity, fleet } = await bound('hard');
    const { roadRequest } = await import('./road.fixtures.ts');
    const choose = (session: string) => road.choose(roadRequest('c', of(session))).placement.workerId;
    expect(choose('s')).toBe(1n);
    expect(affinity.size).toBe(0);
    arrive(of('s'));
    const boundTo = choose('s');
    expect([choose('s'), choose('s')]).toEqual([boundTo, boundTo]);
    fleet.setState(boundTo, 'draining');
    expect(() => choose('s')).toThrowError(expect.objectContaining({ code: 'PM_AFFINITY_UNAVAILABLE' }));
    expect(choose('s')).not.toBe(boundTo);
  });
});

describe('a binding', () => {
  it('lasts for its time to live after the last request ended, and not less while one runs', async () => {
    const { arrive, clock, finish, sentTo, affinity } = await bound('hard');
    arrive(of('s'));
    clock.advanceTo(1e7);
    arrive(of('s'));
    finish(0);
    finish(1);
    clock.advanceTo(1e7 + 59_999);
    arrive(of('s'));
    finish();
    clock.advanceTo(1e7 + 119_998);
    arrive(of('s'));
    finish();
    clock.advanceTo(1e8);
    expect(affinity.size).toBe(0);
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 1, 1, 1, 2]);
  });

  it('is shared by the agents of one parent, and apart from the parent, unless each has its own', async () => {
    const grouped = await bound('hard');
    for (const [id, parent] of [['p'], ['x', 'p'], ['y', 'p'], ['z', 'q'], ['p']] as const)
      grouped.arrive(of(id, parent));
    expect(grouped.sentTo()).toEqual([1, 2, 2, 3, 1]);
    const own = await bound('hard', { affinity: { mode: 'hard', groupsSubagents: false } });
    for (const [id, parent] of [
      ['x', 'p'],
      ['y', 'p'],
      ['x', 'p'],
    ] as const)
      own.arrive(of(id, parent));
    expect(own.sentTo()).toEqual([1, 2, 1]);
  });

  it('is not asked for of requests without a session, nor where it is off; settings change at once', async () => {
    const { arrive, affinity, sentTo, counts } = await bound('hard', { affinity: {} });
    arrive(of('s'));
    arrive(of('s'));
    expect(affinity.size).toBe(0);
    affinity.set({ mode: 'soft', ttlMs: 1000, groupsSubagents: true, maxSessions: 10 });
    arrive(of('s'));
    arrive(of('s'));
    arrive();
    affinity.set({ mode: 'off', ttlMs: 1000, groupsSubagents: true, maxSessions: 10 });
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 2, 3, 3, 1, 2]);
    expect(counts).toEqual(['initialised', 'kept']);
  });
});

describe('in a queue', () => {
  const queues = queueSettingsOf(parseConfig('router: { router_queue_threshold: 0 }', 'q.yaml').config);

  it('a request takes the binding that is there when its turn comes', async () => {
    const { arrive, tick, transport, finish, sentTo, affinity, expectIdle } = await bound('hard', { queues });
    for (let worker = 0; worker < 3; worker += 1) arrive();
    // Both wait, and neither is bound yet.
    arrive(of('s'));
    arrive(of('s'));
    expect(sentTo()).toHaveLength(3);
    expect(affinity.size).toBe(0);
    for (let at = 0; at < 3; at += 1) transport.dispatched[at]?.sink.tokens(1);
    tick();
    const [fourth, fifth] = sentTo().slice(3);
    expect(fourth).toBeDefined();
    expect(fifth).toBe(fourth);
    for (let at = 0; at < 5; at += 1) finish(at);
    expectIdle();
  });

  it('one that is bound waits for its worker, while others go past it', async () => {
    const { arrive, tick, transport, finish, sentTo } = await bound('hard', { queues });
    arrive(of('s'));
    arrive(of('s'));
    tick();
    expect(sentTo()).toEqual([1]);
    arrive(of('t'));
    tick();
    expect(sentTo()).toEqual([1, 2]);
    transport.dispatched[0]?.sink.tokens(1);
    tick();
    expect(sentTo()).toEqual([1, 2, 1]);
    finish();
  });

  it('one whose binding was dropped meanwhile makes another', async () => {
    const { arrive, tick, transport, sentTo, fleet, counts } = await bound('hard', { queues });
    arrive(of('s'));
    const waiting = arrive(of('s'));
    transport.dispatched[0]?.sink.failed(LOST);
    fleet.setState(1n, 'draining');
    tick();
    expect(waiting.sink.error).toBeNull();
    expect(sentTo()[1]).not.toBe(1);
    expect(counts).toEqual(['initialised', 'invalidated', 'initialised']);
  });
});

describe('while the binding is being made', () => {
  /** A hint stage that answers when the test says so. */
  async function staged(mode: 'hard' | 'soft') {
    const answers: ((result: HintStageResult) => void)[] = [];
    const canceled: number[] = [];
    const road = await bound(mode, {
      runtime: async ({ fleet, clock }) => ({
        ...(await createSoloRuntime({
          selection: { definition: rotating(true) },
          hints: [{ definition: defineHintPolicy({ type: 'h', create: () => ({ buildHints: () => [] }) }) }],
          partition: PARTITION,
          role: 'aggregated',
          blockSize: 16,
          clock,
          seed: 7,
          log: NO_LOG,
          fleet,
        })),
        threadedHints: {
          start(_booking, hinted) {
            const at = answers.push(hinted) - 1;
            return { pending: true, cancel: () => void canceled.push(at) };
          },
        },
      }),
    });
    const answer = (at: number): void =>
      answers[at]?.({ hint: null, capable: true, policies: [], actionPolicies: [] });
    return { ...road, answer, answers, canceled };
  }

  it.each(['hard', 'soft'] as const)(
    'others of the session wait, and go where it went (%s)',
    async (mode) => {
      const { arrive, answer, answers, clock, tick, sentTo, outcome, counts, road, expectIdle, finish } =
        await staged(mode);
      arrive(of('s'));
      const second = arrive(of('s'));
      arrive(of('s'));
      const other = arrive(of('t'));
      expect(answers).toHaveLength(2);
      expect(road.activeBookings()).toBe(2);
      clock.advanceTo(clock.now() + 25);
      answer(0);
      // Not inside of the other's walk.
      expect(answers).toHaveLength(2);
      tick();
      for (const at of [1, 2, 3]) answer(at);
      expect(sentTo()).toEqual([1, 2, 1, 1]);
      expect(outcome(second)).toMatchObject({ target: { worker_id: 1n }, waited_ms: 25 });
      expect(outcome(other)).toMatchObject({ outcome: 'initialised', waited_ms: null });
      expect(counts.filter((what) => what === 'waited')).toHaveLength(2);
      for (let at = 0; at < 4; at += 1) finish(at);
      expectIdle();
    },
  );

  it('one that leaves is not placed, and the others are', async () => {
    const { arrive, answer, answers, tick, sentTo, finish, expectIdle } = await staged('hard');
    arrive(of('s'));
    const leaves = arrive(of('s'));
    arrive(of('s'));
    leaves.ticket.abort();
    expect(leaves.sink.heard).toEqual([]);
    answer(0);
    tick();
    expect(answers).toHaveLength(2);
    answer(1);
    expect(sentTo()).toEqual([1, 1]);
    finish(0);
    finish(1);
    expectIdle();
  });

  it('one that leaves between its call and its turn is not placed either', async () => {
    const { arrive, answer, answers, tick, affinity } = await staged('hard');
    arrive(of('s'));
    const leaves = arrive(of('s'));
    answer(0);
    leaves.ticket.abort();
    tick();
    expect(answers).toHaveLength(1);
    expect(affinity.size).toBe(1);
  });

  it('the next one makes it when the first is given up', async () => {
    const { arrive, answer, answers, canceled, tick, sentTo, finish, expectIdle, counts } =
      await staged('hard');
    const first = arrive(of('s'));
    arrive(of('s'));
    arrive(of('s'));
    first.ticket.abort();
    expect(canceled).toEqual([0]);
    tick();
    expect(answers).toHaveLength(2);
    answer(1);
    tick();
    answer(2);
    expect(sentTo()).toHaveLength(2);
    expect(new Set(sentTo()).size).toBe(1);
    expect(counts).toEqual(['waited', 'waited', 'waited', 'initialised', 'bound']);
    finish(0);
    finish(1);
    expectIdle();
  });

  it('one whose worker goes meanwhile binds nothing', async () => {
    const { arrive, answers, affinity, fleet, tick, canceled } = await staged('hard');
    const { sink } = arrive(of('s'));
    fleet.remove(1n);
    expect(sink.heard.at(-1)).toMatch(/^failed PM_ENGINE_LOST/);
    tick();
    expect([answers.length, canceled, affinity.size]).toEqual([1, [0], 0]);
  });
});

it('a door that throws when it is told of the booking leaves no lease behind', async () => {
  const { arrive, affinity, clock, expectIdle } = await bound('hard');
  const sink = new RecordingSink();
  sink.failOn = 'booked';
  arrive(of('s'), sink);
  expectIdle();
  clock.advanceTo(1e7);
  expect(affinity.size).toBe(0);
});

// Sessions that stay on their workers, as requests of the road see them: where they go, what fails them, and what is left behind.
import { describe, expect, it } from 'vitest';
import { defineWorkerSelectionPolicy, PointsmanError, pickWorker } from '../plugin/index.ts';
import { bound, LOST, of, rotating } from './affinity.fixtures.ts';
import { RecordingSink, roadRequest, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const REFUSED = new PointsmanError('PM_ENGINE_REFUSED', 'the engine does not like the request');

const pinnedTo = (workerId: bigint, rank: number | null = null) => ({
  constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank } },
});

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

  it('stays when its policy is broken, and the default cost decides', async () => {
    let broken = false;
    const definition = defineWorkerSelectionPolicy({
      type: 'breaks',
      create: () => ({
        picker: pickWorker({
          pick() {
            if (broken) throw new Error('broken');
            return 2;
          },
        }),
      }),
    });
    const ranks = { first: 0, count: 2 };
    const workers = [workerSpec(1n), workerSpec(2n, { ranks }), workerSpec(3n)];
    const { arrive, fleet, sentTo } = await bound('soft', { selection: { definition }, workers });
    arrive(of('s'));
    broken = true;
    const kept = arrive(of('s'));
    arrive(of('s'));
    expect(kept.record()?.pick).toMatchObject({ worker_id: 2n, dp_rank: 1, by: 'default_after_failure' });
    fleet.setState(2n, 'draining');
    arrive(of('s'));
    expect(sentTo().slice(0, 3)).toEqual([2, 2, 2]);
    expect(sentTo()[3]).not.toBe(2);
  });

  it('goes where a request is pinned, and stays there', async () => {
    const { arrive, sentTo } = await bound('soft');
    arrive(of('s'));
    const pinned = arrive({ ...of('s'), ...pinnedTo(3n) });
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 3, 3]);
    expect(pinned.record()?.pick.by).toBe('pinned');
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
    expect(third.record()?.pick.by).toBe('affinity');
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

  it('stays where another request bound it while the one that made it first waited for its second try', async () => {
    const { arrive, transport, tick, sentTo, counts, outcome } = await bound('hard', {
      retries: { retries: 1, ratio: 1 },
    });
    const first = arrive(of('s'));
    const details = { engine_status: 503 };
    transport.dispatched[0]?.sink.failed(new PointsmanError('PM_ENGINE_FAILED', 'no', { details }));
    const second = arrive({ ...of('s'), ...pinnedTo(1n) });
    tick();
    // It may not go to the worker that failed it, and what it is told is why that did.
    expect(first.sink.error?.code).toBe('PM_ENGINE_FAILED');
    expect(outcome(second)?.outcome).toBe('initialised');
    arrive(of('s'));
    expect(sentTo()).toEqual([1, 1, 1]);
    expect(counts).toEqual(['initialised', 'invalidated', 'initialised', 'bound']);
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

it('a door that throws when it is told of the booking leaves no lease behind', async () => {
  const { arrive, affinity, clock, expectIdle } = await bound('hard');
  const sink = new RecordingSink();
  sink.failOn = 'booked';
  arrive(of('s'), sink);
  expectIdle();
  clock.advanceTo(1e7);
  expect(affinity.size).toBe(0);
});

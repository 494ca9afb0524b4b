// Requests that wait for their turn on the road: who waits and when they go on.
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { classified, queued, settings, THRESHOLD, TWO } from './admission-queue.fixtures.ts';
import { prompt, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

describe('a request for busy workers', () => {
  it('waits until a prompt is computed, in order of arrival, with its wait in record and metrics', async () => {
    const on = await queued(THRESHOLD);
    const first = on.arrive();
    const second = on.arrive();
    const third = on.arrive();
    expect([on.dispatched(), second.sink.heard, third.sink.heard]).toEqual([['r1'], [], []]);
    expect(on.gauge('pointsman_queue_pending_requests')).toEqual([
      { labels: { model: 'tiny', role: 'aggregated', policy_class: 'default' }, value: 2 },
    ]);
    expect(on.gauge('pointsman_queue_pending_isl_tokens')).toMatchObject([{ value: 128 }]);
    on.later(250);
    on.firstToken(0);
    // Not inside of another's call.
    expect(on.dispatched()).toEqual(['r1']);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2']);
    on.later(50);
    on.firstToken(1);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2', 'r3']);
    expect([first, second, third].map(({ record }) => record()?.queue)).toEqual([
      { class: 'default', waited_ms: 0, outcome: 'direct', cost_tokens: null, bucket: null },
      { class: 'default', waited_ms: 250, outcome: 'queued', cost_tokens: 64, bucket: null },
      { class: 'default', waited_ms: 300, outcome: 'queued', cost_tokens: 64, bucket: null },
    ]);
    expect([on.waits, on.count('pointsman_queue_requests_total tiny aggregated default admitted')]).toEqual([
      [0.25, 0.3],
      2,
    ]);
    for (const at of [0, 1, 2]) on.end(at);
    // From arrival, the wait included; what the booking was held is told apart.
    expect(
      [first, second].map(({ record }) => [
        record()?.outcome?.ttft_ms,
        record()?.outcome?.e2e_ms,
        record()?.booking.held_ms,
      ]),
    ).toEqual([
      [250, 300, 300],
      [300, 300, 50],
    ]);
    expect(on.gauge('pointsman_queue_pending_requests')).toMatchObject([{ value: 0 }]);
    expect([on.gauge('pointsman_queue_kept_bytes'), on.clock.nextTimerAt()]).toEqual([0, null]);
    on.expectIdle();
  });

  it('that asks for a class nobody has is counted, whether or not it waits', async () => {
    const on = await queued(THRESHOLD);
    on.arrive({ policyClass: 'premum' });
    on.arrive({ policyClass: 'default' });
    on.arrive();
    expect(on.count('pointsman_queue_unknown_classes_total tiny')).toBe(1);
  });

  it('keeps its session while it waits, and every byte of it is counted', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    const without = () => Number(on.gauge('pointsman_queue_kept_bytes'));
    on.arrive();
    // Four blocks of 16 tokens: two hashes of 8 bytes for each.
    expect(without()).toBe(64);
    const agentHeaders = { 'x-codex-a': ['12', ''], 'thread-id': ['t'] };
    const ids = { sessionId: 'child', parentSessionId: 'root', inputTrigger: 'other' };
    const held = on.arrive({ session: { ...ids, agentHeaders } });
    expect(without()).toBe(128 + 5 + 4 + 5 + (9 + 2) + 9 + (9 + 1));
    held.ticket.abort();
    expect(without()).toBe(64);
    on.firstToken(0);
    on.now();
    expect(without()).toBe(0);
    for (const at of [0, 1]) on.end(at);
    on.expectIdle();
  });

  it('goes on at once where nothing is configured, and leaves no trace of a queue', async () => {
    const { arrive, dispatched, clock } = await queued(settings(''));
    arrive();
    const { record } = arrive();
    expect([dispatched(), clock.nextTimerAt()]).toEqual([['r1', 'r2'], null]);
    expect(record()?.queue).toEqual({ class: 'default', waited_ms: 0, outcome: 'direct' });
  });

  it('takes free workers as long as there are any, and waits by the ratio of workers where one is set', async () => {
    const workers = [1n, 2n, 3n].map((id) => workerSpec(id));
    const all = await queued(THRESHOLD, { workers });
    for (let at = 0; at < 5; at += 1) all.arrive({ tokens: prompt(at, 64) });
    expect(all.dispatched()).toHaveLength(3);
    const ratio = TWO.replaceAll(
      'prefill_busy_threshold: 0',
      'prefill_busy_threshold: 0, busy_worker_ratio: 0.6',
    );
    const some = await queued(settings(ratio), { workers });
    for (let at = 0; at < 5; at += 1) some.arrive({ tokens: prompt(at, 64) });
    expect(some.dispatched()).toHaveLength(2);
  });

  it('waits for the worker that it is pinned to alone, and hides nobody else', async () => {
    const on = await queued(THRESHOLD, { workers: [workerSpec(1n), workerSpec(2n)] });
    on.arrive({ ...on.pinned(1n) });
    on.arrive({ ...on.pinned(1n) });
    expect(on.dispatched()).toEqual(['r1']);
    // Behind one of its class it is not overtaken, but looked at with it.
    on.arrive();
    expect(on.dispatched()).toEqual(['r1']);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r3']);
    on.end(1);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r3']);
    on.end(0);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r3', 'r2']);
    on.end(2);
    on.expectIdle();
  });

  it('is refused by selection, not queued, where nobody could take it', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    expect(on.arrive(on.pinned(9n)).sink.heard).toEqual([
      'failed PM_SELECTION_PINNED_UNAVAILABLE before head',
    ]);
    on.fleet.setState(1n, 'draining');
    expect(on.arrive().sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
  });

  it('goes on when a worker comes, and is answered when all are gone', async () => {
    const on = await queued(THRESHOLD);
    on.arrive();
    on.arrive();
    on.fleet.add(workerSpec(2n));
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2']);
    const third = on.arrive();
    on.fleet.setState(1n, 'gone');
    on.fleet.setState(2n, 'gone');
    on.now();
    expect(third.sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
    on.expectIdle();
  });

  it('finds at its turn what was cached meanwhile', async () => {
    const on = await queued(THRESHOLD, { workers: [workerSpec(1n), workerSpec(2n)] });
    on.arrive({ tokens: prompt(5, 64) });
    on.arrive({ tokens: prompt(6, 64) });
    const late = on.arrive({ tokens: prompt(7, 64) });
    on.cache(2n, prompt(7, 64));
    on.end(0);
    on.end(1);
    on.now();
    expect(late.record()).toMatchObject({ pick: { worker_id: 2n }, prediction: { cached_tokens: 48 } });
  });
});

describe('a request that is tried again', () => {
  it('had its turn: it is not put behind others, and counts for what it did', async () => {
    const workers = [1n, 2n].map((id) => workerSpec(id));
    const on = await queued(THRESHOLD, { workers, retries: { retries: 2, ratio: 1 } });
    on.arrive();
    on.arrive();
    const third = on.arrive();
    const fourth = on.arrive();
    on.end(0);
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2', 'r3']);
    on.later(5);
    on.transport.dispatched[2]?.sink.failed(new PointsmanError('PM_ENGINE_LOST', 'gone'));
    on.now();
    // Its failed booking made room, which is the next one's; it goes at once all the same.
    expect(on.dispatched().filter((id) => id === 'r3')).toHaveLength(2);
    const [first, second] = on.decisions?.ofRequest('r3') ?? [];
    expect([first?.queue, second?.queue]).toMatchObject([
      { class: 'default', outcome: 'queued', cost_tokens: 64 },
      { class: 'default', outcome: 'direct', waited_ms: 0, cost_tokens: 64 },
    ]);
    on.later(300);
    for (let at = 0; at < 8; at += 1) {
      on.end(at);
      on.now();
    }
    expect([third, fourth].map(({ sink }) => sink.heard.at(-1))).toEqual(['finished stop', 'finished stop']);
    on.expectIdle();
  });
});

describe('a class', () => {
  it('is that of the family and of what nobody has cached, else the one that was asked for', async () => {
    const on = await queued(settings(TWO));
    on.cache(1n, prompt(1, 192));
    const of = (changes: Parameters<typeof on.arrive>[0]) => on.arrive(changes).record()?.queue;
    const direct = { waited_ms: 0, outcome: 'direct' };
    expect(of({ tokens: prompt(2, 64) })).toEqual({
      ...direct,
      class: 'short',
      cost_tokens: 64,
      bucket: 'short',
    });
    on.end(0);
    expect(of({ tokens: prompt(3, 192) })).toEqual({
      ...direct,
      class: 'long',
      cost_tokens: 192,
      bucket: 'long',
    });
    on.end(1);
    expect(of({ tokens: prompt(1, 192) })).toEqual({
      ...direct,
      class: 'short',
      cost_tokens: 1,
      bucket: 'short',
    });
    on.end(2);
    for (const policyClass of ['express', 'open']) {
      const named = { ...direct, class: policyClass, cost_tokens: null, bucket: null };
      expect(of({ tokens: prompt(4, 192), policyClass })).toEqual(named);
      on.end(on.transport.dispatched.length - 1);
    }
    expect(of({ tokens: prompt(5, 192), policyClass: 'long' })).toMatchObject({ class: 'long' });
  });

  it('without a threshold lets everybody go, whoever waits in others', async () => {
    const on = await queued(settings(TWO));
    on.arrive();
    on.arrive();
    on.arrive({ policyClass: 'open' });
    expect(on.dispatched()).toEqual(['r1', 'r3']);
  });

  it('is named by the classifier, which may also clear what the caller asked for', async () => {
    const named = await queued(settings(TWO), classified({ policyClass: 'express' }));
    expect(named.arrive({ policyClass: 'open' }).record()?.queue.class).toBe('express');
    const cleared = await queued(settings(TWO), classified({ policyClass: null }));
    expect(cleared.arrive({ policyClass: 'open' }).record()?.queue.class).toBe('short');
  });

  it('takes turns by strict priority, then priority, and by what the classifier says a turn costs', async () => {
    const wspt = settings('router: { router_queue_threshold: 0, router_queue_policy: wspt }');
    const on = await queued(wspt);
    on.arrive();
    const constraints = (priority: number, strictPriority: number) => ({
      constraints: { ...NO_CONSTRAINTS, priority, strictPriority },
    });
    on.arrive({ tokens: prompt(1, 96) });
    on.arrive({ tokens: prompt(2, 64) });
    on.arrive({ tokens: prompt(3, 640), ...constraints(99, 0) });
    on.arrive({ tokens: prompt(4, 640), ...constraints(0, 1) });
    for (let at = 0; at < 4; at += 1) {
      on.end(at);
      on.now();
    }
    expect(on.dispatched()).toEqual(['r1', 'r5', 'r4', 'r3', 'r2']);
    const cost = await queued(wspt, classified({ schedulingCostTokens: 7 }));
    cost.arrive();
    const { record } = cost.arrive();
    cost.end(0);
    cost.now();
    expect(record()?.queue).toMatchObject({ outcome: 'queued', cost_tokens: 7 });
  });

  it('that is full refuses with its figures and a time', async () => {
    const on = await queued(settings(TWO));
    on.arrive({ tokens: prompt(1, 128) });
    on.arrive({ tokens: prompt(2, 128) });
    const { sink } = on.arrive({ tokens: prompt(3, 128) });
    expect(sink.heard).toEqual(['failed PM_QUEUE_FULL before head']);
    expect(sink.error?.status).toBe(429);
    expect(sink.error?.details).toEqual({
      refusal: 'queue_full',
      policy_class: 'long',
      model: 'tiny',
      role: 'aggregated',
      limit_kind: 'requests',
      current: 1,
      limit: 1,
      retry_after: '1',
    });
    expect(on.count('pointsman_overload_refusals_total tiny queue_full')).toBe(1);
    // Losing a worker takes nobody out; another one makes room.
    on.fleet.add(workerSpec(2n));
    on.now();
    expect(on.dispatched()).toEqual(['r1', 'r2']);
    on.arrive({ tokens: prompt(4, 128) });
    on.arrive({ tokens: prompt(5, 128) });
    expect(on.arrive({ tokens: prompt(6, 128) }).sink.error?.details).toMatchObject({ current: 2, limit: 2 });
    on.fleet.setState(2n, 'gone');
    on.now();
    expect(on.gauge('pointsman_queue_pending_requests')).toMatchObject([{ value: 0 }, { value: 2 }, {}, {}]);
  });
});

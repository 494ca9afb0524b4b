// Selections that are not advisory wait for their turn like requests that are booked, and are answered without a booking.
import { afterEach, describe, expect, it } from 'vitest';
import { until } from './live-support.ts';
import {
  type Answer,
  ask,
  type Json,
  type LocalService,
  type LocalServiceOptions,
  localService,
} from './support/selection-client.ts';

const running: LocalService[] = [];
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
});

const PROMPT = { token_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] };
const QUEUED = 'router: { use_kv_events: false, router_queue_threshold: 0 }';

/** A service whose only worker is busy with the prompt of the reservation `busy`. */
async function busyService(yaml = QUEUED, more: LocalServiceOptions = {}): Promise<LocalService> {
  const started = await localService({ yaml, ...more });
  running.push(started);
  await started.client.worker(1, { max_num_batched_tokens: 100 });
  const { status } = await started.client.post('/select_and_reserve', { ...PROMPT, selection_id: 'busy' });
  expect(status).toBe(200);
  return started;
}

function pendingOf({ service }: LocalService): number {
  return service.core.road.waitingOf({ model: 'default', routingGroup: 'default' }).requests;
}

/** Sends selections one after the other, each after the one before waits. */
async function selectWaiting(local: LocalService, bodies: readonly Json[]): Promise<Promise<Answer>[]> {
  const answers: Promise<Answer>[] = [];
  for (const body of bodies) {
    answers.push(local.client.post('/select', { ...PROMPT, ...body }));
    await until('it waits', () => pendingOf(local) === answers.length);
  }
  return answers;
}

function settle({ clock }: LocalService): void {
  clock.advanceTo(clock.now() + 1);
}

describe('a selection that is not advisory', () => {
  it('waits while workers are busy and is answered at its turn, without a booking', async () => {
    const local = await busyService();
    const { client, service } = local;
    const [waiting] = await selectWaiting(local, [{ selection_id: 's' }]);
    expect((await client.post('/reservations', { selection_id: 's' })).status).toBe(404);
    const advised = await client.post('/select', { ...PROMPT, advisory: true });
    expect(advised.value).toMatchObject({ worker_id: 1, worker_load: { active_prefill_tokens: 10 } });
    await client.post('/reservations/busy/prefill_complete');
    settle(local);
    const answer = await waiting;
    expect(answer).toMatchObject({ status: 200, value: { worker_id: 1, effective_prefill_tokens: 2 } });
    expect(answer?.value).not.toHaveProperty('worker_load');
    expect(pendingOf(local)).toBe(0);
    expect(service.core.road.activeBookings()).toBe(1);
    expect((await client.post('/reservations', { selection_id: 's' })).status).toBe(201);
    expect(service.core.road.activeBookings()).toBe(2);
  });

  it('goes in the order of its class, and takes nobody else his turn', async () => {
    const local = await busyService();
    const order: string[] = [];
    const bodies = [{ selection_id: 'first' }, { selection_id: 'urgent', strict_priority: 5 }];
    const [first, urgent] = await selectWaiting(local, bodies);
    void urgent?.then(() => order.push('urgent'));
    void first?.then(() => order.push('first'));
    const reserved = local.client.post('/select_and_reserve', { ...PROMPT, selection_id: 'r' });
    await until('three wait', () => pendingOf(local) === 3);
    await local.client.delete('/reservations/busy');
    settle(local);
    // Neither selection makes the worker busy: all three go at once.
    expect((await reserved).status).toBe(200);
    expect((await first)?.status).toBe(200);
    expect((await urgent)?.status).toBe(200);
    expect(order).toEqual(['urgent', 'first']);
    expect(pendingOf(local)).toBe(0);
  });

  it('leaves the queue with its client', async () => {
    const local = await busyService();
    const { client, service } = local;
    const leaving = new AbortController();
    const body = { ...PROMPT, selection_id: 's' };
    const left = ask(client.url, 'POST', '/select', body, {}, leaving.signal);
    await until('it waits', () => pendingOf(local) === 1);
    leaving.abort();
    await expect(left).rejects.toThrow('abort');
    await until('it is gone', () => pendingOf(local) === 0);
    await client.delete('/reservations/busy');
    settle(local);
    expect((await client.post('/reservations', { selection_id: 's' })).status).toBe(404);
    expect(service.core.road.activeBookings()).toBe(0);
    // The recheck of a queue comes every 100 ms.
    expect((local.clock.nextTimerAt() ?? Infinity) - local.clock.now()).toBeGreaterThan(100);
  });

  it('is refused with 429 where its class is full, and counts for the limit', async () => {
    const local = await busyService(`
router: { use_kv_events: false }
default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: all }]
policy_classes:
  - { name: all, policy_family: standard, cache_bucket: all, quantum: 1, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
`);
    const [waiting] = await selectWaiting(local, [{}]);
    for (const path of ['/select', '/select_and_reserve']) {
      const refused = await local.client.post(path, PROMPT);
      expect(refused).toMatchObject({
        status: 429,
        value: { kind: 'scheduler', code: 'PM_QUEUE_FULL', details: { current: 1, limit: 1 } },
      });
      expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    await local.client.delete('/reservations/busy');
    settle(local);
    expect((await waiting)?.status).toBe(200);
  });

  it('counts for concurrent requests while it waits, and no longer', async () => {
    const local = await busyService(`${QUEUED}\nlimits: { concurrent_requests: 2 }`);
    const [waiting] = await selectWaiting(local, [{}]);
    expect(await local.client.post('/select', PROMPT)).toMatchObject({
      status: 429,
      value: { code: 'PM_OVERLOADED' },
    });
    expect((await local.client.post('/select', { ...PROMPT, advisory: true })).status).toBe(200);
    await local.client.delete('/reservations/busy');
    settle(local);
    expect((await waiting)?.status).toBe(200);
    for (let at = 0; at < 4; at += 1) expect((await local.client.post('/select', PROMPT)).status).toBe(200);
  });

  it('asks no classifier', async () => {
    let asked = 0;
    const local = await busyService(`${QUEUED}\nrequest_classifier: counting`, {
      register: (registry) =>
        registry.registerRequestClassifier('counting', () => ({
          create: () => ({
            classify: () => {
              asked += 1;
              return undefined;
            },
          }),
        })),
    });
    expect(asked).toBe(1);
    const [waiting] = await selectWaiting(local, [{}]);
    await local.client.delete('/reservations/busy');
    settle(local);
    expect((await waiting)?.status).toBe(200);
    expect(asked).toBe(1);
  });

  it('is told why when its worker goes, or the service stops, while it waits', async () => {
    const local = await busyService();
    const [gone] = await selectWaiting(local, [{}]);
    await local.client.delete('/workers/1');
    settle(local);
    expect((await gone)?.status).toBe(503);
    await local.client.worker(1, { max_num_batched_tokens: 100 });
    await local.client.post('/select_and_reserve', { ...PROMPT, selection_id: 'busy' });
    const [stopped] = await selectWaiting(local, [{}]);
    running.splice(0);
    await local.service.stop();
    expect(await stopped).toMatchObject({ status: 503, value: { code: 'PM_SHUTTING_DOWN' } });
  });
});

// Admission queues between clients and engines on real sockets: who waits, what the refused read, and who goes on when a client leaves.
import { expect, it } from 'vitest';
import { engines, router, routerYaml } from './live-support.ts';
import { eventually, promptOf } from './support/live-processes.ts';

const PROFILE = `router: { trust_routing_fields_from: [127.0.0.1/32] }
default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - { name: any, policy_family: standard, cache_bucket: any, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
  - { name: express, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0 }
`;

it('lets requests wait, refuses those beyond the limits of their class, and goes on when there is room', async () => {
  // A prompt takes the better part of a minute: nothing here ends by itself.
  const spawned = await engines(1, '--speed', '0.001');
  const running = await router(
    routerYaml(
      spawned.engines.map((engine) => engine.url),
      PROFILE,
    ),
  );
  const { core, metrics, url } = running;
  const ask = (seed: number, headers: Record<string, string> = {}) => {
    const leaving = new AbortController();
    const answer = fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'tiny', max_tokens: 2, prompt: promptOf(seed, 64) }),
      signal: leaving.signal,
    });
    const left = answer.then(
      () => false,
      () => true,
    );
    return { answer, left, leave: () => leaving.abort() };
  };
  const pending = (count: number): Promise<unknown> =>
    eventually(`${count} wait`, async () => {
      const text = await metrics.text();
      const found = /pointsman_queue_pending_requests\{[^}]*policy_class="any"\} (\d+)/.exec(text);
      return Number(found?.[1] ?? 0) === count || undefined;
    });
  const bookings = (count: number): Promise<unknown> =>
    eventually(`${count} are booked`, async () => core.road.activeBookings() === count || undefined);
  const first = ask(1);
  await bookings(1);
  const second = ask(2, { 'x-request-id': 'second' });
  await pending(1);

  for (const [headers, policyClass, current, limit] of [
    [{}, 'any', 1, 1],
    [{ 'x-dynamo-meta-policy-class': 'express' }, 'express', 0, 0],
    [{ 'x-dynamo-meta-policy-class': 'unknown' }, 'any', 1, 1],
  ] as const) {
    const refused = await ask(3, headers).answer;
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await refused.json()).toMatchObject({
      error: {
        type: 'rate_limit_error',
        code: 'PM_QUEUE_FULL',
        details: { reason: 'queue_full', policy_class: policyClass, limit_kind: 'requests', current, limit },
      },
    });
  }
  expect(await metrics.text()).toContain(
    'pointsman_overload_refusals_total{model="tiny",reason="queue_full"} 3',
  );

  first.leave();
  expect(await first.left).toBe(true);
  await pending(0);
  await bookings(1);
  expect(core.decisions?.list(1, {})[0]?.queue).toMatchObject({
    class: 'any',
    outcome: 'queued',
    cost_tokens: 64,
    bucket: 'any',
  });
  second.leave();
  expect(await second.left).toBe(true);
  await bookings(0);
});

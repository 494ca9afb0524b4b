// Selections and reservations that wait in a queue, under clients that leave, ids used twice, and workers that come and go: every call is
// answered once, and nothing stays behind.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { until } from './live-support.ts';
import { ask, type Json, localService } from './support/selection-client.ts';

const QUEUES = `router: { use_kv_events: false }
default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: short }, { min_tokens: 12, bucket: long }]
policy_classes:
  - { name: short, policy_family: standard, cache_bucket: short, quantum: 8, prefill_busy_threshold: 0, queue_policy: wspt }
  - { name: long, policy_family: standard, cache_bucket: long, quantum: 4, prefill_busy_threshold: 8, request_queue_limit_per_worker: 2 }
limits: { concurrent_requests: 10 }
`;
const PARTITION = { model: 'default', routingGroup: 'default' };

const id = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const call = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      path: fc.constantFrom('/select', '/select_and_reserve'),
      selection_id: id,
      tokens: fc.constantFrom(3, 10, 30),
      pinned: fc.constantFrom(null, null, 1, 2),
      leaves: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ replay: id, workerId: fc.constantFrom(null, null, 1) }) },
  { weight: 3, arbitrary: fc.record({ end: id, with: fc.constantFrom('delete', 'prefill_complete') }) },
  {
    weight: 2,
    arbitrary: fc.record({ worker: fc.constantFrom(1, 2), does: fc.constantFrom('come', 'go', 'drain') }),
  },
  { weight: 3, arbitrary: fc.record({ ms: fc.constantFrom(0, 1, 100) }) },
);
const FINE: readonly number[] = [200, 201, 404, 409, 429, 503];

it('selections, bookings and their queue end in nothing, whatever clients and workers do', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 40, size: 'max' }), async (calls) => {
      const { client, clock, service } = await localService({ yaml: QUEUES });
      const { road } = service.core;
      const asked: Promise<number>[] = [];
      const leave: AbortController[] = [];
      const send = (path: string, body: Json, leaves: boolean): void => {
        const leaving = new AbortController();
        if (leaves) leave.push(leaving);
        asked.push(
          ask(client.url, 'POST', path, body, {}, leaving.signal).then(
            ({ status }) => status,
            () => 0,
          ),
        );
      };
      const worker = (of: number) => client.worker(of, { max_num_batched_tokens: 100 });
      await worker(1);
      for (const one of calls) {
        if ('path' in one) {
          const { path, selection_id, tokens, pinned, leaves } = one;
          const token_ids = Array.from({ length: tokens }, (_, at) => at + 1);
          send(
            path,
            { token_ids, selection_id, ...(pinned === null ? {} : { pinned_worker: { worker_id: pinned } }) },
            leaves,
          );
        } else if ('replay' in one) {
          const at = one.workerId === null ? {} : { worker_id: one.workerId, token_ids: [1, 2, 3] };
          send('/reservations', { selection_id: one.replay, ...at }, false);
        } else if ('end' in one) {
          const path = `/reservations/${one.end}`;
          const answer = await (one.with === 'delete'
            ? client.delete(path)
            : client.post(`${path}/${one.with}`));
          expect(FINE).toContain(answer.status);
        } else if ('worker' in one) {
          if (one.does === 'come') await worker(one.worker);
          else if (one.does === 'go') await client.delete(`/workers/${one.worker}`);
          else await client.patch(`/workers/${one.worker}`, { lifecycle: 'draining' });
        } else {
          leave.shift()?.abort();
          clock.advanceTo(clock.now() + one.ms);
        }
      }
      for (const one of leave) one.abort();
      // Whoever is booked ends, so everybody's turn comes.
      let over = false;
      const all = Promise.all(asked).finally(() => {
        over = true;
      });
      while (!over) {
        for (const held of ['a', 'b', 'c', 'd', 'e']) await client.delete(`/reservations/${held}`);
        clock.advanceTo(clock.now() + 100);
      }
      for (const status of await all) expect([0, ...FINE]).toContain(status);
      await until(
        'those that left are gone',
        () => service.reservedIds() === road.activeBookings() && road.waitingOf(PARTITION).requests === 0,
      );
      for (const held of ['a', 'b', 'c', 'd', 'e']) await client.delete(`/reservations/${held}`);
      expect([road.activeBookings(), service.reservedIds(), road.waitingOf(PARTITION)]).toEqual([
        0,
        0,
        { requests: 0, promptTokens: 0 },
      ]);
      // None is counted as under way any more.
      await worker(1);
      for (let at = 0; at < 11; at += 1) {
        const { status } = await client.post('/select', { token_ids: [1, 2, 3] });
        expect(status).toBe(200);
      }
      const { value } = await client.get('/metrics');
      expect(String(value.text)).toMatch(/^pointsman_queue_kept_bytes 0$/m);
      await service.stop();
    }),
    { numRuns: 30 },
  );
});

// Whatever clients send: no answer is a fault of the service, and nothing stays booked that nobody was told of.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ask, type LocalService, localService, type SelectionClient } from './support/selection-client.ts';

let started: LocalService;
beforeAll(async () => {
  started = await localService();
  for (const id of [1n, 2n ** 64n - 1n]) await started.client.worker(id);
});
afterAll(() => started.service.stop());

const place = { worker_id: 1, dp_rank: 0 };
const prompt = { token_ids: [1, 2, 3, 4, 5], lora_name: 'a', cache_salt: 'b', is_eagle: false };
const hashes = { block_hashes: [1, 2], sequence_hashes: [1, 3], isl_tokens: 9 };
const images = {
  mm_routing_info: { routing_token_ids: [1, 2, 3, 4], block_mm_infos: [{ mm_objects: [{ mm_hash: 5 }] }] },
};
const choice = {
  ...prompt,
  selection_id: 'a',
  model_name: 'default',
  routing_group: 'default',
  router_config_override: { overlap_score_credit: 2, router_temperature: 0.5, assume_kv_reuse: false },
  expected_output_tokens: 10,
  priority_jump: 1.5,
  strict_priority: 1,
  session_context: { session_id: 's', parent_session_id: 'p', session_final: true, input_trigger: 'other' },
  affinity_target: place,
  pinned_worker: place,
  allowed_worker_ids: [1],
  routing_constraints: { required_taints: [], preferred_taints: { a: 0.5 } },
};
const worker = {
  worker_id: 3,
  endpoint: 'http://127.0.0.1:1',
  kv_events_endpoint: 'tcp://127.0.0.1:1',
  kv_events_endpoints: { '0': 'tcp://127.0.0.1:1' },
  replay_endpoint: 'tcp://127.0.0.1:2',
  block_size: 4,
  data_parallel_size: 1,
  taints: ['a'],
  topology_domains: { zone: 'a' },
  router_hint_worker_type: 'aggregated',
  router_hint_actions: ['kv.fetch@1.0'],
  router_hint_source_control_endpoints: { '0': 'tcp://127.0.0.1:3' },
};

/** Calls as they should be, by path. */
const CALLS: readonly (readonly [string, string, object])[] = [
  ['POST', '/workers', worker],
  ['PATCH', '/workers/3', worker],
  ['POST', '/select', choice],
  ['POST', '/select', { ...hashes, selection_id: 'b' }],
  ['POST', '/select_and_reserve', choice],
  ['POST', '/select_and_reserve', images],
  ['POST', '/reservations', { selection_id: 'b' }],
  ['POST', '/reservations', { ...choice, ...place, effective_prefill_tokens: 1, track_prefill_tokens: true }],
  ['POST', '/reservations', { ...hashes, selection_id: 'c', ...place }],
  ['POST', '/reservations/a/prefill_complete', {}],
  ['POST', '/reservations/a/output_block', { decay_fraction: 0.5 }],
  ['POST', '/potential_loads', prompt],
  ['POST', '/overlap_scores', hashes],
  ['POST', '/replica_sync/register_peer', { endpoint: 'x' }],
  ['POST', '/nothing/at/all', {}],
];

const junk = fc.oneof(
  fc.jsonValue(),
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
  fc.constantFrom(null, '', -1, 0, 1e308, 2 ** 53, [], {}, '__proto__', [[[]]], [null], { a: {} }),
);

/** The call with some of its members, at any depth, replaced, removed or added. */
const call = fc.constantFrom(...CALLS).chain(([method, path, body]) =>
  fc.record({
    method: fc.constant(method),
    path: fc.constant(path),
    body: fc.oneof(
      junk,
      fc
        .array(
          fc.record({
            at: fc.constantFrom(...pathsOf(body), ['added']),
            value: fc.option(junk, { nil: undefined }),
          }),
          {
            maxLength: 3,
          },
        )
        .map((changes) =>
          changes.reduce((whole: unknown, { at, value }) => replaced(whole, at, value), body),
        ),
    ),
  }),
);

function pathsOf(value: object): string[][] {
  return Object.entries(value).flatMap(([key, member]) => [
    [key],
    ...(typeof member === 'object' && member !== null ? pathsOf(member).map((rest) => [key, ...rest]) : []),
  ]);
}

function replaced(whole: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  if (typeof whole !== 'object' || whole === null) return whole;
  const copy: Record<string, unknown> | unknown[] = Array.isArray(whole) ? [...whole] : { ...whole };
  const members = copy as Record<string, unknown>;
  members[key] = replaced(members[key], rest, value);
  return copy;
}

async function releaseAll(client: SelectionClient, ids: ReadonlySet<string>): Promise<void> {
  for (const id of ids) await client.delete(`/reservations/${encodeURIComponent(id)}`);
}

it('answers junk with what is wrong with it, and keeps no booking but those it told of', {
  timeout: 120_000,
}, async () => {
  const { client, service } = started;
  const told = new Set<string>();
  await fc.assert(
    fc.asyncProperty(call, async ({ body, method, path }) => {
      const { status, value } = await ask(client.url, method, path, body);
      const { code, error, kind, selection_id: id } = value as Record<string, unknown>;
      if (status >= 400) {
        expect(typeof error).toBe('string');
        expect(typeof kind).toBe('string');
      }
      // States of the service, not faults of it.
      if (status === 503) expect(['not_ready', 'scheduler']).toContain(kind);
      else if (status === 501) expect(code).toBe('PM_SELECTOR_NOT_BUILT');
      else expect(status).toBeLessThan(500);
      if (status < 300 && path !== '/select' && typeof id === 'string') told.add(id);
      expect(service.core.road.activeBookings()).toBeLessThanOrEqual(told.size);
      expect(service.reservedIds()).toBe(service.core.road.activeBookings());
    }),
    { numRuns: 500 },
  );
  await releaseAll(client, told);
  expect(service.core.road.activeBookings()).toBe(0);
  expect(service.reservedIds()).toBe(0);
  // It works as before.
  const chosen = await client.post('/select', { token_ids: [1, 2, 3], allowed_worker_ids: [2n ** 64n - 1n] });
  expect(chosen.value.worker_id).toBe(2n ** 64n - 1n);
});

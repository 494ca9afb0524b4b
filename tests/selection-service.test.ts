// The selection service as its clients know it: published paths, payloads and statuses over HTTP.
import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import {
  ask,
  type LocalService,
  type LocalServiceOptions,
  localService,
} from './support/selection-client.ts';

const running: LocalService[] = [];
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
});

async function start(options: LocalServiceOptions = {}): Promise<LocalService> {
  const started = await localService(options);
  running.push(started);
  return started;
}

const PROMPT = { token_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] };
const BIG = 18_446_744_073_709_551_615n;

describe('workers', () => {
  it('are what they lack, and go through their lifecycle', async () => {
    const { client } = await start({ yaml: 'router: { use_kv_events: true }' });
    expect((await client.get('/ready')).status).toBe(503);
    const bare = await client.post('/workers', { worker_id: BIG });
    expect(bare.status).toBe(201);
    expect(bare.value).toMatchObject({
      worker_id: BIG,
      model_name: 'default',
      routing_group: 'default',
      lifecycle: 'incomplete',
      not_schedulable_reasons: [
        'endpoint is missing',
        'block_size is missing or 0',
        'kv_events_endpoint or kv_events_endpoints names no endpoint of rank 0',
      ],
    });
    const path = `/workers/${BIG}`;
    const whole = { endpoint: 'http://127.0.0.1:1', block_size: 4 };
    await client.patch(path, whole);
    const ready = await client.patch(path, { kv_events_endpoint: 'tcp://127.0.0.1:5557' });
    expect(ready.value).toMatchObject({ ...whole, lifecycle: 'schedulable', not_schedulable_reasons: [] });
    // Null counts as not supplied.
    const same = await client.patch(path, { block_size: null, taints: ['a'] });
    expect(same.value).toMatchObject({ block_size: 4, taints: ['a'], lifecycle: 'schedulable' });
    expect((await client.get('/ready')).value).toMatchObject({ ready: true, schedulable_workers: 1 });
    expect((await client.patch(path, { data_parallel_size: 2 })).value).toMatchObject({
      lifecycle: 'incomplete',
      not_schedulable_reasons: ['kv_events_endpoints names no endpoint of rank 0 and 1 more'],
    });
    const both = { '0': 'tcp://127.0.0.1:5557', '1': 'tcp://127.0.0.1:5558' };
    const two = await client.patch(path, { kv_events_endpoints: both });
    expect(two.value).toMatchObject({ lifecycle: 'schedulable', kv_events_endpoints: both });
    expect((await client.patch(path, { lifecycle: 'draining' })).value.lifecycle).toBe('draining');
    expect((await client.get('/ready')).status).toBe(503);
    expect((await client.patch(path, { lifecycle: 'schedulable' })).value.lifecycle).toBe('schedulable');
    expect((await client.delete(path)).value).toEqual({ status: 'ok' });
    expect((await client.delete(path)).status).toBe(404);
    expect((await client.patch(path, {})).status).toBe(404);
    expect((await client.get('/workers')).value).toEqual([]);
  });

  it('have one block size per partition, and the next comes in when the first is gone', async () => {
    const { client } = await start();
    await client.worker(1);
    const other = await client.worker(2, { block_size: 8 });
    expect(other.value).toMatchObject({
      lifecycle: 'unschedulable',
      not_schedulable_reasons: ['block_size is 8, and 4 elsewhere in its model and routing group'],
    });
    const apart = await client.worker(3, { block_size: 8, routing_group: 'b' });
    expect(apart.value.lifecycle).toBe('schedulable');
    await client.delete('/workers/1');
    const found = (await client.get('/workers?routing_group=default')).value;
    expect(found).toMatchObject([{ worker_id: 2, lifecycle: 'schedulable' }]);
    const chosen = await client.post('/select', PROMPT);
    expect(chosen.value).toMatchObject({ worker_id: 2, block_size: 8 });
  });

  it('that move are no longer in the partition they left', async () => {
    const { client, service } = await start();
    await client.worker(1);
    await client.post('/select', { ...PROMPT, selection_id: 's' });
    const held = await client.post('/select_and_reserve', { ...PROMPT, selection_id: 'r' });
    expect(held.status).toBe(200);
    await client.worker(2, { routing_group: 'other' });
    expect((await client.patch('/workers/1', { routing_group: 'other' })).status).toBe(200);
    expect(service.core.road.activeBookings()).toBe(0);
    expect((await client.post('/select', PROMPT)).status).toBe(503);
    expect((await client.post('/reservations', { selection_id: 's' })).status).toBe(404);
    expect((await client.post('/reservations/r/prefill_complete')).status).toBe(404);
    const listed = await client.get('/workers?model_name=default&routing_group=other');
    expect(listed.value).toMatchObject([{ worker_id: 1 }, { worker_id: 2 }]);
    const at = { ...PROMPT, selection_id: 'x', worker_id: 1 };
    expect((await client.post('/reservations', at)).status).toBe(503);
    expect((await client.post('/reservations', { ...at, routing_group: 'other' })).status).toBe(201);
  });

  it('keep bookings where only their record changes', async () => {
    const { client, service } = await start();
    await client.worker(1);
    await client.post('/select_and_reserve', { ...PROMPT, selection_id: 'r' });
    await client.worker(1, { taints: ['gpu'], endpoint: 'http://127.0.0.1:2' });
    expect(service.core.road.activeBookings()).toBe(1);
    const chosen = await client.post('/select', {
      ...PROMPT,
      routing_constraints: { required_taints: ['gpu'] },
    });
    expect(chosen.value).toMatchObject({ worker_id: 1, endpoint: 'http://127.0.0.1:2' });
  });
});

describe('a selection', () => {
  it('says where and why, and books nothing', async () => {
    const { client, service } = await start();
    await client.worker(BIG);
    const answer = await client.post('/select', PROMPT);
    expect(answer).toMatchObject({
      status: 200,
      value: {
        model_name: 'default',
        routing_group: 'default',
        worker_id: BIG,
        dp_rank: 0,
        endpoint: `http://127.0.0.1:1/${BIG}`,
        block_size: 4,
        overlap: { longest_matched: 0, gpu: 0, dp: { '0': 0 }, cpu: 0, disk: 0 },
        effective_prefill_tokens: 10,
        potential_decode_blocks: 5,
      },
    });
    expect(answer.value).not.toHaveProperty('selection_id');
    expect(answer.value).not.toHaveProperty('worker_load');
    expect(answer.value).not.toHaveProperty('kv_hint');
    expect(service.core.road.activeBookings()).toBe(0);
    const advised = await client.post('/select', { ...PROMPT, advisory: true });
    expect(advised.value.worker_load).toEqual({
      active_prefill_tokens: 0,
      prefill_token_capacity: 10_000_000,
    });
    expect((await client.post('/select_and_reserve', { ...PROMPT, advisory: true })).status).toBe(400);
  });

  it('takes pins, allow-lists, taints and weights of its own', async () => {
    const { client } = await start();
    for (const id of [1, 2, 3]) await client.worker(id, { taints: id === 3 ? ['slow'] : [] });
    const chosen = async (extra: object) =>
      (await client.post('/select', { ...PROMPT, ...extra })).value.worker_id;
    expect(await chosen({ pinned_worker: { worker_id: 2, dp_rank: 0 } })).toBe(2);
    expect(await chosen({ allowed_worker_ids: [3] })).toBe(3);
    expect(await chosen({ affinity_target: { worker_id: 2 } })).toBe(2);
    expect(await chosen({ routing_constraints: { required_taints: ['slow'] } })).toBe(3);
    const both = { pinned_worker: { worker_id: 2, dp_rank: 0 }, allowed_worker_ids: [1] };
    expect(await client.post('/select', { ...PROMPT, ...both })).toMatchObject({
      status: 400,
      value: { kind: 'scheduler' },
    });
    const nobody = await client.post('/select', { ...PROMPT, allowed_worker_ids: [9] });
    expect(nobody).toMatchObject({ status: 503, value: { kind: 'scheduler' } });
    // Prompts count for nothing with a scale of 0, so the worker with the least blocks wins although its prefill is the longest.
    const long = { token_ids: Array.from({ length: 4000 }, (_, at) => at), worker_id: 1, selection_id: 'a' };
    await client.post('/reservations', { ...long, token_ids: [1], effective_prefill_tokens: 1 });
    await client.post('/reservations/a/prefill_complete');
    for (const [worker_id, selection_id] of [
      [2, 'b'],
      [3, 'c'],
    ])
      await client.post('/reservations', { ...long, worker_id, selection_id, effective_prefill_tokens: 0 });
    expect(await chosen({ router_config_override: { prefill_load_scale: 0 } })).toBe(1);
  });

  it('is refused by name where its prompt is wrong', async () => {
    const { client } = await start();
    await client.worker(1);
    const hashes = { block_hashes: [1, 2], sequence_hashes: [1, 3], isl_tokens: 9 };
    const refused: [object, RegExp][] = [
      [{}, /token_ids must be there, or block_hashes, sequence_hashes and isl_tokens/],
      [{ token_ids: [] }, /token_ids must be a list of at least one token id/],
      [{ token_ids: [1, -1] }, /token_ids\[1\]/],
      [{ ...hashes, isl_tokens: 0 }, /isl_tokens/],
      [{ ...hashes, isl_tokens: null }, /isl_tokens must be there/],
      [{ ...hashes, block_hashes: [1] }, /block_hashes must be as many as sequence_hashes/],
      [{ ...hashes, block_hashes: null }, /block_hashes must be there/],
      [{ ...hashes, sequence_hashes: [1, 2n ** 64n] }, /sequence_hashes\[1\]/],
      [{ ...PROMPT, router_config_override: { overlap_score_credit: -1 } }, /overlap_score_credit/],
      [{ ...PROMPT, session_context: { session_id: 'a', input_trigger: 'x' } }, /input_trigger/],
      [{ ...PROMPT, selection_id: '' }, /selection_id/],
    ];
    for (const [body, error] of refused) {
      const { status, value } = await client.post('/select', body);
      expect([status, value.kind, value.error]).toEqual([400, 'bad_request', expect.stringMatching(error)]);
    }
  });
});

describe('what prompts would cost', () => {
  it('is told per rank', async () => {
    const { client } = await start();
    await client.worker(1);
    await client.worker(2);
    await client.post('/reservations', { ...PROMPT, selection_id: 'r', worker_id: 1 });
    const answer = await client.post('/potential_loads', PROMPT);
    expect(answer.value).toEqual([
      {
        worker_id: 1,
        dp_rank: 0,
        // Two blocks of the prompt are believed to be there already.
        potential_prefill_tokens: 12,
        potential_decode_blocks: 2,
        active_requests: 1,
      },
      {
        worker_id: 2,
        dp_rank: 0,
        potential_prefill_tokens: 10,
        potential_decode_blocks: 2,
        active_requests: 0,
      },
    ]);
    const scores = await client.post('/overlap_scores', PROMPT);
    expect(scores.value).toMatchObject({
      block_size: 4,
      num_blocks: 2,
      shared_cache: { enabled: false, total_hit_blocks: 0, ranges: [] },
    });
  });
});

describe('the door', () => {
  it('knows its paths and methods', async () => {
    const { client } = await start();
    expect((await client.get('/health')).status).toBe(200);
    expect((await client.get('/nothing')).status).toBe(404);
    expect((await client.get('/constructor')).status).toBe(404);
    const wrong = await client.get('/select');
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await client.post('/select', '{')).status).toBe(400);
    expect((await client.post('/select', `"${'x'.repeat(8 * 1024 * 1024)}"`)).status).toBe(413);
    expect((await client.get('/replica_sync/peers')).value).toEqual([]);
    const peer = await client.post('/replica_sync/register_peer', { endpoint: 'tcp://127.0.0.1:1' });
    expect([peer.status, peer.value.code]).toEqual([501, 'PM_SELECTOR_NOT_BUILT']);
    expect((await client.get('/dump')).value).toEqual({});
  });
});

it('does what its page shows', async () => {
  const page = readFileSync(new URL('../docs/selection-service.md', import.meta.url), 'utf8');
  const shown = /```sh\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  const calls = [...shown.matchAll(/^curl (?:-X (\S+) )?(?:-d '(.*)' )?http:\/\/127\.0\.0\.1:8092(\S+)$/gm)];
  expect(calls.length).toBe(shown.split('\n').filter((line) => line.startsWith('curl')).length);
  expect(calls.length).toBeGreaterThan(4);
  const { client } = await start({ yaml: 'router: { use_kv_events: true }' });
  for (const [line, method, body, path = ''] of calls) {
    const answer = await ask(client.url, method ?? 'POST', path, body);
    expect(answer.status, line).toBeLessThan(300);
  }
  expect((await client.delete('/reservations/r1')).status).toBe(404);
});

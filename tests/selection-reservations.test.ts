import { afterEach, describe, expect, it } from 'vitest';
import { RateLimited } from '../src/plugin/index.ts';
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

describe('a reservation', () => {
  it('by select_and_reserve lives until it is deleted, and its calls answer as published', async () => {
    const logged: string[] = [];
    const note = (message: string): void => void logged.push(message);
    const log = { debug: () => undefined, info: note, warn: note, error: note };
    const { client, service } = await start({ log });
    await client.worker(1);
    logged.length = 0;
    const answer = await client.post('/select_and_reserve', { ...PROMPT, selection_id: 'r/ä' });
    expect(answer).toMatchObject({
      status: 200,
      value: { selection_id: 'r/ä', worker_id: 1, isl_tokens: 10, track_prefill_tokens: true },
    });
    expect(answer.value.sequence_hashes).toHaveLength(2);
    const loads = async () => (await client.get('/loads')).value;
    const row = (prefill: number, blocks: number, requests: number) => [
      {
        model_name: 'default',
        routing_group: 'default',
        loads: [
          {
            worker_id: 1,
            dp_rank: 0,
            potential_prefill_tokens: prefill,
            potential_decode_blocks: blocks,
            active_requests: requests,
          },
        ],
        pending_count: 0,
        pending_isl_tokens: 0,
      },
    ];
    expect(await loads()).toEqual(row(10, 2, 1));
    const path = `/reservations/${encodeURIComponent('r/ä')}`;
    for (let times = 0; times < 2; times += 1) {
      expect(await client.post(`${path}/prefill_complete`)).toMatchObject({
        status: 200,
        value: { status: 'ok' },
      });
      expect(await loads()).toEqual(row(0, 2, 1));
    }
    expect((await client.post(`${path}/output_block`)).status).toBe(200);
    expect(await loads()).toEqual(row(0, 3, 1));
    // What this request alone holds weighs half from here on: two blocks of prompt, two of output.
    expect((await client.post(`${path}/output_block`, { decay_fraction: 0.5 })).status).toBe(200);
    expect(await loads()).toEqual(row(0, 2, 1));
    for (const wrong of [-0.1, 1.1, 'x'])
      expect((await client.post(`${path}/output_block`, { decay_fraction: wrong })).status).toBe(400);
    expect((await client.delete(path)).value).toEqual({ status: 'ok' });
    expect(await loads()).toEqual(row(0, 0, 0));
    for (const again of [
      await client.delete(path),
      await client.post(`${path}/prefill_complete`),
      await client.post(`${path}/output_block`),
    ])
      expect(again).toMatchObject({ status: 404, value: { kind: 'not_found' } });
    expect(service.reservedIds()).toBe(0);
    expect(logged).toEqual([]);
  });

  it('replays a selection once, whatever asks for it twice', async () => {
    const { client, service } = await start();
    await client.worker(1);
    await client.worker(2);
    const selected = await client.post('/select', { ...PROMPT, selection_id: 's' });
    const booked = await Promise.all(
      Array.from({ length: 4 }, () => client.post('/reservations', { selection_id: 's' })),
    );
    expect(booked.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
    expect(booked.find(({ status }) => status === 201)?.value).toEqual({
      selection_id: 's',
      model_name: 'default',
      routing_group: 'default',
      worker_id: selected.value.worker_id,
      dp_rank: 0,
      endpoint: selected.value.endpoint,
    });
    expect(service.core.road.activeBookings()).toBe(1);
    await client.delete('/reservations/s');
    expect(await client.post('/reservations', { selection_id: 's' })).toMatchObject({
      status: 404,
      value: { kind: 'not_found' },
    });
  });

  it('is found up to the age of the cache and not after, and only in its partition', async () => {
    const { client, clock } = await start();
    await client.worker(1);
    for (const selection_id of ['at', 'after']) await client.post('/select', { ...PROMPT, selection_id });
    expect((await client.post('/reservations', { selection_id: 'at', routing_group: 'x' })).status).toBe(404);
    clock.advanceTo(clock.now() + 120_000);
    expect((await client.post('/reservations', { selection_id: 'at' })).status).toBe(201);
    clock.advanceTo(clock.now() + 1);
    expect((await client.post('/reservations', { selection_id: 'after' })).status).toBe(404);
  });

  it('of a selection that is too large for the cache is not found', async () => {
    const { client } = await start({ cache: { cacheMaxBytes: 200 } });
    await client.worker(1);
    const tokens = (count: number) => Array.from({ length: count }, (_, at) => at);
    await client.post('/select', { token_ids: tokens(16), selection_id: 'small' });
    await client.post('/select', { token_ids: tokens(64), selection_id: 'large' });
    const metrics = String((await client.get('/metrics')).value.text);
    expect(metrics).toContain('pointsman_selector_pending_entries 0');
    expect(metrics).toContain('pointsman_selector_pending_bytes 0');
    expect(metrics).toContain('pointsman_selector_pending_lost_total{reason="evicted"} 2');
    for (const selection_id of ['small', 'large'])
      expect((await client.post('/reservations', { selection_id })).status).toBe(404);
  });

  it('counts the headers of sessions among the bytes', async () => {
    const max = 100_000;
    const { client } = await start({ cache: { cacheMaxBytes: max } });
    await client.worker(1);
    const agent_headers = { 'x-codex-a': Array.from({ length: 64 }, () => 'v'.repeat(500)) };
    const session_context = { session_id: 'one', agent_headers };
    const gauge = async (name: string) =>
      Number(
        new RegExp(`^pointsman_selector_pending_${name} (.*)$`, 'm').exec(
          String((await client.get('/metrics')).value.text),
        )?.[1],
      );
    for (let at = 1; at <= 5; at += 1) {
      await client.post('/select', { ...PROMPT, selection_id: `s${at}`, session_context });
      expect(await gauge('bytes')).toBeGreaterThanOrEqual(32_000 * Math.min(at, 3));
      expect(await gauge('bytes')).toBeLessThanOrEqual(max);
      expect(await gauge('entries')).toBe(Math.min(at, 3));
    }
    expect((await client.post('/reservations', { selection_id: 's2' })).status).toBe(404);
    expect((await client.post('/reservations', { selection_id: 's3' })).status).toBe(201);
    // The same headers, sent as headers.
    const headers = Object.fromEntries(
      Array.from({ length: 62 }, (_, at) => [`x-codex-${at}`, 'v'.repeat(500)]),
    );
    const before = await gauge('bytes');
    await client.post('/select', { ...PROMPT, selection_id: 's4', session_id: 'one' }, headers);
    expect(await gauge('bytes')).toBeGreaterThanOrEqual(before - 33_000 + 31_000);
  });

  it('in explicit form books what it says', async () => {
    const { client, service } = await start();
    await client.worker(1);
    await client.worker(2, { data_parallel_start_rank: 4, data_parallel_size: 2 });
    const hashes = { sequence_hashes: [-1, 2n ** 62n], isl_tokens: 9 };
    await client.post('/select', { ...PROMPT, selection_id: 'x' });
    const answer = await client.post('/reservations', {
      ...hashes,
      selection_id: 'x',
      worker_id: 2,
      dp_rank: 5,
      effective_prefill_tokens: 3,
    });
    expect(answer).toMatchObject({ status: 201, value: { worker_id: 2, dp_rank: 5 } });
    const expectLoad = async (row: object): Promise<void> => {
      const { value } = await client.get('/loads');
      expect(value).toEqual([expect.objectContaining({ loads: expect.arrayContaining([row]) })]);
    };
    await expectLoad({
      worker_id: 2,
      dp_rank: 5,
      potential_prefill_tokens: 3,
      potential_decode_blocks: 2,
      active_requests: 1,
    });
    // The selection of the same id is gone with it.
    await client.delete('/reservations/x');
    expect((await client.post('/reservations', { selection_id: 'x' })).status).toBe(404);
    const at = (changes: object) =>
      client.post('/reservations', { ...hashes, selection_id: 'y', worker_id: 1, ...changes });
    expect((await at({ effective_prefill_tokens: 10 })).status).toBe(400);
    expect((await at({ worker_id: 3 })).status).toBe(404);
    expect((await at({ dp_rank: 1 })).status).toBe(404);
    expect((await at({ model_name: 'nobody' })).status).toBe(503);
    expect((await at({ track_prefill_tokens: false })).status).toBe(201);
    expect((await at({})).status).toBe(409);
    await expectLoad(
      expect.objectContaining({ worker_id: 1, potential_prefill_tokens: 0, potential_decode_blocks: 2 }),
    );
    expect(service.core.road.activeBookings()).toBe(1);
  });

  it('that nobody touches ends after one to two periods, and lifecycle calls keep it', async () => {
    const { client, clock, service } = await start();
    await client.worker(1);
    for (const selection_id of ['kept', 'left'])
      await client.post('/select_and_reserve', { ...PROMPT, selection_id });
    for (let period = 0; period < 3; period += 1) {
      clock.advanceTo(clock.now() + 300_000);
      expect((await client.post('/reservations/kept/output_block')).status).toBe(200);
    }
    expect((await client.delete('/reservations/left')).status).toBe(404);
    expect(service.core.road.activeBookings()).toBe(1);
  });
});

describe('who decides', () => {
  it('classifies bookings, by both forms of reservation too, and no selection', async () => {
    const asked: string[] = [];
    const ended: string[] = [];
    const { client } = await start({
      yaml: 'router: { use_kv_events: false }\nrequest_classifier: noting',
      register: (registry) =>
        registry.registerRequestClassifier('noting', () => ({
          create: () => ({
            async classify({ requestId }) {
              asked.push(requestId);
              if (requestId === 'refused') throw new RateLimited(1);
              return undefined;
            },
            onEvent({ kind, requestId }) {
              if (kind === 'completed' || kind === 'aborted') ended.push(`${requestId} ${kind}`);
            },
          }),
        })),
    });
    await client.worker(1);
    await client.post('/select', { ...PROMPT, selection_id: 'replayed' });
    expect(asked).toEqual([]);
    await client.post('/select_and_reserve', { ...PROMPT, selection_id: 'direct' });
    await client.post('/reservations', { selection_id: 'replayed' });
    await client.post('/reservations', { ...PROMPT, selection_id: 'explicit', worker_id: 1 });
    expect(asked).toEqual(['direct', 'replayed', 'explicit']);
    const refused = await client.post('/select_and_reserve', { ...PROMPT, selection_id: 'refused' });
    expect(refused).toMatchObject({ status: 429, value: { kind: 'scheduler' } });
    await client.delete('/reservations/direct');
    await client.delete('/workers/1');
    expect(ended.sort()).toEqual([
      'direct completed',
      'explicit aborted',
      'refused aborted',
      'replayed aborted',
    ]);
  });

  it('lets a booking wait its turn, tells how many do, and lets those go whose client leaves', async () => {
    const { client, clock, service } = await start({
      yaml: 'router: { use_kv_events: false, router_queue_threshold: 0 }',
    });
    expect((await client.worker(1)).value.not_schedulable_reasons).toEqual([
      'max_num_batched_tokens is missing or 0, which queueing needs',
    ]);
    await client.worker(1, { max_num_batched_tokens: 100 });
    const reserve = (selection_id: string) => client.post('/select_and_reserve', { ...PROMPT, selection_id });
    expect((await reserve('a')).status).toBe(200);
    const waiting = reserve('b');
    const leaving = new AbortController();
    const left = ask(
      client.url,
      'POST',
      '/select_and_reserve',
      { ...PROMPT, selection_id: 'c' },
      {},
      leaving.signal,
    );
    const pending = async () => (await client.get('/loads')).value;
    await expect
      .poll(pending)
      .toMatchObject([{ loads: [{ active_requests: 1 }], pending_count: 2, pending_isl_tokens: 20 }]);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await expect.poll(pending).toMatchObject([{ pending_count: 1, pending_isl_tokens: 10 }]);
    expect((await reserve('b')).status).toBe(409);
    // What is replayed or placed by its caller waits for nobody.
    expect((await client.post('/reservations', { ...PROMPT, selection_id: 'd', worker_id: 1 })).status).toBe(
      201,
    );
    for (const id of ['a', 'd']) await client.post(`/reservations/${id}/prefill_complete`);
    clock.advanceTo(clock.now() + 1_000);
    expect((await waiting).status).toBe(200);
    for (const id of ['a', 'b', 'd']) await client.delete(`/reservations/${id}`);
    expect(service.reservedIds()).toBe(0);
  });

  it('refuses with a time to wait what is too much', async () => {
    const { client, clock } = await start({
      yaml: 'router: { use_kv_events: false }\nlimits: { concurrent_requests: 2 }',
    });
    await client.worker(1);
    const reserve = (selection_id: string) => client.post('/select_and_reserve', { ...PROMPT, selection_id });
    await reserve('a');
    await reserve('b');
    clock.advanceTo(clock.now() + 2_000);
    const refused = await reserve('c');
    expect(refused).toMatchObject({
      status: 429,
      value: { kind: 'scheduler', details: { refusal: 'concurrent_requests', limit: 2 } },
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await client.delete('/reservations/a');
    expect((await reserve('c')).status).toBe(200);
  });
});

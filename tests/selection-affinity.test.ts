// Sessions that stay on their workers, through the selection service.
import { afterEach, describe, expect, it } from 'vitest';
import { type LocalService, localService } from './support/selection-client.ts';

const running: LocalService[] = [];
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
});

async function start(mode: 'hard' | 'soft', workers = 3) {
  const started = await localService({
    yaml: `router: { use_kv_events: false, active_request_expiry_secs: 100, session_affinity: { mode: ${mode}, ttl: 1m } }`,
  });
  running.push(started);
  const { client } = started;
  for (let id = 1; id <= workers; id += 1) await client.worker(id);
  return {
    ...started,
    /** Makes a worker the worst choice by far: under round figures the default cost decides otherwise. */
    async load(worker_id: unknown) {
      const selection_id = `load-${String(worker_id)}`;
      const token_ids = Array.from({ length: 4000 }, (_, at) => at);
      await client.post('/reservations', { selection_id, worker_id, token_ids });
    },
    async bindings(): Promise<number> {
      const text = String((await client.get('/metrics')).value.text);
      return Number(/^pointsman_session_bindings (\d+)$/m.exec(text)?.[1]);
    },
  };
}

/** A prompt of a session that no other begins with. */
let prompts = 0;
const of = (session_id: string, extra: object = {}) => {
  prompts += 1;
  return { session_id, token_ids: [prompts, 2, 3, 4, 5, 6, 7, 8], ...extra };
};

describe.each(['soft', 'hard'] as const)('a session (%s)', (mode) => {
  it('stays where it was booked, by select_and_reserve and by replay, however loaded that is', async () => {
    const { client, load, bindings } = await start(mode);
    const first = await client.post('/select_and_reserve', of('s', { selection_id: 'a' }));
    await load(first.value.worker_id);
    const { worker_id } = first.value;
    expect((await client.post('/select_and_reserve', of('s'))).value).toMatchObject({ worker_id });
    expect((await client.post('/select_and_reserve', of('t'))).value.worker_id).not.toBe(worker_id);
    const selected = await client.post('/select', of('s', { selection_id: 'b' }));
    expect(selected.value).toMatchObject({ worker_id });
    expect((await client.post('/select', of('s', { advisory: true }))).value).toMatchObject({ worker_id });
    expect(await client.post('/reservations', { selection_id: 'b' })).toMatchObject({
      status: 201,
      value: { worker_id },
    });
    expect(await bindings()).toBe(2);
  });

  it('is bound by no selection, and by the replay of one', async () => {
    const { client, load, bindings } = await start(mode);
    const { worker_id } = (await client.post('/select', of('s', { selection_id: 'a' }))).value;
    expect(await bindings()).toBe(0);
    await client.post('/reservations', { selection_id: 'a' });
    expect(await bindings()).toBe(1);
    await load(worker_id);
    expect((await client.post('/select', of('s'))).value).toMatchObject({ worker_id });
  });

  it('is bound by a reservation of a chosen worker', async () => {
    const { client, load } = await start(mode);
    await client.post('/reservations', of('s', { selection_id: 'a', worker_id: 2 }));
    await load(2);
    expect((await client.post('/select_and_reserve', of('s'))).value).toMatchObject({ worker_id: 2 });
  });

  it('is held until the reservation is released or expires, and a time to live longer', async () => {
    const { client, clock, bindings, service } = await start(mode);
    for (const end of ['release', 'expiry'] as const) {
      await client.post('/select_and_reserve', of('s', { selection_id: end }));
      clock.advanceTo(clock.now() + 90_000);
      expect(await bindings()).toBe(1);
      if (end === 'release') await client.delete(`/reservations/${end}`);
      else {
        while (service.reservedIds() > 0) {
          clock.advanceTo(clock.now() + 500);
          service.core.road.expireBookings();
        }
      }
      clock.advanceTo(clock.now() + 59_000);
      expect(await bindings()).toBe(1);
      clock.advanceTo(clock.now() + 31_000);
      expect(await bindings()).toBe(0);
    }
  });
});

describe('a session bound hard', () => {
  it('refuses another worker with 409, by pin, by reservation and by replay, and books nothing', async () => {
    const { client, service } = await start('hard');
    // Selected before the session was bound elsewhere.
    const pinned_worker = { worker_id: 3, dp_rank: 0 };
    await client.post('/select', of('s', { selection_id: 'early', pinned_worker }));
    await client.post('/reservations', of('s', { selection_id: 'a', worker_id: 2 }));
    const refused = [
      await client.post('/select_and_reserve', of('s', { pinned_worker })),
      await client.post('/select', of('s', { pinned_worker })),
      await client.post('/reservations', of('s', { selection_id: 'b', worker_id: 1 })),
      await client.post('/reservations', { selection_id: 'early' }),
    ];
    for (const answer of refused)
      expect(answer).toMatchObject({
        status: 409,
        value: { kind: 'conflict', code: 'PM_AFFINITY_CONFLICT', details: { worker_id: '2' } },
      });
    expect(service.core.road.activeBookings()).toBe(1);
    expect(service.reservedIds()).toBe(1);
  });

  it('is told once that its worker is gone, and gets another', async () => {
    const { client, load } = await start('hard', 2);
    for (const path of ['/select_and_reserve', '/select']) {
      await client.worker(1);
      await client.worker(2);
      const session = `s${path}`;
      await client.post('/reservations', of(session, { selection_id: path, worker_id: 1 }));
      await load(2);
      await client.delete(`/reservations/${encodeURIComponent(path)}`);
      await client.delete('/workers/1');
      expect(await client.post(path, of(session))).toMatchObject({
        status: 503,
        value: { kind: 'scheduler', code: 'PM_AFFINITY_UNAVAILABLE' },
      });
      expect(await client.post(path, of(session))).toMatchObject({ status: 200, value: { worker_id: 2 } });
    }
  });

  it('loses it with the worker under its reservation', async () => {
    const { client } = await start('hard', 2);
    await client.post('/reservations', of('s', { selection_id: 'a', worker_id: 1 }));
    await client.delete('/workers/1');
    expect((await client.post('/select_and_reserve', of('s'))).value).toMatchObject({ worker_id: 2 });
  });

  it('to a reservation of a worker that is gone, that is an unknown worker', async () => {
    const { client } = await start('hard', 2);
    await client.post('/select', of('s', { selection_id: 'x', pinned_worker: { worker_id: 1 } }));
    await client.post('/reservations', of('s', { selection_id: 'a', worker_id: 1 }));
    await client.delete('/reservations/a');
    await client.delete('/workers/1');
    expect(await client.post('/reservations', { selection_id: 'x' })).toMatchObject({ status: 404 });
    expect((await client.post('/select_and_reserve', of('s'))).value).toMatchObject({ worker_id: 2 });
  });
});

it('the children of a parent share a worker, and none can be given their name', async () => {
  const { client, load } = await start('hard');
  const context = (session_id: string, parent_session_id?: string) => ({
    ...of(''),
    session_id: undefined,
    session_context: { session_id, ...(parent_session_id === undefined ? {} : { parent_session_id }) },
  });
  const { worker_id } = (await client.post('/select_and_reserve', context('x', 'p'))).value;
  await load(worker_id);
  expect((await client.post('/select_and_reserve', context('y', 'p'))).value).toMatchObject({ worker_id });
  expect((await client.post('/select_and_reserve', context('p'))).value.worker_id).not.toBe(worker_id);
  for (const forged of ['\u0001sg:0', `\u0001sg:${'0'.repeat(64)}`])
    for (const body of [context(forged), context('z', forged), of(forged)])
      expect((await client.post('/select_and_reserve', body)).status).toBe(400);
});

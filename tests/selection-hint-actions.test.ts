// What registered workers say they take of hints, and what their callers are then handed.
import { afterEach, describe, expect, it } from 'vitest';
import { encodeEventBatch } from '../src/events/index.ts';
import { type LocalService, localService } from './support/selection-client.ts';

const running: LocalService[] = [];
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
});

const YAML = `router: { use_kv_events: true }
worker_selection:
  aggregated: { type: dynamo-default-cost-fn, hints: [{ type: kv_retain_session }, { type: kv_release_session }] }
`;
const TAKES = {
  router_hint_worker_type: 'aggregated',
  router_hint_actions: ['kv.retain@1.1', 'kv.evict@1.0'],
};
const TURN = {
  token_ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  selection_id: 'turn',
  session_context: { session_id: 's' },
};
const LAST = {
  ...TURN,
  selection_id: 'last',
  session_context: { session_id: 'single', session_final: true },
};

async function start(record: Readonly<Record<string, unknown>>) {
  const started = await localService({ yaml: YAML });
  running.push(started);
  expect((await started.client.worker(1, record)).value).toMatchObject(record);
  return started.client;
}

describe('router_hint_actions', () => {
  it('let the policies of sessions hand callers what the worker takes', async () => {
    const client = await start(TAKES);
    const turn = await client.post('/select_and_reserve', TURN);
    expect(turn.value).toMatchObject({
      kv_hint: { message_id: 'turn', actions: [{ action_type: 'kv.retain', action_version: '1.1' }] },
    });
    const last = await client.post('/select_and_reserve', LAST);
    expect(last.value).toMatchObject({
      kv_hint: { message_id: 'last', actions: [{ action_type: 'kv.evict', action_version: '1.0' }] },
    });
  });

  it('hold back what the worker does not name, and all of it where nobody said what it takes', async () => {
    const client = await start({ ...TAKES, router_hint_actions: ['kv.evict@1.0'] });
    expect((await client.post('/select_and_reserve', TURN)).value).not.toHaveProperty('kv_hint');
    const silent = await start({ router_hint_worker_type: 'aggregated', router_hint_actions: null });
    for (const request of [TURN, LAST])
      expect((await silent.post('/select_and_reserve', request)).value).not.toHaveProperty('kv_hint');
  });

  it('can change while the worker stays', async () => {
    const client = await start({ ...TAKES, router_hint_actions: [] });
    expect((await client.post('/select_and_reserve', TURN)).value).not.toHaveProperty('kv_hint');
    await client.patch('/workers/1', { router_hint_actions: ['kv.retain@1.1'] });
    const again = await client.post('/select_and_reserve', { ...TURN, selection_id: 'again' });
    expect(again.value).toMatchObject({ kv_hint: { message_id: 'again' } });
  });

  it.each([
    ['no list', 'kv.evict@1.0'],
    ['a name without a version', ['kv.evict']],
    ['something else than a name', [7]],
    ['a name that is too long', [`${'k'.repeat(130)}@1.0`]],
    ['too many', Array.from({ length: 257 }, (_, index) => `kv.a${index}@1.0`)],
  ])('are refused as %s', async (_, router_hint_actions) => {
    const { client } = await localService({ yaml: YAML }).then((started) => {
      running.push(started);
      return started;
    });
    const refused = await client.worker(1, { router_hint_actions });
    expect(refused).toMatchObject({ status: 400, value: { code: 'PM_SELECTOR_REQUEST' } });
    expect(String(refused.value.error)).toContain('router_hint_actions');
  });
});

describe('reservations', () => {
  it('run hint policies when they book, by either form, and selections run none', async () => {
    const client = await start(TAKES);
    const selected = await client.post('/select', TURN);
    expect(selected.status).toBe(200);
    expect(selected.value).not.toHaveProperty('kv_hint');
    const replayed = await client.post('/reservations', { selection_id: 'turn' });
    expect(replayed.value).toMatchObject({ kv_hint: { message_id: 'turn' } });
    const named = await client.post('/reservations', { ...TURN, selection_id: 'named', worker_id: 1 });
    expect(named.value).toMatchObject({ kv_hint: { message_id: 'named' } });
  });

  it('name the sources of the moment they book, not those of the selection', async () => {
    const { client, stores } = await copying();
    const cold = { ...TURN, pinned_worker: { worker_id: 2, dp_rank: 0 } };
    for (const selection_id of ['before', 'after', 'bereft'])
      expect((await client.post('/select', { ...cold, selection_id })).status).toBe(200);
    expect((await client.post('/reservations', { selection_id: 'before' })).value).not.toHaveProperty(
      'kv_hint',
    );
    stores();
    const after = await client.post('/reservations', { selection_id: 'after' });
    expect(after.value).toMatchObject({
      worker_id: 2,
      kv_hint: { actions: [{ action_type: 'kv.fetch', payload: { block_hashes: [71, 72] } }] },
    });
    await client.delete('/workers/1');
    const bereft = await client.post('/reservations', { selection_id: 'bereft' });
    expect(bereft).toMatchObject({ status: 201, value: { worker_id: 2 } });
    expect(bereft.value).not.toHaveProperty('kv_hint');
  });

  it('book what was selected, whatever the policy would choose now', async () => {
    const { client, stores } = await copying();
    const first = await client.post('/select', TURN);
    const other = first.value.worker_id === 1 ? 2 : 1;
    stores(other);
    expect((await client.post('/select', { token_ids: TURN.token_ids })).value.worker_id).toBe(other);
    const reserved = await client.post('/reservations', { selection_id: TURN.selection_id });
    expect(reserved.value.worker_id).toBe(first.value.worker_id);
  });
});

/** Two workers that copy from each other, and a way to have one store the blocks of the turn. */
async function copying() {
  const yaml = `router: { use_kv_events: true, seed: 3 }
worker_selection:
  aggregated: { type: dynamo-default-cost-fn, hints: [{ type: kv_fetch, }] }
`;
  const started = await localService({ yaml });
  running.push(started);
  const { client, service } = started;
  for (const id of [1, 2]) {
    const endpoints = { '0': `tcp://10.0.0.${id}:7000` };
    await client.worker(id, {
      router_hint_worker_type: 'aggregated',
      router_hint_source_control_endpoints: endpoints,
    });
  }
  const stores = (worker = 1): void => {
    const { events, fleet } = service.core;
    const stored = {
      kind: 'stored',
      external: Uint32Array.of(71, 0, 72, 0),
      parent: null,
      tokenIds: Uint32Array.from(TURN.token_ids.slice(0, 8)),
      blockSize: 4,
      tier: 'device',
      loraName: null,
      cacheSalt: null,
      sessionId: null,
    } as const;
    events?.onBatch(
      fleet.slotOf(BigInt(worker), 0),
      0,
      encodeEventBatch({ timestamp: 1, rank: null, events: [stored] }),
    );
  };
  return { client, stores };
}

// What registered workers say they take of hints, and what their callers are then handed.
import { afterEach, describe, expect, it } from 'vitest';
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

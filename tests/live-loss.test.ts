// Workers that die and return, seen by clients of the official SDK.
import { describe, expect, it } from 'vitest';
import type { RunningRouter } from '../src/cli/running-router.ts';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

const LONG = { model: 'tiny', max_tokens: 100_000, messages: [{ role: 'user' as const, content: 'Hello' }] };

describe('a worker killed in the middle of a stream', () => {
  it('ends its streams with an error the SDK understands; others serve on; a restart brings it back', async () => {
    const doomed = await engines(1, '--speed', '4');
    const other = await engines(1, '--speed', '4');
    const url = doomed.engines[0]?.url ?? '';
    const on = await router(routerYaml([url, other.engines[0]?.url ?? '']));
    const sdk = client(on.url);
    const state = (): string | undefined => on.core.fleet.worker(1n)?.state;
    const states: string[] = [];
    on.core.fleet.listen({ stateChanged: (worker) => states.push(`${worker.spec.id} ${worker.state}`) });

    // Streams on both workers: the load spreads them, how evenly depends on how far each has come when the next arrives.
    const running = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        sdk.completions
          .create({ model: 'tiny', prompt: words(100, index), max_tokens: 100_000, stream: true })
          .withResponse(),
      ),
    );
    const onDoomed = running.filter(({ response }) => response.headers.get('x-pointsman-worker') === '1:0');
    const onOther = running.filter(({ response }) => response.headers.get('x-pointsman-worker') === '2:0');
    expect(onDoomed.length).toBeGreaterThan(0);
    expect(onOther.length).toBeGreaterThan(0);
    expect(onDoomed.length + onOther.length).toBe(6);
    await until('both workers have blocks', () => new Set(holders(on)).size === 2);
    const readers = onDoomed.map(async ({ data }) => {
      for await (const _ of data) {
        // Reads until it breaks.
      }
    });
    doomed.kill();
    for (const result of await Promise.allSettled(readers)) {
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { code: 'upstream_disconnected', type: 'server_error' },
      });
    }
    expect(on.core.road.activeBookings()).toBe(onOther.length);
    expect(states[0]).toBe('1 suspect');

    for (let at = 0; at < 4; at += 1) {
      const { response } = await sdk.completions
        .create({ model: 'tiny', prompt: words(100, at), max_tokens: 2 })
        .withResponse();
      expect(response.headers.get('x-pointsman-worker')).toBe('2:0');
    }
    for (const { data } of onOther) data.controller.abort();
    await until('the worker is gone', () => state() === 'gone');
    await until('the other streams are freed', () => on.core.road.activeBookings() === 0);
    // What it had cached is forgotten; what the other worker holds is not.
    expect(new Set(holders(on))).toEqual(new Set([2n]));

    const again = await engines(1, '--speed', '20', '--port', new URL(url).port);
    expect(again.engines[0]?.url).toBe(url);
    await until('the worker is back', () => state() === 'ready');
    expect(states).toEqual(['1 suspect', '1 gone', '1 ready']);
    expect(on.core.fleet.worker(1n)?.capabilities?.epoch).toBe(again.engines[0]?.epoch);
    const worker = await firstOn(on.url, 1n);
    expect(worker).toBe('1:0');
  });

  it('is noticed when it is back before any check or request met its absence, and loses no event', async () => {
    const before = await engines(1, '--speed', '1000');
    const url = before.engines[0]?.url ?? '';
    const never = 3_600_000;
    const on = await router(routerYaml([url]), never);
    const ask = async (seed: number): Promise<void> => {
      const body = JSON.stringify({ model: 'tiny', prompt: words(100, seed), max_tokens: 1 });
      const answer = await fetch(`${on.url}/v1/completions`, { method: 'POST', body });
      expect([answer.status, await answer.json()]).toMatchObject([200, { object: 'text_completion' }]);
    };
    // On a busy machine the router serves before the event stream stands, and what is told before then is not heard.
    await until('its event stream stands', () => on.readiness().warnings.length === 0);
    await ask(1);
    await until('its blocks are known', () => holders(on).length === 6);
    before.kill();
    const again = await engines(1, '--speed', '1000', '--port', new URL(url).port);
    const worker = on.core.fleet.worker(1n);
    await until('it is known anew', () => {
      return worker?.capabilities?.epoch === again.engines[0]?.epoch && worker?.state === 'ready';
    });
    expect(holders(on)).toEqual([]);
    // Its very first blocks are heard: the subscription stood before it got a request.
    await ask(2);
    await until('its blocks are known', () => holders(on).length === 6);
    expect(on.core.events?.feed(worker?.slots[0] ?? -1)).toMatchObject({ stale: false, missedBatches: 0 });
  });

  it('answers 503 while no worker is left, and the client may try again', async () => {
    const only = await engines(1, '--speed', '20');
    const on = await router(routerYaml([only.engines[0]?.url ?? '']));
    const sdk = client(on.url);
    const stream = await sdk.chat.completions.create({ ...LONG, stream: true });
    const reading = (async () => {
      for await (const _ of stream) {
        // Reads until it breaks.
      }
    })();
    only.kill();
    await expect(reading).rejects.toMatchObject({ code: 'upstream_disconnected' });
    await until('the worker is gone', () => on.core.fleet.worker(1n)?.state === 'gone');
    const answer = await fetch(`${on.url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(LONG),
    });
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('1');
    const ready = await fetch(`${on.url}/ready`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ reasons: ['none of the 1 workers is ready (1 gone)'] });
  });

  it('fails a request whose worker dies before the first byte with 502', async () => {
    // At a hundredth of the modelled speed the head is held back long enough for the engine to die first.
    const slow = await engines(1, '--speed', '0.001');
    const on = await router(routerYaml([slow.engines[0]?.url ?? '']));
    const answering = fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'tiny', prompt: words(200, 1), max_tokens: 4 }),
    });
    await until('the request is booked', () => on.core.road.activeBookings() === 1);
    slow.kill();
    const answer = await answering;
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_disconnected' } });
    expect(on.core.road.activeBookings()).toBe(0);
  });
});

/** Worker of every block in the index. */
function holders(on: RunningRouter): (bigint | null)[] {
  const { blocks } = on.core.index?.dump(0, 10_000) ?? { blocks: [] };
  return blocks.map(({ owner }) => on.core.fleet.slotWorkerId(owner));
}

/** Header of the first answer that comes from a worker, out of a few. */
async function firstOn(url: string, worker: bigint): Promise<string | null> {
  for (let seed = 50; seed < 100; seed += 1) {
    const answer = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'tiny', prompt: words(100, seed), max_tokens: 2 }),
    });
    await answer.text();
    const header = answer.headers.get('x-pointsman-worker');
    if (header === `${worker}:0`) return header;
  }
  return null;
}

import { afterEach, describe, expect, it } from 'vitest';
import { createBlockHasher } from '../../kv/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import { startSimulators } from './start-simulators.ts';
import { metric, metricBecomes, post, realClock, sse, start, stopAll } from './wire.fixtures.ts';

afterEach(stopAll);
const PROMPT = 'the old station stands at the edge of a small town where three lines meet';
const RUNNING = 'vllm:num_requests_running{model_name="tiny-sim"}';

describe('leaving clients', () => {
  it('abort their request in the engine and free its blocks', async () => {
    const { url } = (await start({ speedup: 1 })).engines[0]!;
    for (const stream of [true, false]) {
      const leaving = new AbortController();
      const asked = fetch(`${url}/v1/completions`, {
        method: 'POST',
        body: JSON.stringify({ prompt: PROMPT, max_tokens: 10_000, stream }),
        signal: leaving.signal,
      });
      asked.catch(() => undefined);
      await metricBecomes(url, RUNNING, 1);
      leaving.abort();
      await metricBecomes(url, RUNNING, 0);
      expect(await metric(url, 'vllm:kv_cache_usage_perc{model_name="tiny-sim"}')).toBe(0);
    }
  });

  it('do not disturb others that use the same request id', async () => {
    const { url } = (await start({ speedup: 2 })).engines[0]!;
    const ask = (stream: boolean, signal: AbortSignal): Promise<Response> =>
      fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'x-request-id': 'same' },
        body: JSON.stringify({ prompt: PROMPT, max_tokens: 10_000, stream }),
        signal,
      });
    const leaving = new AbortController();
    const lost = ask(false, leaving.signal).catch(() => 'left');
    await metricBecomes(url, RUNNING, 1);
    const staying = new AbortController();
    const reader = (await ask(true, staying.signal)).body!.getReader();
    await metricBecomes(url, RUNNING, 2);
    leaving.abort();
    expect(await lost).toBe('left');
    await metricBecomes(url, RUNNING, 1);
    for (let chunk = 0; chunk < 20; chunk += 1) expect((await reader.read()).done).toBe(false);
    expect(await metric(url, RUNNING)).toBe(1);
    staying.abort();
    await expect(reader.closed).rejects.toThrow();
  });
});

describe('stopping', () => {
  it('lets what runs finish within the grace and cuts it after', async () => {
    const patient = await start({ speedup: 2 });
    const url = patient.engines[0]!.url;
    // The head comes with the first token: the request runs, or is over already on a machine that was busy elsewhere.
    const asked = await post(`${url}/v1/completions`, { prompt: PROMPT, max_tokens: 50, stream: true });
    const closed = patient.close(60_000);
    expect((await sse(asked)).at(-1)).toBe('[DONE]');
    await closed;
    await expect(fetch(`${url}/health`)).rejects.toThrow();

    const hasty = await start({ speedup: 1 });
    const slow = post(`${hasty.engines[0]!.url}/v1/completions`, { prompt: PROMPT, max_tokens: 10_000 });
    const failing = expect(slow).rejects.toThrow();
    await metricBecomes(hasty.engines[0]!.url, RUNNING, 1);
    await hasty.close(0);
    await failing;
  });

  it('starts none when one cannot be started', async () => {
    const first = await start();
    const port = Number(new URL(first.engines[0]!.url).port);
    const options = { settings: DEFAULT_ENGINE_SETTINGS, hasher: createBlockHasher(), clock: realClock };
    await expect(startSimulators({ ...options, count: 1, port })).rejects.toThrow(
      `a simulated engine cannot listen on 127.0.0.1:${port}: another process uses that port`,
    );
    await expect(startSimulators({ ...options, count: 0 })).rejects.toThrow(
      '0 simulated engines cannot be started; give 1 to 256',
    );
  });
});

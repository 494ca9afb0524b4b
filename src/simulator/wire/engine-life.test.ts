import { afterEach, describe, expect, it } from 'vitest';
import { createBlockHasher } from '../../kv/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import { startSimulators } from './start-simulators.ts';
import { metric, metricBecomes, post, realClock, start, stopAll } from './wire.fixtures.ts';

afterEach(stopAll);
const PROMPT = 'the old station stands at the edge of a small town where three lines meet';
const RUNNING = 'vllm:num_requests_running{model_name="tiny-sim"}';

const outputTokens = async (response: Response): Promise<number> =>
  ((await response.json()) as { usage: { completion_tokens: number } }).usage.completion_tokens;

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
    const ask = (max_tokens: number, signal?: AbortSignal): Promise<Response> =>
      fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'x-request-id': 'same' },
        body: JSON.stringify({ prompt: PROMPT, max_tokens }),
        ...(signal === undefined ? {} : { signal }),
      });
    const leaving = new AbortController();
    const lost = ask(10_000, leaving.signal).catch(() => 'left');
    await metricBecomes(url, RUNNING, 1);
    const kept = ask(20);
    await metricBecomes(url, RUNNING, 2);
    leaving.abort();
    expect(await lost).toBe('left');
    expect(await outputTokens(await kept)).toBe(20);
  });
});

describe('stopping', () => {
  it('lets what runs finish within the grace and cuts it after', async () => {
    const patient = await start({ speedup: 2 });
    const url = patient.engines[0]!.url;
    const asked = post(`${url}/v1/completions`, { prompt: PROMPT, max_tokens: 50 });
    await metricBecomes(url, RUNNING, 1);
    const closed = patient.close(60_000);
    expect(await outputTokens(await asked)).toBe(50);
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

import { afterEach, describe, expect, it } from 'vitest';
import { createBlockHasher } from '../../kv/index.ts';
import { DEFAULT_ENGINE_SETTINGS } from '../core/create-engine.ts';
import { startSimulators } from './start-simulators.ts';
import { listen, metric, metricBecomes, post, realClock, sse, start, stopAll } from './wire.fixtures.ts';

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

describe('a restart', () => {
  it('cuts requests, empties the cache, counts batches from 0 and tells a new epoch behind the same addresses', async () => {
    const waiting: (() => void)[] = [];
    // The restart is this test's to start; all other waits are real.
    const clock = {
      now: realClock.now,
      schedule(delayMs: number, callback: () => void) {
        if (delayMs !== 123_456) return realClock.schedule(delayMs, callback);
        waiting.push(callback);
        return () => undefined;
      },
    };
    const engine = (await start({ speedup: 20 }, { clock, restarts: [{ worker: 1, atMs: 123_456 }] }))
      .engines[0]!;
    const { url } = engine;
    const heard = await listen(engine.kv_events);
    const ask = { prompt: PROMPT, max_tokens: 1 };
    while (heard.sequences.length === 0) {
      await (
        await post(`${url}/v1/completions`, { prompt: `${PROMPT} ${Math.random()}`, max_tokens: 1 })
      ).text();
    }
    const cached = async (): Promise<unknown> => {
      const answer = (await (await post(`${url}/v1/completions`, ask)).json()) as {
        usage: { prompt_tokens_details: { cached_tokens: number } };
      };
      return answer.usage.prompt_tokens_details.cached_tokens;
    };
    expect(await cached()).toBeGreaterThan(0);
    const cut = post(`${url}/v1/completions`, { prompt: PROMPT, max_tokens: 10_000 });
    cut.catch(() => undefined);
    await metricBecomes(url, RUNNING, 1);
    const before = heard.sequences.length;
    expect(waiting.length).toBe(1);
    waiting[0]!();
    await expect(cut.then((response) => response.text())).rejects.toThrow();
    const said = (await (await fetch(`${url}/kv_hints/capabilities`)).json()) as { epoch: string };
    expect(said.epoch).not.toBe(engine.epoch);
    expect(await cached()).toBe(0);
    await heard.until(() => heard.sequences.slice(before).includes(0));
    expect(await metric(url, RUNNING)).toBe(0);
  });

  it('of an engine that is not there is refused', async () => {
    await expect(start({}, { restarts: [{ worker: 2, atMs: 1 }] })).rejects.toThrow(
      'simulated engine 2 cannot be restarted; there are engines 1 to 1',
    );
  });
});

describe('event faults', () => {
  it('change what is sent live and not what is replayed', async () => {
    const faults = { drop: 0, duplicate: 1, reorder: 0, window: 1, delayMs: 0 };
    const engine = (await start({}, { eventFaults: faults })).engines[0]!;
    const heard = await listen(engine.kv_events);
    let prompts = 0;
    for (; heard.sequences.length < 4; prompts += 1) {
      const prompt = Array.from({ length: 9 }, (_, at) => 10 * (prompts % 1000) + at);
      await (await post(`${engine.url}/v1/completions`, { prompt, max_tokens: 1 })).text();
    }
    await heard.until(() => heard.sequences.filter((one) => one === prompts - 1).length === 2);
    // A subscription may take effect between the two messages of a pair, and has then missed the first.
    const [one = 0, other = 0] = heard.sequences;
    const first = one === other ? one : other;
    const doubled = Array.from({ length: 2 * (prompts - first) }, (_, at) => first + Math.floor(at / 2));
    expect(heard.sequences.slice(one === other ? 0 : 1)).toEqual(doubled);
  });
});

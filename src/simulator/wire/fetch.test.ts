import { afterEach, describe, expect, it } from 'vitest';
import { hashesOfPrompt, listen, metric, post, start, stopAll, storedHashes } from './wire.fixtures.ts';

afterEach(stopAll);
const PROMPT = Array.from({ length: 41 }, (_, i) => i + 1);

/** A source that lives is waited for, however busy the machine is: only tests of a source that does not answer run into the end. */
const PATIENT = { fetchReserveTimeoutMs: 30_000, fetchTimeoutMs: 60_000 };

interface Usage {
  usage: { prompt_tokens_details: { cached_tokens: number } };
}

/** Two engines, the first of which holds the ten full blocks of the prompt, and its hashes of them. */
async function pair() {
  const source = (await start(PATIENT)).engines[0]!;
  const heard = await listen(source.kv_events);
  for (let nth = 0; heard.events.length === 0; nth += 1) {
    await post(`${source.url}/v1/completions`, { prompt: [nth, 0, 0, 0], max_tokens: 1 });
  }
  await post(`${source.url}/v1/completions`, { prompt: PROMPT, max_tokens: 1 });
  const hashes = hashesOfPrompt(
    await heard.until((events) => hashesOfPrompt(events, PROMPT).length === 10),
    PROMPT,
  );
  const other = (await start(PATIENT)).engines[0]!;
  return { source, target: other, hashes };
}

async function fetchInto(url: string, control: string, hashes: readonly bigint[], prompt = PROMPT) {
  const body = `{"prompt":${JSON.stringify(prompt)},"max_tokens":1,"kv_transfer_params":{"kv_hint":{"protocol_version":"0.1","message_id":"m","actions":[{"action_id":"a1","action_type":"kv.fetch","action_version":"1.0","payload":{"source_control_endpoint":"${control}","block_hashes":[${hashes.join(',')}]}}]}}}`;
  const response = await post(`${url}/v1/completions`, body);
  expect(response.status).toBe(200);
  const { usage } = (await response.json()) as Usage;
  const header = JSON.parse(response.headers.get('x-kv-hint-outcomes') ?? 'null') as {
    outcomes: Record<string, unknown>[];
  };
  return { cached: usage.prompt_tokens_details.cached_tokens, outcome: header.outcomes[0] };
}

describe('kv.fetch between engines', () => {
  it('brings the blocks, counts them as cached and announces them before the answer', async () => {
    const { source, target, hashes } = await pair();
    const heard = await listen(target.kv_events);
    for (let nth = 0; heard.events.length === 0; nth += 1) {
      await post(`${target.url}/v1/completions`, { prompt: [nth, 0, 0, 0], max_tokens: 1 });
    }
    const { cached, outcome } = await fetchInto(target.url, source.control, hashes);
    expect(cached).toBe(40);
    expect(outcome).toMatchObject({
      outcome: 'accepted',
      blocks_asked: 10,
      blocks_done: 10,
      bytes: 10 * 4 * 131_072,
    });
    const events = await heard.until((list) => storedHashes(list).includes(hashes[9]!));
    expect(storedHashes(events)).toEqual(expect.arrayContaining([...hashes]));
    expect(await metric(source.url, 'pointsman_sim_fetch_requests_total{answer="reserved"}')).toBe(1);
    // The pins are gone: nothing at the source is held any more.
    expect(await metric(source.url, 'vllm:kv_cache_usage_perc{model_name="tiny-sim"}')).toBe(0);
  });

  it('grants only the part the source still holds', async () => {
    const { source, target, hashes } = await pair();
    const longer = [...PROMPT.slice(0, 40), 77, 78, 79, 80, 81];
    const { cached, outcome } = await fetchInto(target.url, source.control, [...hashes, 12345n], longer);
    expect(cached).toBe(40);
    expect(outcome).toMatchObject({ outcome: 'clipped', blocks_done: 10 });
  });

  it('recomputes when the source has nothing, is dead, or hashes otherwise', async () => {
    const { source, target, hashes } = await pair();
    const empty = (await start()).engines[0]!;
    expect(await fetchInto(target.url, empty.control, hashes)).toMatchObject({
      cached: 0,
      outcome: { outcome: 'missing', reason: 'nothing_held', blocks_done: 0 },
    });
    expect(await metric(empty.url, 'pointsman_sim_fetch_requests_total{answer="nothing_held"}')).toBe(1);

    const dead = await start();
    const control = dead.engines[0]!.control;
    await dead.close(0);
    const third = (await start()).engines[0]!;
    expect(await fetchInto(third.url, control, hashes)).toMatchObject({
      cached: 0,
      outcome: { outcome: 'missing', reason: 'timeout', blocks_done: 0 },
    });

    const stranger = (await start({ hashSeed: 99 })).engines[0]!;
    expect(await fetchInto(stranger.url, source.control, hashes)).toMatchObject({
      cached: 0,
      outcome: { outcome: 'missing', blocks_done: 0 },
    });
  });

  it('recomputes when the source dies while the blocks move', async () => {
    const source = await start({ nicGbps: 0.001 });
    const { engines } = source;
    const heard = await listen(engines[0]!.kv_events);
    for (let nth = 0; heard.events.length === 0; nth += 1) {
      await post(`${engines[0]!.url}/v1/completions`, { prompt: [nth, 0, 0, 0], max_tokens: 1 });
    }
    await post(`${engines[0]!.url}/v1/completions`, { prompt: PROMPT, max_tokens: 1 });
    const hashes = hashesOfPrompt(
      await heard.until((events) => hashesOfPrompt(events, PROMPT).length === 10),
      PROMPT,
    );
    const target = (
      await start({ nicGbps: 0.001, speedup: 1, fetchReserveTimeoutMs: 3000, fetchTimeoutMs: 3000 })
    ).engines[0]!;
    const asked = fetchInto(target.url, engines[0]!.control, hashes);
    while ((await metric(engines[0]!.url, 'pointsman_sim_fetch_requests_total{answer="reserved"}')) !== 1);
    await source.close(0);
    expect(await asked).toMatchObject({ cached: 0, outcome: { outcome: 'missing', reason: 'timeout' } });
  });
});

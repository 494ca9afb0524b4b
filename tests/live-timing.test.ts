// How long workers take, learnt between clients and engines on real sockets, written out as a file, and read by the next router.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { client, engines, router, routerYaml, words } from './live-support.ts';

interface Profile {
  readonly kinds: readonly {
    readonly model: string;
    readonly engine: string;
    readonly prefill_us_per_token: number;
    readonly attention_ns_per_pair: number;
    readonly prefill_ms_per_prompt: number;
    readonly decode_ms: number;
    readonly fixed: boolean;
  }[];
}

const folder = mkdtempSync(join(tmpdir(), 'pointsman-timing-'));
afterAll(() => rmSync(folder, { recursive: true }));

const EXPECTED_TIME = 'worker_selection: { aggregated: { type: pointsman-expected-time, hints: [] } }';

async function json<T>(url: string): Promise<T> {
  return (await (await fetch(url)).json()) as T;
}

it('the fit comes near a live engine that is slower than where it starts, and the next router starts from it', async () => {
  // Four times as slow as the profile 8b; learning starts at twice.
  const { engines: list } = await engines(1, '--timing', '8b', '--speed', '0.25');
  const urls = list.map(({ url }) => url);
  const on = await router(routerYaml(urls, EXPECTED_TIME));
  const sdk = client(on.url);
  let slowest = 0;
  for (let request = 0; request < 24; request += 1) {
    const prompt = words(200 + 60 * request, 1000 + request);
    const sentAt = performance.now();
    const stream = await sdk.completions.create({ model: 'tiny', prompt, max_tokens: 10, stream: true });
    let chunks = 0;
    for await (const _ of stream) {
      if (chunks === 0) slowest = Math.max(slowest, performance.now() - sentAt);
      chunks += 1;
    }
    expect(chunks).toBeGreaterThan(0);
  }
  const profile = await json<Profile>(`${on.adminUrl}/timing_profile`);
  const [kind] = profile.kinds;
  expect(profile.kinds).toHaveLength(1);
  expect(kind).toMatchObject({ model: 'tiny', engine: 'sim', fixed: false });
  if (kind === undefined) return;
  const tokens = 1000;
  const ms =
    kind.prefill_ms_per_prompt +
    (tokens * kind.prefill_us_per_token) / 1e3 +
    ((tokens * tokens) / 2) * (kind.attention_ns_per_pair / 1e6);
  // 4 × 32.1 ms, and what sockets and a loaded machine add; it starts at 64. However much that is, prompts of 1,580 tokens took longer.
  expect(ms).toBeGreaterThan(110);
  expect(ms).toBeLessThan(slowest);
  expect(kind.decode_ms).toBeGreaterThan(18);

  const [latest] = await json<{ id: string }[]>(`${on.adminUrl}/decisions?limit=1`);
  const record = await json<{
    timing: { prefill: { observations: number; confidence: number } }[];
    candidates: { cost: number; time_terms: { total: number } }[];
  }>(`${on.adminUrl}/decisions/${latest?.id}`);
  expect(record.timing[0]?.prefill.observations).toBeGreaterThan(15);
  expect(record.timing[0]?.prefill.confidence).toBeGreaterThan(0.3);
  expect(record.candidates).toHaveLength(1);
  for (const { cost, time_terms: terms } of record.candidates) expect(terms.total).toBeCloseTo(cost, 6);

  const file = join(folder, 'timing.yaml');
  writeFileSync(file, JSON.stringify(profile));
  const next = await router(routerYaml(urls, `${EXPECTED_TIME}\nrouter: { timing_profile: "${file}" }`));
  await client(next.url).completions.create({ model: 'tiny', prompt: words(20, 3), max_tokens: 1 });
  const [again] = (await json<Profile>(`${next.adminUrl}/timing_profile`)).kinds;
  expect(again?.prefill_us_per_token).toBeCloseTo(kind.prefill_us_per_token, 6);
  expect(again?.decode_ms).toBeCloseTo(kind.decode_ms, 6);
});

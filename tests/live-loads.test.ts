// The load of requests under way as the gateway makes it, against an engine in a process of its own.
import { expect, it } from 'vitest';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

interface WorkerLoads {
  readonly reported_load: {
    readonly requests_running: number;
    readonly requests_waiting: number;
    readonly kv_usage: number;
  } | null;
  readonly ranks: readonly { readonly booked_load: unknown }[];
}

const LONG = { model: 'tiny', max_tokens: 3000, stream: true } as const;

it('/workers shows what is booked beside what the engine reports, in separate fields', async () => {
  const { engines: list } = await engines(1, '--speed', '10');
  const urls = list.map(({ url }) => url);
  const on = await router(routerYaml(urls, 'observe: { engine_load: true }'), 50);
  const stream = await client(on.url).completions.create({ ...LONG, prompt: words(200, 7) });
  let shown: WorkerLoads | undefined;
  while (shown?.reported_load?.requests_running !== 1) {
    const answer = await fetch(`${on.adminUrl}/workers`);
    [shown] = (await answer.json()) as WorkerLoads[];
  }
  expect(shown.ranks[0]?.booked_load).toMatchObject({ requests: 1, decode_blocks: 12 });
  expect(shown.reported_load?.requests_waiting).toBe(0);
  expect(shown.reported_load?.kv_usage).toBeGreaterThan(0);
  stream.controller.abort();
});

it('output of a stream counts as load, and fades where the request says how long it will be', async () => {
  const { engines: list } = await engines(1, '--speed', '10');
  const urls = list.map(({ url }) => url);
  const on = await router(
    routerYaml(
      urls,
      'router: { router_track_output_blocks: true, trust_routing_fields_from: [127.0.0.1/32] }',
    ),
  );
  const { loads } = on.core.scheduler;
  const sdk = client(on.url);

  const plain = await sdk.completions.create({ ...LONG, prompt: words(200, 7) });
  await until(
    '12 blocks of prompt and two of output are counted',
    () => (loads.activeDecodeBlocks[0] ?? 0) >= 14,
  );
  plain.controller.abort();
  await until('the booking is freed', () => loads.activeBookings === 0);
  expect(loads.activeDecodeBlocks[0]).toBe(0);

  const foreseen = { ...LONG, prompt: words(200, 7), nvext: { agent_hints: { osl: 48 } } };
  const fading = await sdk.completions.create(foreseen);
  await until('the first token is out', () => loads.activePrefillTokens[0] === 0);
  await until('more is generated than was foreseen', () => loads.activeDecodeBlocks[0] === 0);
  expect(loads.activeBookings).toBe(1);
  fading.controller.abort();
  await until('the booking is freed', () => loads.activeBookings === 0);
});

// What the configuration says of the load of requests under way, in a router composed as `serve` composes it.
import { describe, expect, it } from 'vitest';
import { countedTokens, givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import type { EngineSink } from '../engines/index.ts';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG, PointsmanError } from '../plugin/index.ts';
import type { ResponseSink } from '../road/index.ts';
import { composeRouter } from './compose-router.ts';
import { workerStatus } from './worker-status.ts';

async function routerWith(keys: { readonly router?: string; readonly model?: string }) {
  const { router: routerKeys = '', model = '' } = keys;
  const parse = (more: string) =>
    parseConfig(
      `
models: { tiny: { block_size: 16, tokens: { source: estimate }${model} } }
router: { mode: kv, ${more} }
workers: [{ id: 1, model: tiny, url: "http://127.0.0.1:9001", dialect: sim, capabilities: none }]
`,
      'router.yaml',
    );
  const { config, source, warnings } = parse(routerKeys);
  const engines: EngineSink[] = [];
  const clock = new ManualClock(5000);
  const metrics = createMetrics();
  const router = await composeRouter({
    config,
    source,
    clock,
    seed: 3,
    transportFor: () => ({
      dispatch(_request, sink) {
        engines.push(sink);
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
    metrics,
    log: NO_LOG,
    announces: () => true,
  });
  let arrivals = 0;
  const send = (expectedOutputTokens: number | null = null, sink: ResponseSink = SILENT) => {
    arrivals += 1;
    router.road.arrive(
      givenRequest(`r${arrivals}`, countedTokens(64, arrivals * 1000), {
        maxOutputTokens: 64,
        expectedOutputTokens,
      }),
      sink,
    );
    const engine = engines.at(-1);
    if (engine === undefined) throw new Error('nothing was dispatched');
    return engine;
  };
  return { router, clock, metrics, warnings, send, parse };
}

describe('router_prefill_load_model', () => {
  const PACE = { router: 'router_prefill_load_model: throughput', model: ', prefill_tokens_per_second: 640' };

  /** Active prefill tokens of the one worker as a decision saw them. */
  const seen = ({ router }: Awaited<ReturnType<typeof routerWith>>): (number | undefined)[] =>
    (router.decisions?.list(10, {}) ?? [])
      .map(({ id }) => router.decisions?.get(id)?.candidates[0])
      .map((row) => (row?.eligible ? row.active_prefill_tokens : undefined))
      .reverse();

  it('lets prompts count for what is left of them', async () => {
    const bench = await routerWith(PACE);
    const { clock, send, router } = bench;
    const first = send();
    const at = (ms: number) => clock.advanceTo(5000 + ms);
    at(25);
    send();
    at(75);
    send();
    first.tokens(1);
    send();
    at(100);
    send();
    // 64 tokens take 100 ms: 16 done after 25 ms, 48 after 75; then the second begins.
    expect(seen(bench)).toEqual([0, 48, 80, 128, 176]);
    expect(router.scheduler.loads.activePrefillTokens[0]).toBe(256);
    await router.close();
  });

  it('shows at /workers what is booked, by what is left of it', async () => {
    const { router, clock, send } = await routerWith(PACE);
    const booked = (): unknown => {
      const status = workerStatus(router, []);
      return (status as { ranks: { booked_load: unknown }[] }[])[0]?.ranks[0]?.booked_load;
    };
    const engine = send();
    clock.advanceTo(5025);
    expect(booked()).toEqual({ requests: 1, prefill_tokens: 48, decode_blocks: 4 });
    engine.failed(new PointsmanError('PM_ENGINE_FAILED', 'broken'));
    expect(booked()).toEqual({ requests: 0, prefill_tokens: 0, decode_blocks: 0 });
    await router.close();
  });

  it('lets them count in full until their first token where it is none, or their model has no pace', async () => {
    for (const keys of [{ model: PACE.model }, { router: PACE.router }, {}]) {
      const bench = await routerWith(keys);
      bench.send();
      bench.clock.advanceTo(60_000);
      bench.send();
      expect(seen(bench)).toEqual([0, 64]);
      await bench.router.close();
    }
  });

  it.each([
    [
      { model: PACE.model },
      'has no effect while router.router_prefill_load_model is none; set it to throughput',
    ],
    [{ router: PACE.router }, 'has no effect, as no model has prefill_tokens_per_second'],
  ])('says which of the two keys is missing: %j', async (keys, message) => {
    const { warnings, router } = await routerWith(keys);
    expect(warnings.map((warning) => warning.message)).toEqual([message]);
    await router.close();
  });
});

describe('router_track_output_blocks', () => {
  it('is off unless it is set, and a reload turns it on for output to come', async () => {
    const { router, send, parse } = await routerWith({});
    const blocks = (): number | undefined => router.scheduler.loads.activeDecodeBlocks[0];
    const engine = send(128);
    engine.tokens(1);
    expect(blocks()).toBe(4);
    router.reconfigure(parse('router_track_output_blocks: true').config);
    engine.tokens(31);
    // (4 + 1) × 3/4 = 3.75
    expect(blocks()).toBe(4);
    engine.tokens(32);
    // (4 + 2) × 1/2
    expect(blocks()).toBe(3);
    await router.close();
  });

  it('counts from the start where the file says so', async () => {
    const { router, send } = await routerWith({ router: 'router_track_output_blocks: true' });
    send().tokens(1);
    expect(router.scheduler.loads.activeDecodeBlocks[0]).toBe(5);
    await router.close();
  });
});

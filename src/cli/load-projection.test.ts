// What the configuration says of the load of requests under way, in a router composed as `serve` composes it.
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../config/index.ts';
import type { EngineSink } from '../engines/index.ts';
import { createMetrics } from '../observe/index.ts';
import { ManualClock, NO_LOG } from '../plugin/index.ts';
import { NO_CONSTRAINTS, type ResponseSink } from '../road/index.ts';
import { composeRouter } from './compose-router.ts';

const SINK: ResponseSink = {
  booked() {},
  head() {},
  data() {},
  tokens() {},
  finished() {},
  failed() {},
};

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
  const { config, source } = parse(routerKeys);
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
  const send = (expectedOutputTokens: number | null = null, sink: ResponseSink = SINK) => {
    arrivals += 1;
    router.road.arrive(
      {
        requestId: `r${arrivals}`,
        door: 'replay',
        partition: { model: 'tiny', routingGroup: 'default' },
        role: 'aggregated',
        servedAs: 'tiny',
        api: 'completions',
        body: null,
        stream: true,
        tokens: Uint32Array.from({ length: 64 }, (_, index) => arrivals * 1000 + index),
        tokensSource: 'given',
        maxOutputTokens: 64,
        expectedOutputTokens,
        loraName: null,
        cacheSalt: null,
        session: null,
        constraints: NO_CONSTRAINTS,
        incomingHint: null,
        tokenizeMicros: 0,
      },
      sink,
    );
    const engine = engines.at(-1);
    if (engine === undefined) throw new Error('nothing was dispatched');
    return engine;
  };
  return { router, clock, metrics, send, parse };
}

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

import { describe, expect, it } from 'vitest';
import { countedTokens, givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import type { EngineReport, EngineSink, EngineTransport } from '../engines/index.ts';
import { encodeEventBatch } from '../events/index.ts';
import type { Worker } from '../fleet/index.ts';
import { createMetrics } from '../observe/index.ts';
import { type LogFields, ManualClock, NO_LOG } from '../plugin/index.ts';
import { composeRouter } from './compose-router.ts';
import { workerStatus } from './worker-status.ts';

const report = (cachedTokens: number | null): EngineReport => ({
  cachedTokens,
  promptTokens: 64,
  outputTokens: 1,
  source: 'usage',
  finishReason: 'stop',
});

async function bench(
  options: { readonly router?: string; readonly announces?: boolean; readonly blocks?: number } = {},
) {
  const { router: keys = '', announces = true, blocks } = options;
  const pool = blocks === undefined ? '' : `, total_kv_blocks: ${blocks}`;
  const worker = (id: number) =>
    `  - { id: ${id}, model: tiny, url: "http://127.0.0.1:900${id}", dialect: sim, capabilities: none${pool} }`;
  const yaml = `
models: { tiny: { block_size: 16, tokens: { source: estimate } } }
router: { mode: kv, ${keys} }
workers:
${worker(1)}
${worker(2)}
`;
  const { config, source } = parseConfig(yaml, 'router.yaml');
  const sinks: EngineSink[] = [];
  const placed: Worker[] = [];
  const transport: EngineTransport = {
    dispatch(request, sink) {
      sinks.push(sink);
      placed.push(request.worker);
      return { abort() {}, pause() {}, resume() {} };
    },
    close() {},
  };
  const clock = new ManualClock(5000);
  const metrics = createMetrics();
  const logged: [string, LogFields | undefined][] = [];
  const router = await composeRouter({
    config,
    source,
    clock,
    seed: 3,
    transportFor: () => transport,
    metrics,
    log: {
      ...NO_LOG,
      info: (message, fields) => logged.push([message, fields]),
      warn: (message, fields) => logged.push([message, fields]),
    },
    announces: () => announces,
  });
  const send = (seed: number) => {
    const requestId = `r${sinks.length}`;
    const ticket = router.road.arrive(givenRequest(requestId, countedTokens(64, seed * 1000)), SILENT);
    const record = router.decisions?.list(100, {}).find(({ request_id }) => request_id === requestId);
    return {
      ticket,
      sink: sinks.at(-1)!,
      worker: placed.at(-1)!.spec.id,
      predicted: record?.prediction?.cached_tokens,
    };
  };
  const serve = (seed: number, cachedTokens: number | null = 0) => {
    const sent = send(seed);
    sent.sink.head(200, {}, []);
    sent.sink.tokens(1);
    sent.sink.finished(report(cachedTokens));
    return sent;
  };
  const reasons = () => router.fleet.workers().map(({ approximate }) => approximate?.get(0) ?? null);
  const stored = (blockSize = 16, timestamp = 1) =>
    encodeEventBatch({
      timestamp,
      rank: null,
      events: [
        {
          kind: 'stored',
          external: Uint32Array.of(7, 7),
          parent: null,
          tokenIds: Uint32Array.from({ length: blockSize }, (_, index) => 9000 + index),
          blockSize,
          tier: 'device',
          loraName: null,
          cacheSalt: null,
          sessionId: null,
        },
      ],
    });
  return { router, clock, metrics, logged, send, serve, reasons, stored };
}

describe('without KV events', () => {
  it('a prompt goes back to where it was sent, for router_ttl_secs', async () => {
    const { router, clock, serve, reasons } = await bench({
      router: 'use_kv_events: false, router_ttl_secs: 10',
    });
    expect([router.events, reasons()]).toEqual([null, ['kv_events_off', 'kv_events_off']]);
    const first = serve(1);
    const other = serve(2);
    expect(other.worker).not.toBe(first.worker);
    expect(serve(1, 48)).toMatchObject({ worker: first.worker, predicted: 48 });
    clock.advanceTo(clock.now() + 9_999);
    expect(serve(2, 48)).toMatchObject({ worker: other.worker, predicted: 48 });
    clock.advanceTo(clock.now() + 1);
    expect(serve(1)).toMatchObject({ predicted: 0 });
  });

  it('a known pool evicts, and a report of fewer cached tokens corrects', async () => {
    const { router, serve, metrics } = await bench({ router: 'use_kv_events: false', blocks: 10 });
    router.fleet.remove(2n);
    // A prompt takes 4 blocks, and its answer one more.
    for (const seed of [1, 2]) serve(seed);
    expect(await metrics.text()).toContain('pointsman_approximate_blocks 10');
    expect(serve(1, 48).predicted).toBe(48);
    expect([3, 2, 1].map((seed) => serve(seed).predicted)).toEqual([0, 0, 0]);
    expect(serve(2, 16).predicted).toBe(48);
    expect(await metrics.text()).toContain('pointsman_approximate_corrections_total 1');
  });

  it('a request that fails or is left before its first token leaves nothing behind', async () => {
    const { send, serve, router } = await bench({ router: 'use_kv_events: false' });
    send(1).ticket.abort();
    expect(router.index?.stats().residencies).toBe(0);
    const under = send(1);
    expect(send(1).predicted).toBe(48);
    under.sink.tokens(1);
    under.ticket.abort();
    expect(serve(1, 48).predicted).toBe(48);
  });

  it('a lost worker is believed to hold nothing', async () => {
    const { serve, router } = await bench({ router: 'use_kv_events: false' });
    const { worker } = serve(1);
    router.fleet.setState(worker, 'gone');
    router.fleet.setState(worker, 'ready');
    expect(serve(1).predicted).toBe(0);
  });
});

describe('a rank', () => {
  it('that nobody said publishes events is estimated until it is heard, in plain sight', async () => {
    const { router, serve, reasons, stored, logged, metrics } = await bench({ announces: false });
    expect(reasons()).toEqual(['not_announced', 'not_announced']);
    const { worker } = serve(1);
    expect(serve(1, 48)).toMatchObject({ worker, predicted: 48 });
    expect(workerStatus(router, [])).toMatchObject([
      { ranks: [{ approximate: 'not_announced' }] },
      { ranks: [{ approximate: 'not_announced' }] },
    ]);
    const slot = router.fleet.slotOf(worker, 0);
    router.events!.onBatch(slot, 0, stored());
    expect(reasons().filter(Boolean)).toEqual(['not_announced']);
    expect(router.index?.stats()).toMatchObject({ residencies: 1 });
    expect(serve(1).predicted).toBe(0);
    expect(await metrics.text()).toContain('pointsman_approximate_ranks{reason="not_announced"} 1');
    expect(logged.filter(([message]) => message.startsWith('what a worker rank has cached'))).toEqual([
      // The other one has had no request yet, and its engine might still say where it publishes.
      [
        'what a worker rank has cached is estimated from what is sent to it',
        { worker, rank: 0, why: 'nobody said where it publishes KV events' },
      ],
      ['what a worker rank has cached is known from its KV events from now on', { worker, rank: 0 }],
      [
        'what a worker rank has cached is estimated from what is sent to it',
        { worker: worker === 1n ? 2n : 1n, rank: 0, why: 'nobody said where it publishes KV events' },
      ],
    ]);
  });

  it('that computes new blocks in silence falls back', async () => {
    const { serve, reasons } = await bench();
    // Nothing is known, so that load alone decides, and both come to three.
    for (let seed = 1; seed <= 6; seed += 1) expect(serve(seed).predicted).toBe(0);
    expect(reasons()).toEqual(['not_heard', 'not_heard']);
    serve(9);
    expect(serve(9, 48).predicted).toBe(48);
  });

  it('whose blocks have another size falls back, and stays so while they have', async () => {
    const { router, serve, reasons, stored } = await bench();
    const slot = router.fleet.slotOf(1n, 0);
    router.events!.onBatch(slot, 0, stored(32));
    for (let seed = 1; seed <= 2; seed += 1) serve(seed);
    expect(reasons()).toEqual(['other_block_size', null]);
    router.events!.onBatch(slot, 1, stored(32));
    expect(reasons()).toEqual(['other_block_size', null]);
  });

  it('whose engine starts anew with blocks of the right size is known from its events again', async () => {
    const { router, serve, reasons, stored } = await bench();
    const slot = router.fleet.slotOf(1n, 0);
    router.events!.onBatch(slot, 0, stored(32));
    for (let seed = 1; seed <= 4; seed += 1) serve(seed);
    expect(reasons()[0]).toBe('other_block_size');
    expect(router.index!.blocksOf(slot)[0]).toBeGreaterThan(0);
    router.events!.onBatch(slot, 0, stored(16, 2));
    expect(reasons()[0]).toBeNull();
    // Nothing that was believed stands beside what the engine tells.
    expect(router.index!.blocksOf(slot)).toEqual([1, 0, 0, 0]);
    router.events!.onBatch(slot, 0, stored(32, 3));
    serve(5);
    serve(6);
    expect(reasons()[0]).toBe('other_block_size');
  });
});

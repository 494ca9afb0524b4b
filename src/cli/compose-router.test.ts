import { describe, expect, it } from 'vitest';
import { countedTokens, givenRequest, SILENT } from '../../tests/support/road-request.ts';
import { parseConfig } from '../config/index.ts';
import type { EngineRequest, EngineSink, EngineTransport } from '../engines/index.ts';
import { encodeEventBatch } from '../events/index.ts';
import type { WorkerCapabilities } from '../fleet/index.ts';
import { u64FromBigInt } from '../kv/index.ts';
import { NO_METRICS } from '../observe/index.ts';
import { type LogFields, ManualClock, NO_LOG } from '../plugin/index.ts';
import type { ResponseSink } from '../road/index.ts';
import { composeRouter } from './compose-router.ts';

const CONFIG = `
models:
  tiny: { block_size: 16, tokens: { source: estimate } }
workers:
  - { id: 1, model: tiny, url: "http://127.0.0.1:9001", dialect: sim, capabilities: none }
  - { id: 2, model: tiny, url: "http://127.0.0.1:9002", dialect: sim, capabilities: none }
`;

async function composed(yaml = CONFIG, decisionBytes: number | null = null) {
  const { config: read, source } = parseConfig(yaml, 'router.yaml');
  const limits = { ...read.limits, decisionBytes: decisionBytes ?? read.limits.decisionBytes };
  const config = { ...read, limits };
  const sent: { request: EngineRequest; sink: EngineSink }[] = [];
  const transport: EngineTransport = {
    dispatch(request, sink) {
      sent.push({ request, sink });
      return { abort() {}, pause() {}, resume() {} };
    },
    close() {},
  };
  const warnings: { message: string; fields: LogFields | undefined }[] = [];
  const router = await composeRouter({
    config,
    source,
    clock: new ManualClock(5000),
    seed: 3,
    transportFor: () => transport,
    metrics: NO_METRICS,
    log: { ...NO_LOG, warn: (message, fields) => warnings.push({ message, fields }) },
  });
  const arrive = (tokens: Uint32Array) => {
    let decisionId = '';
    const sink: ResponseSink = {
      ...SILENT,
      booked(_chosen, id) {
        decisionId = id;
      },
    };
    router.road.arrive(
      givenRequest(`r${sent.length}`, tokens, { session: { sessionId: 'secret session', agentHeaders: {} } }),
      sink,
    );
    return { decisionId, worker: sent.at(-1)?.request.worker.spec.id };
  };
  return { router, sent, arrive, warnings };
}

const prompt = (seed: number) => countedTokens(64, seed * 1000);

/** An engine's announcement that it holds the whole prompt, under hashes of its own. */
function stored(tokens: Uint32Array): Uint8Array {
  const external = new Uint32Array((tokens.length / 16) * 2).map((_, word) => 77 + word);
  return encodeEventBatch({
    timestamp: 1,
    rank: null,
    events: [
      {
        kind: 'stored',
        external,
        parent: null,
        tokenIds: tokens,
        blockSize: 16,
        tier: 'device',
        loraName: null,
        cacheSalt: null,
        sessionId: null,
      },
    ],
  });
}

function advertised(epoch: string): WorkerCapabilities {
  return {
    epoch,
    model: 'tiny',
    workerType: 'aggregated',
    blockSize: 16,
    hashScheme: 'x',
    reportsOutcomes: false,
    ranks: new Map(),
  };
}

describe('a composed router', () => {
  it.each([1, 2, 5])('keeps its index within limits.index_bytes: %d MiB', async (mebibytes) => {
    const { router } = await composed(`${CONFIG}limits: { index_bytes: ${mebibytes}MiB }\n`);
    const { hasher, index } = router;
    for (let block = 0; block < 20_000 * mebibytes; block += 1) {
      const { local } = hasher.hashPrompt(Uint32Array.of(block), 1, { lo: 0, hi: 0 });
      index?.store(block % 2, 'device', null, Uint32Array.of(block, 1), local);
    }
    expect(index?.stats().evicted).toBeGreaterThan(1000);
    expect(index?.stats().bytes).toBeLessThan(mebibytes * 2 ** 20);
    expect(index?.stats().bytes).toBeGreaterThan(mebibytes * 2 ** 19);
  });

  it('gives a new worker nothing that was said of the slot before it joined', async () => {
    const { router } = await composed();
    const { fleet, events, index } = router;
    const { spec } = fleet.worker(2n) ?? expect.fail();
    const slot = fleet.slotOf(2n, 0);
    fleet.remove(2n);
    events?.onBatch(slot, 0, stored(prompt(1)));
    expect(index?.stats().residencies).toBe(0);
    expect(events?.feed(slot)).toBeNull();
    fleet.add({ ...spec, id: 3n });
    expect(fleet.slotOf(3n, 0)).toBe(slot);
    expect(index?.stats().residencies).toBe(0);
  });

  it('routes by what engines announce, and forgets it when the engine is lost or restarts', async () => {
    const { router, arrive } = await composed();
    const slot = router.fleet.slotOf(2n, 0);
    router.events?.onBatch(slot, 0, stored(prompt(1)));
    expect(router.index?.stats().residencies).toBe(4);
    const first = arrive(prompt(1));
    expect(first.worker).toBe(2n);
    expect(router.decisions?.get(first.decisionId)).toMatchObject({
      mode: 'kv',
      policy: { type: 'dynamo-default-cost-fn' },
      prediction: { cached_tokens: 48 },
      index: { kind: 'events', per_worker_age_ms: { '2': 0 } },
    });
    router.fleet.setState(2n, 'gone');
    expect([router.index?.stats().residencies, router.road.activeBookings()]).toEqual([0, 0]);
    router.fleet.setState(2n, 'ready');
    router.events?.onBatch(slot, 1, stored(prompt(1)));
    expect(router.index?.stats().residencies).toBe(4);
    // What the engine held before it was lost it may hold still: the index cannot know.
    expect(router.events?.feed(slot)?.stale).toBe(true);
    router.fleet.setCapabilities(2n, advertised('a'));
    router.fleet.setCapabilities(2n, advertised('b'));
    expect(router.index?.stats().residencies).toBe(0);
    expect(router.events?.feed(slot)?.stale).toBe(false);
    // The new engine's first batches were missed, although this number follows the old engine's last.
    router.events?.onBatch(slot, 2, stored(prompt(2)));
    expect(router.events?.feed(slot)).toMatchObject({ stale: true, restarts: 0, missedBatches: 2 });
    router.fleet.remove(2n);
    expect(router.index?.stats().residencies).toBe(0);
    await router.close();
  });

  it('names in the record whose events are missing', async () => {
    const { router, arrive } = await composed();
    const slot = router.fleet.slotOf(2n, 0);
    router.events?.onBatch(slot, 0, stored(prompt(1)));
    const whole = router.decisions?.get(arrive(prompt(1)).decisionId);
    expect(whole?.index.stale_workers).toEqual([]);
    router.events?.onBatch(slot, 4, stored(prompt(2)));
    const missing = router.decisions?.get(arrive(prompt(1)).decisionId);
    expect(missing?.index.stale_workers).toEqual([2n]);
  });

  it('shows a session only by a keyed hash', async () => {
    const { router, arrive } = await composed();
    const record = router.decisions?.get(arrive(prompt(1)).decisionId);
    expect(record?.session?.id_hash).toMatch(/^[0-9a-f]{8}$/);
    expect(
      JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
    ).not.toContain('secret');
    const other = await composed();
    expect(other.router.decisions?.get(other.arrive(prompt(1)).decisionId)?.session?.id_hash).not.toBe(
      record?.session?.id_hash,
    );
  });

  it('makes the same choices for the same seed', async () => {
    const choices = async () => {
      const { arrive } = await composed();
      return [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => arrive(prompt(seed)).worker);
    };
    const once = await choices();
    expect(await choices()).toEqual(once);
    expect(new Set(once)).toEqual(new Set([1n, 2n]));
  });

  it('keeps no index when nobody reads one, and no records when there is no room for any', async () => {
    const plain = await composed(`${CONFIG}\nrouter: { mode: round-robin }\n`, 0);
    expect([plain.router.index, plain.router.events, plain.router.decisions]).toEqual([null, null, null]);
    expect([1, 2, 3, 4].map((seed) => plain.arrive(prompt(seed)).worker)).toEqual([1n, 2n, 1n, 2n]);
  });

  it('warns of an engine whose blocks can never match', async () => {
    const { router, warnings } = await composed();
    router.fleet.setCapabilities(1n, {
      epoch: 'a',
      model: 'tiny',
      workerType: 'aggregated',
      blockSize: 32,
      hashScheme: 'sim',
      reportsOutcomes: false,
      ranks: new Map(),
    });
    expect(warnings).toEqual([
      {
        message: "a worker's KV blocks have another size than its model's: nothing it caches will be found",
        fields: { worker: 1n, model: 'tiny', worker_block_size: 32, model_block_size: 16 },
      },
    ]);
  });

  it('knows how many answers rested on blocks that events have yet to tell of', async () => {
    const { router, sent, arrive } = await composed();
    const { worker } = arrive(prompt(1));
    const report = { promptTokens: 64, outputTokens: 1, finishReason: 'stop', source: 'usage' as const };
    sent[0]?.sink.finished({ ...report, cachedTokens: 0 });
    expect(router.unheard.of(worker ?? 0n)).toBe(1);
    arrive(prompt(1));
    sent[1]?.sink.finished({ ...report, cachedTokens: 48 });
    expect(router.unheard.of(1n) + router.unheard.of(2n)).toBe(1);
  });

  it('gives workers without an id the same one on every start', async () => {
    const yaml = CONFIG.replace('id: 1, ', '');
    const ids = async () => (await composed(yaml)).router.fleet.workers().map(({ spec }) => spec.id);
    const once = await ids();
    expect(await ids()).toEqual(once);
    // XXH3-64 of the url, seed 0.
    expect(once).toContainEqual(expect.any(BigInt));
    expect(once.some((id) => id !== 2n && u64FromBigInt(id).hi > 0)).toBe(true);
  });
});

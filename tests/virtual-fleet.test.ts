// Simulated engines behind the ports of real ones: transport in, KV events out, peers among each other.
import { describe, expect, it } from 'vitest';
import type { EngineReport, EngineRequest, EngineSink, ReportedHintOutcome } from '../src/engines/index.ts';
import { createKvEventApplier, encodeEventBatch } from '../src/events/index.ts';
import { blockHashSeed, createBlockHasher, createPrefixIndex, type PrefixIndex } from '../src/kv/index.ts';
import { NO_METRICS } from '../src/observe/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  type SimulatedEngineSettings,
  VirtualFleet,
  type VirtualFleetOptions,
  VirtualTime,
} from '../src/simulator/index.ts';

const hasher = createBlockHasher();

interface Answer {
  readonly sink: EngineSink;
  status: number | null;
  tokens: number;
  report: EngineReport | null;
  outcomes: readonly ReportedHintOutcome[];
  headAt: number;
}

function answer(time: VirtualTime): Answer {
  const got: Answer = {
    sink: {
      head(status, _headers, outcomes) {
        got.status = status;
        got.outcomes = outcomes;
        got.headAt = time.now();
      },
      data() {
        throw new Error('the virtual transport relays no bytes');
      },
      tokens(count) {
        got.tokens += count;
      },
      finished(report) {
        got.report = report;
      },
      failed(error) {
        throw error;
      },
    },
    status: null,
    tokens: 0,
    report: null,
    outcomes: [],
    headAt: -1,
  };
  return got;
}

function setUp(
  workers: number,
  settings: Partial<SimulatedEngineSettings> = {},
  eventHistory = 0,
  more: Partial<VirtualFleetOptions> = {},
) {
  const time = new VirtualTime();
  const engine = { ...DEFAULT_ENGINE_SETTINGS, blockSize: 4, kvBlocks: 64, ...settings };
  const fleet = new VirtualFleet({
    time,
    hasher,
    encode: encodeEventBatch,
    engines: Array.from({ length: workers }, () => engine),
    eventHistory,
    eventReplayLatencyMs: 3,
    ...more,
  });
  return { time, fleet };
}

function requestTo(
  fleet: VirtualFleet,
  worker: number,
  id: string,
  tokens: Uint32Array,
  hint: EngineRequest['hint'] = null,
): EngineRequest {
  const { id: workerId, url } = fleet.workers[worker - 1]!;
  return {
    requestId: id,
    partition: { model: 'sim', routingGroup: 'default' },
    role: 'aggregated',
    worker: {
      spec: {
        id: workerId,
        model: 'sim',
        url,
        dialect: 'sim',
        role: 'aggregated',
        ranks: { first: 0, count: 1 },
        kvEvents: new Map(),
        maxNumBatchedTokens: null,
        totalKvBlocks: null,
        taints: [],
        topology: {},
      },
      state: 'ready',
      capabilities: null,
      taints: [],
      slots: [worker - 1],
    },
    rank: 0,
    servedAs: 'sim',
    api: 'completions',
    body: null,
    stream: true,
    tokens,
    maxOutputTokens: 6,
    session: null,
    hint,
  };
}

function indexed(fleet: VirtualFleet, time: VirtualTime, fast: boolean): PrefixIndex {
  const index = createPrefixIndex({ hasher, maxHoldings: 100_000 });
  const applier = createKvEventApplier({
    index,
    hasher,
    blockHashSeed,
    blockSizeOf: () => 4,
    learnBlockSize: () => undefined,
    metrics: NO_METRICS,
    clock: time,
  });
  for (const [owner, { id }] of fleet.workers.entries()) {
    index.bindOwner(owner, id);
    fleet.connectEvents(id, {
      owner,
      sink: applier,
      ...(fast ? { decoded: (slot, sequence, batch) => applier.onDecodedBatch(slot, sequence, batch) } : {}),
    });
  }
  return index;
}

function fetchHint(endpoint: string, blockHashes: BigUint64Array): EngineRequest['hint'] {
  return {
    protocol_version: '0.1',
    message_id: 'm',
    actions: [
      {
        action_id: 'a1',
        action_type: 'kv.fetch',
        action_version: '1.0',
        payload: { source_control_endpoint: endpoint, block_hashes: blockHashes },
      },
    ],
  };
}

/** A prompt whose beginning it shares with its family. */
function prompt(family: number, length: number): Uint32Array {
  return Uint32Array.from({ length }, (_, index) => family * 1000 + (index < 12 ? index : index + length));
}

function dumped(index: PrefixIndex): unknown[] {
  return [...index.dump(0, 10_000).blocks].map((block) => JSON.stringify(block)).sort();
}

describe('VirtualFleet', () => {
  it('streams tokens and reports usage through the engine sink, never before dispatch returned', () => {
    const { time, fleet } = setUp(1);
    const got = answer(time);
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), got.sink);
    expect(got.status).toBeNull();
    while (time.step());
    expect(got).toMatchObject({ status: 200, tokens: 6 });
    expect(got.report).toEqual({
      promptTokens: 21,
      cachedTokens: 0,
      outputTokens: 6,
      finishReason: 'length',
      source: 'usage',
    });
    expect(fleet.engine(1n).stats().activeBlocks).toBe(0);
  });

  it('leaves the same index behind whether events travel as bytes or decoded', () => {
    const dumps = [false, true].map((fast) => {
      const { time, fleet } = setUp(2, { kvBlocks: 24 });
      const index = indexed(fleet, time, fast);
      for (let step = 0; step < 40; step += 1) {
        const got = answer(time);
        fleet.dispatch(requestTo(fleet, 1 + (step % 2), `r${step}`, prompt(step % 5, 14 + step)), got.sink);
        time.runUntil(time.now() + 40);
      }
      while (time.step());
      expect(index.stats()).toMatchObject({ unknownParents: 0, unknownRemoves: 0, duplicateStores: 0 });
      return dumped(index);
    });
    expect(dumps[0]!.length).toBeGreaterThan(10);
    expect(dumps[0]).toEqual(dumps[1]);
  });

  it('lets engines fetch from each other by the hashes the source announced', () => {
    const { time, fleet } = setUp(2);
    const index = indexed(fleet, time, false);
    const tokens = prompt(1, 26);
    fleet.dispatch(requestTo(fleet, 1, 'warm', tokens), answer(time).sink);
    while (time.step());
    const { local, sequence } = hasher.hashPrompt(
      tokens,
      4,
      blockHashSeed({ loraName: null, cacheSalt: null }),
    );
    const hashes = new BigUint64Array(6);
    expect(index.externalHashes(0, sequence, 0, 6, hashes)).toBe(6);
    const got = answer(time);
    fleet.dispatch(
      requestTo(fleet, 2, 'a', tokens, {
        protocol_version: '0.1',
        message_id: 'a',
        actions: [
          {
            action_id: 'a1',
            action_type: 'kv.fetch',
            action_version: '1.0',
            payload: {
              source_control_endpoint: fleet.workers[0]!.sourceControlEndpoint!,
              block_hashes: hashes,
            },
          },
        ],
      }),
      got.sink,
    );
    while (time.step());
    expect(got.outcomes).toMatchObject([
      { actionId: 'a1', outcome: 'accepted', blocksAsked: 6, blocksDone: 6 },
    ]);
    expect(got.report?.cachedTokens).toBe(24);
    // The copy was announced: both ranks hold the chain now.
    expect(index.find(local, sequence, ['device']).count).toBe(2);
    expect(fleet.engine(1n).stats().activeBlocks).toBe(0);
  });

  it('frees everything of an aborted request, and says nothing more', () => {
    const { time, fleet } = setUp(1);
    const got = answer(time);
    const exchange = fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), got.sink);
    time.step();
    expect(got.status).toBe(200);
    exchange.abort();
    exchange.abort();
    while (time.step());
    expect(got).toMatchObject({ tokens: 0, report: null });
    expect(fleet.engine(1n).stats()).toMatchObject({ running: 0, activeBlocks: 0 });
  });

  it('refuses a request larger than the pool with a status, as an engine over HTTP does', () => {
    const { time, fleet } = setUp(1, { kvBlocks: 5 });
    const got = answer(time);
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), got.sink);
    while (time.step());
    expect(got).toMatchObject({ status: 400, tokens: 0 });
    expect(got.report).toMatchObject({ finishReason: 'rejected', cachedTokens: null });
  });

  it('keeps two attempts of one request apart on one engine', () => {
    const { time, fleet } = setUp(1);
    const first = answer(time);
    const second = answer(time);
    const exchange = fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 9)), first.sink);
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 9)), second.sink);
    exchange.abort();
    while (time.step());
    expect(first.report).toBeNull();
    expect(second).toMatchObject({ tokens: 6 });
  });

  it('names the workers it has when asked for another', () => {
    const { fleet } = setUp(2);
    expect(() => fleet.engine(3n)).toThrow('the simulated fleet has workers 1 to 2, not 3');
  });

  it('answers a replay with the kept batches as they were sent, a round trip later', () => {
    const { time, fleet } = setUp(1, {}, 2);
    const sent: string[] = [];
    const replayed: string[] = [];
    const record = (to: string[]) => (sequence: number, payload: Uint8Array) =>
      to.push(`${sequence} ${Buffer.from(payload).toString('hex')}`);
    const live = record(sent);
    fleet.connectEvents(1n, {
      owner: 0,
      sink: { onBatch: (_owner, sequence, bytes) => live(sequence, bytes) },
    });
    for (const id of ['a', 'b', 'c', 'd']) {
      fleet.dispatch(requestTo(fleet, 1, id, prompt(id.charCodeAt(0), 21)), answer(time).sink);
      while (time.step());
    }
    expect(sent.length).toBeGreaterThan(3);
    let endedAt = -1;
    const asked = time.now();
    const stop = fleet.replayEvents(1n, sent.length - 3, {
      batch: record(replayed),
      ended: () => (endedAt = time.now()),
    });
    while (time.step());
    expect(replayed).toEqual(sent.slice(-2));
    expect(endedAt - asked).toBe(6);
    stop();
    fleet.replayEvents(1n, 0, { batch: record(replayed), ended: () => (endedAt = -2) })();
    while (time.step());
    expect([replayed.length, endedAt - asked]).toEqual([2, 6]);
  });

  it('restarts an engine with an empty pool and history, batches from 0, and its requests lost', () => {
    const { time, fleet } = setUp(2, {}, 100, { restarts: [{ worker: 1, atMs: 1000 }] });
    const live: number[] = [];
    fleet.connectEvents(1n, { owner: 0, sink: { onBatch: (_owner, sequence) => live.push(sequence) } });
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), answer(time).sink);
    time.runUntil(999);
    expect(fleet.engine(1n).residentBlocks('device').length).toBeGreaterThan(0);
    const lost: string[] = [];
    const { sink } = answer(time);
    const failing = { ...sink, failed: (error: Error & { code?: string }) => lost.push(String(error.code)) };
    fleet.dispatch({ ...requestTo(fleet, 1, 'b', prompt(2, 21)), maxOutputTokens: 150 }, failing);
    time.runUntil(1000);
    expect(lost).toEqual(['PM_ENGINE_LOST']);
    expect(fleet.engine(1n).residentBlocks('device').length).toBe(0);
    const replayed: (number | 'end')[] = [];
    fleet.replayEvents(1n, 0, {
      batch: (sequence) => replayed.push(sequence),
      ended: () => replayed.push('end'),
    });
    time.runUntil(1100);
    expect(replayed).toEqual(['end']);
    const before = live.length;
    const again = answer(time);
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), again.sink);
    while (time.step());
    expect(again.report).toMatchObject({ cachedTokens: 0, outputTokens: 6 });
    expect(live.slice(before)).toEqual(
      Array.from({ length: live.length - before }, (_, sequence) => sequence),
    );
  });

  it('recomputes what was being fetched from an engine that is restarted', () => {
    const { time, fleet } = setUp(2, { fetchLatencyMs: 500, fetchTimeoutMs: 2000 }, 0, {
      restarts: [{ worker: 1, atMs: 1200 }],
    });
    const index = indexed(fleet, time, false);
    const tokens = prompt(1, 26);
    fleet.dispatch(requestTo(fleet, 1, 'warm', tokens), answer(time).sink);
    time.runUntil(1000);
    const { sequence } = hasher.hashPrompt(tokens, 4, blockHashSeed({ loraName: null, cacheSalt: null }));
    const blockHashes = new BigUint64Array(6);
    expect(index.externalHashes(0, sequence, 0, 6, blockHashes)).toBe(6);
    const got = answer(time);
    const hint = fetchHint(fleet.workers[0]!.sourceControlEndpoint!, blockHashes);
    fleet.dispatch(requestTo(fleet, 2, 'a', tokens, hint), got.sink);
    while (time.step());
    expect(got.outcomes).toMatchObject([{ outcome: 'missing', reason: 'timeout' }]);
    expect(got.report).toMatchObject({ cachedTokens: 0, outputTokens: 6 });
  });

  it('ends a replay in the middle of its answer, and answers an empty one without a history', () => {
    const { time, fleet } = setUp(1, {}, 100);
    fleet.dispatch(requestTo(fleet, 1, 'a', prompt(1, 21)), answer(time).sink);
    fleet.dispatch(requestTo(fleet, 1, 'b', prompt(2, 21)), answer(time).sink);
    while (time.step());
    const heard: (number | 'end')[] = [];
    const stop = fleet.replayEvents(1n, 0, {
      batch(sequence) {
        heard.push(sequence);
        stop();
      },
      ended: () => heard.push('end'),
    });
    while (time.step());
    expect(heard).toEqual([0]);
    const without = setUp(1);
    without.fleet.dispatch(requestTo(without.fleet, 1, 'a', prompt(1, 21)), answer(without.time).sink);
    while (without.time.step());
    without.fleet.replayEvents(1n, 0, {
      batch: (sequence) => heard.push(sequence),
      ended: () => heard.push('end'),
    });
    while (without.time.step());
    expect(heard).toEqual([0, 'end']);
  });
});

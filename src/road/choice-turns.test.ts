// Requests that are only chosen for wait for their turn like others; what is left when it comes, and how many go at once.
import { describe, expect, it } from 'vitest';
import { parseConfig, queueSettingsOf } from '../config/index.ts';
import { blockHashSeed, createBlockHasher, hashBlocks } from '../kv/index.ts';
import type { CallerPart } from './caller-part.ts';
import { BLOCK, PARTITION, prompt, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';

const queues = queueSettingsOf(parseConfig('router: { router_queue_threshold: 0 }', 'q.yaml').config);

async function busyRoad(concurrentRequests = 20_000) {
  const road = await testRoad({ workers: [workerSpec(1n)], queues, concurrentRequests });
  const hasher = createBlockHasher();
  road.arrive();
  const chosen: bigint[] = [];
  const choose = (placed: CallerPart['placed'] = () => undefined, sink = new RecordingSink()) => {
    const tokens = prompt(1, 64);
    const caller: CallerPart = {
      prompt: { promptTokens: 64, hashes: hashBlocks(hasher, tokens, BLOCK, blockHashSeed({})) },
      target: null,
      looksUp: true,
      sharesBlocks: true,
      tracksPrefill: null,
      costOverride: null,
      affinityTarget: null,
      placed(lookup, placement) {
        chosen.push(placement.workerId);
        placed(lookup, placement);
      },
      transport: null,
    };
    return road.arrive({ tokens: new Uint32Array(0), caller }, sink);
  };
  const now = (): void => road.clock.advanceTo(road.clock.now());
  return { ...road, chosen, choose, now };
}

describe('a request that is only chosen for', () => {
  it('gets its choice at its turn, then ends, and nothing is booked, recorded or sent', async () => {
    const on = await busyRoad();
    const { sink, record } = on.choose();
    expect([sink.heard, on.chosen]).toEqual([[], []]);
    on.transport.last.sink.finished(REPORT);
    on.now();
    expect([sink.heard, on.chosen]).toEqual([['finished null'], [1n]]);
    expect([on.transport.dispatched.length, record()]).toEqual([1, null]);
    on.expectIdle();
  });

  it('is refused where reading the choice fails', async () => {
    const on = await busyRoad();
    const { sink } = on.choose(() => {
      throw new Error('as told');
    });
    on.transport.last.sink.finished(REPORT);
    on.now();
    expect(sink.heard).toEqual(['failed PM_INTERNAL before head']);
    on.expectIdle();
  });

  it('hears nothing when it is given up from within', async () => {
    const on = await busyRoad();
    const { sink, ticket } = on.choose(() => ticket.abort());
    on.transport.last.sink.finished(REPORT);
    on.now();
    expect([sink.heard, on.chosen]).toEqual([[], [1n]]);
    on.expectIdle();
  });

  it('leaves room for others between turns, however many wait', async () => {
    const on = await busyRoad();
    const after: number[] = [];
    const wait = (): void => {
      after.push(on.chosen.length);
      if (on.chosen.length < 10_000) on.clock.schedule(0, wait);
    };
    for (let at = 0; at < 10_000; at += 1) on.choose();
    expect(on.road.waitingOf(PARTITION)).toEqual({ requests: 10_000, promptTokens: 640_000 });
    on.transport.last.sink.finished(REPORT);
    on.clock.schedule(0, wait);
    on.now();
    expect(on.chosen.length).toBe(10_000);
    const most = Math.max(...after.map((count, index) => count - (after[index - 1] ?? 0)));
    expect(most).toBeLessThanOrEqual(256);
    expect(on.road.waitingOf(PARTITION)).toEqual({ requests: 0, promptTokens: 0 });
    on.expectIdle();
  });
});

describe('requests that wait when the road closes', () => {
  it('end once, also where the door of one gives up another', async () => {
    const on = await busyRoad(4);
    const first = new RecordingSink();
    const sinks = [first, new RecordingSink(), new RecordingSink()];
    const tickets = sinks.map((sink) => on.arrive({}, sink).ticket);
    first.also = () => tickets[1]?.abort();
    on.road.close();
    const stopped = ['failed PM_SHUTTING_DOWN before head'];
    expect(sinks.map(({ heard }) => heard)).toEqual([stopped, [], stopped]);
    // Each is counted out once: with the one at the engine, as many come in as the limit says.
    on.transport.last.sink.finished(REPORT);
    const heard = Array.from({ length: 5 }, () => on.arrive({ queueing: 'bypass' }).sink.heard[0]);
    expect(heard.at(-1)).toBe('failed PM_OVERLOADED before head');
    expect(heard.slice(0, 4)).toEqual(Array(4).fill('booked 1/0'));
  });
});

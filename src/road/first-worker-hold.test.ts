// Requests that come before any worker: they wait for the first one, bounded in time and number, and leave nothing behind.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Metrics } from '../observe/index.ts';
import { type ClassifierEvent, defineRequestClassifier } from '../plugin/index.ts';
import { REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

function counting() {
  const counts: string[] = [];
  const gauges = new Map<string, () => unknown>();
  const metrics: Metrics = {
    count: (name, labels = {}) => {
      if (name === 'pointsman_holds_total') counts.push(String(labels.outcome));
    },
    observe() {},
    gauge: (name, read) => void gauges.set(name, read),
  };
  return { metrics, counts, held: () => gauges.get('pointsman_requests_held')?.() };
}

const holding = (waitMs: number, waiting = 100, more: Parameters<typeof testRoad>[0] = {}) =>
  testRoad({ workers: [], firstWorkerHold: { waitMs, waiting }, ...more });
const pinTo = (workerId: bigint) => ({
  constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank: null } },
});

describe('a request that comes before any worker', () => {
  it('is refused at once where nobody may wait', async () => {
    const { arrive } = await testRoad({ workers: [] });
    expect(arrive().sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
  });

  it('waits for the first one, and goes on in order of arrival, with its wait in the record', async () => {
    const { metrics, counts, held } = counting();
    const { arrive, clock, fleet, transport, expectIdle } = await holding(5000, 100, { metrics });
    const first = arrive();
    clock.advanceTo(clock.now() + 2000);
    const second = arrive();
    expect([first.sink.heard, second.sink.heard, held()]).toEqual([[], [], 2]);
    fleet.add(workerSpec(1n));
    // Others hear of the worker before anything is booked on it.
    expect(transport.dispatched).toEqual([]);
    clock.advanceTo(clock.now());
    expect(transport.dispatched.map(({ request }) => request.requestId)).toEqual(['r1', 'r2']);
    expect([first, second].map(({ record }) => record()?.queue)).toEqual([
      { class: 'default', waited_ms: 2000, outcome: 'held' },
      { class: 'default', waited_ms: 0, outcome: 'held' },
    ]);
    expect(arrive().record()?.queue).toEqual({ class: 'default', waited_ms: 0, outcome: 'direct' });
    for (const { sink } of transport.dispatched) sink.finished(REPORT);
    clock.advanceTo(clock.now() + 60_000);
    expect([first.sink.heard.at(-1), counts, held()]).toEqual(['finished stop', ['went_on', 'went_on'], 0]);
    expectIdle();
    expect(clock.nextTimerAt()).toBeNull();
  });

  it('is refused with a Retry-After after its wait', async () => {
    const { metrics, counts } = counting();
    const { arrive, clock } = await holding(5000, 100, { metrics });
    const { sink } = arrive();
    clock.advanceTo(clock.now() + 4999);
    expect(sink.heard).toEqual([]);
    clock.advanceTo(clock.now() + 1);
    expect(sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
    expect([sink.error?.status, sink.error?.details.retry_after, sink.error?.message]).toEqual([
      503,
      '1',
      'no worker serves model tiny in role aggregated; add one, or wait until one is back; none came within 5000 ms (limits.first_worker_wait)',
    ]);
    expect([counts, clock.nextTimerAt()]).toEqual([['expired'], null]);
  });

  it('is refused at once where too many wait', async () => {
    const { metrics, counts } = counting();
    const { arrive } = await holding(5000, 2, { metrics });
    arrive();
    const { ticket } = arrive();
    const third = arrive();
    expect([
      third.sink.error?.status,
      third.sink.error?.details.retry_after,
      third.sink.error?.message,
    ]).toEqual([
      503,
      '1',
      'no worker serves model tiny in role aggregated; add one, or wait until one is back; 2 requests wait for one already (limits.first_worker_waiting)',
    ]);
    ticket.abort();
    expect(arrive().sink.heard).toEqual([]);
    expect(counts).toEqual(['full', 'aborted']);
  });

  it('counts as under way while it waits', async () => {
    const { arrive } = await holding(5000, 100, { concurrentRequests: 1 });
    arrive();
    expect(arrive().sink.error?.code).toBe('PM_OVERLOADED');
  });

  it('leaves nothing behind when its client goes away', async () => {
    const { arrive, clock, fleet, transport } = await holding(5000);
    const { sink, ticket } = arrive();
    ticket.pause();
    ticket.abort();
    ticket.abort();
    expect(clock.nextTimerAt()).toBeNull();
    fleet.add(workerSpec(1n));
    clock.advanceTo(clock.now() + 60_000);
    expect([sink.heard, transport.dispatched]).toEqual([[], []]);
  });

  it('waits for its own worker only where none is there', async () => {
    const { arrive, clock, fleet } = await holding(5000);
    const { sink } = arrive(pinTo(2n));
    expect(sink.heard).toEqual([]);
    fleet.add(workerSpec(1n));
    clock.advanceTo(clock.now());
    expect(sink.heard).toEqual(['failed PM_SELECTION_PINNED_UNAVAILABLE before head']);
    expect(arrive(pinTo(2n)).sink.heard).toEqual(['failed PM_SELECTION_PINNED_UNAVAILABLE before head']);
    fleet.setState(1n, 'draining');
    expect(arrive().sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
  });

  it('waits again, for what is left, when the worker went before it could go on', async () => {
    const { arrive, clock, fleet } = await holding(5000);
    fleet.add(workerSpec(1n));
    fleet.setState(1n, 'gone');
    const { sink } = arrive();
    clock.advanceTo(clock.now() + 3000);
    fleet.setState(1n, 'ready');
    fleet.setState(1n, 'gone');
    clock.advanceTo(clock.now() + 1999);
    expect(sink.heard).toEqual([]);
    clock.advanceTo(clock.now() + 1);
    expect(sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
  });

  it('is not held for what no worker could mend', async () => {
    const { arrive } = await holding(5000);
    const constraints = {
      ...NO_CONSTRAINTS,
      allowedWorkers: [1n],
      pinnedWorker: { workerId: 2n, rank: null },
    };
    expect(arrive({ constraints }).sink.heard).toEqual([
      'failed PM_SELECTION_PINNED_NOT_ALLOWED before head',
    ]);
    expect(arrive({ tokens: new Uint32Array(0) }).sink.heard).toEqual([
      'failed PM_PROMPT_INVALID before head',
    ]);
  });

  it('is told of to its classifier, which was asked once', async () => {
    const events: ClassifierEvent[] = [];
    let asked = 0;
    const classifier = {
      definition: defineRequestClassifier({
        type: 'mine',
        create: () => ({
          classify() {
            asked += 1;
          },
          onEvent: (event) => void events.push(event),
        }),
      }),
    };
    const { arrive, clock, fleet, transport } = await holding(5000, 100, { classifier });
    arrive();
    arrive().ticket.abort();
    fleet.add(workerSpec(1n));
    clock.advanceTo(clock.now());
    transport.last.sink.finished(REPORT);
    arrive();
    expect(asked).toBe(3);
    await new Promise((resolve) => setImmediate(resolve));
    const kinds = (id: string) => events.filter(({ requestId }) => requestId === id).map(({ kind }) => kind);
    expect([kinds('r1'), kinds('r2')]).toEqual([['sent', 'completed'], ['aborted']]);
  });
});

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('arrive' as const), abortsWithin: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('abort' as const), which: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('time' as const), ms: fc.integer({ min: 0, max: 700 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'add' as const,
        'remove' as const,
        'gone' as const,
        'suspect' as const,
        'ready' as const,
      ),
      id: fc.bigInt(1n, 2n),
    }),
  },
);

it('end once each, in time and in order, under whatever workers and clients do', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const { metrics, held } = counting();
      const { arrive, clock, fleet, transport, expectIdle } = await holding(1000, 3, { metrics });
      // The plain model: who waits since when; a look at the workers happens when time is next told.
      const requests: { sink: RecordingSink; since: number; abort(): void; state: string }[] = [];
      const waiting = () => requests.filter(({ state }) => state === 'waits');
      const workers = (...states: readonly string[]) =>
        fleet.workers().filter(({ state }) => states.includes(state));
      const settle = (): void => {
        clock.advanceTo(clock.now());
        if (workers('ready').length > 0) for (const one of waiting()) one.state = 'booked';
      };
      for (const one of steps) {
        if (one.do === 'arrive') {
          const sink = new RecordingSink();
          let state = 'waits';
          if (workers('ready').length > 0) state = 'booked';
          else if (workers('suspect').length > 0 || waiting().length === 3) state = 'refused';
          const entry = { sink, since: clock.now(), abort: (): void => undefined, state };
          requests.push(entry);
          const { ticket } = arrive({}, sink);
          entry.abort = () => ticket.abort();
          if (one.abortsWithin && state === 'waits') {
            entry.abort();
            entry.state = 'aborted';
          }
        } else if (one.do === 'abort') {
          const target = requests[one.which % Math.max(1, requests.length)];
          if (target?.state === 'waits' || target?.state === 'booked') target.state = 'aborted';
          target?.abort();
        } else if (one.do === 'time') {
          const now = clock.now() + one.ms;
          for (const each of waiting()) if (each.since + 1000 <= now) each.state = 'refused';
          clock.advanceTo(now);
        } else if (one.do === 'add') {
          if (fleet.worker(one.id) === null) fleet.add(workerSpec(one.id));
        } else if (one.do === 'remove') {
          fleet.remove(one.id);
        } else if (fleet.worker(one.id) !== null) fleet.setState(one.id, one.do);
        settle();
        // Their worker was lost.
        for (const each of requests) {
          if (each.state === 'booked' && each.sink.heard.at(-1)?.startsWith('failed PM_ENGINE_LOST'))
            each.state = 'lost';
        }
        expect(held()).toBe(waiting().length);
        for (const { sink, state } of requests) {
          const [first = null] = sink.heard;
          if (state === 'waits') expect(first).toBeNull();
          else if (state === 'refused')
            expect(sink.heard).toEqual(['failed PM_SELECTION_NO_ENDPOINTS before head']);
          else if (state !== 'aborted') expect(first).toMatch(/^booked/);
          expect(sink.heard.filter((call) => call.startsWith('failed')).length).toBeLessThanOrEqual(1);
        }
      }
      const order = transport.dispatched.map(({ request: { requestId } }) => Number(requestId.slice(1)));
      expect(new Set(order).size).toBe(order.length);
      for (const { abort } of requests) abort();
      expectIdle();
      expect([held(), clock.nextTimerAt()]).toEqual([0, null]);
    }),
    { numRuns: 200 },
  );
});

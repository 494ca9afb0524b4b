// Second tries: what the client, the engines, the classifier and the record see of them.
import { describe, expect, it } from 'vitest';
import type { Metrics } from '../observe/index.ts';
import {
  type ClassifierEvent,
  defineHintPolicy,
  defineRequestClassifier,
  defineWorkerSelectionPolicy,
  PointsmanError,
  pickWorker,
} from '../plugin/index.ts';
import { NO_CONSTRAINTS } from './index.ts';
import { retryReasonOf } from './retriable.ts';
import { REPORT, type TestRoadOptions, testRoad, workerSpec } from './road.fixtures.ts';

const LOST = new PointsmanError('PM_ENGINE_LOST', 'worker closed the connection');
const UNREACHABLE = new PointsmanError('PM_ENGINE_UNREACHABLE', 'worker cannot be reached');
const LIMITS = { retries: 2, ratio: 0.2 };

/** The eligible worker with the lowest id: which worker a try goes to is then plain. */
const FIRST = defineWorkerSelectionPolicy({
  type: 'first',
  create: () => ({ picker: pickWorker({ pick: () => 0 }) }),
});

async function retrying(options: TestRoadOptions = {}) {
  const counts: string[] = [];
  const metrics: Metrics = {
    count: (name, labels = {}) => {
      if (name === 'pointsman_retries_total') counts.push(Object.values(labels).join(' '));
    },
    observe() {},
    gauge() {},
  };
  const road = await testRoad({
    workers: [1n, 2n, 3n].map((id) => workerSpec(id)),
    selection: { definition: FIRST },
    retries: LIMITS,
    metrics,
    ...options,
  });
  /** Lets what waits for the next tick of the clock run. */
  const tick = (): void => road.clock.advanceTo(road.clock.now());
  const sentTo = (): bigint[] => road.transport.dispatched.map(({ request }) => request.worker.spec.id);
  return { ...road, counts, tick, sentTo };
}

describe('a request whose worker fails before the first byte', () => {
  it('goes to another worker, and its client hears of that one alone', async () => {
    const { arrive, transport, tick, sentTo, counts, road, expectIdle, decisions } = await retrying();
    const { sink } = arrive();
    transport.last.sink.failed(LOST);
    expect(road.activeBookings()).toBe(0);
    tick();
    transport.last.sink.head(200, {}, []);
    transport.last.sink.failed(UNREACHABLE);
    tick();
    expect(sentTo()).toEqual([1n, 2n, 3n]);
    const engine = transport.last.sink;
    engine.head(200, {}, []);
    expect(sink.heard).toEqual(['booked 1/0', 'booked 2/0', 'booked 3/0']);
    engine.data(new Uint8Array(5));
    engine.tokens(1);
    engine.finished(REPORT);
    expect(sink.heard.slice(3)).toEqual(['head 200', 'data 5', 'tokens 1', 'finished stop']);
    expect(counts).toEqual(['tiny lost failed', 'tiny unreachable answered']);
    const records = decisions?.ofRequest('r1') ?? [];
    expect(records.map(({ attempt, outcome }) => [attempt, outcome?.status, outcome?.retries])).toEqual([
      [1, 502, 0],
      [2, 502, 1],
      [3, 200, 2],
    ]);
    expect(records[2]?.candidates.filter(({ eligible }) => !eligible)).toMatchObject([
      { worker_id: 1n, reason: 'excluded' },
      { worker_id: 2n, reason: 'excluded' },
    ]);
    expectIdle();
  });

  it('sends the hints of each try under a message id of its own, and late outcomes find the right one', async () => {
    const mark = defineHintPolicy({
      type: 'mark',
      create: () => ({ buildHints: () => [{ type: 'acme.mark', version: '1.0', payload: {} }] }),
    });
    const { arrive, transport, tick, road, decisions } = await retrying({ hints: [{ definition: mark }] });
    arrive();
    transport.last.sink.failed(LOST);
    tick();
    expect(transport.dispatched.map(({ request }) => request.hint?.message_id)).toEqual(['r1', 'r1/2']);
    const late = { actionId: 'a1', outcome: 'rejected', reason: 'no_room', blocks: null } as const;
    road.hintOutcome({ ...late, messageId: 'r1' });
    const outcomes = () => decisions?.ofRequest('r1').map(({ hints }) => hints?.sent[0]?.outcome);
    expect(outcomes()).toEqual(['rejected', null]);
    road.hintOutcome({ ...late, messageId: 'r1/2', outcome: 'accepted' });
    expect(outcomes()).toEqual(['rejected', 'accepted']);
    transport.last.sink.finished(REPORT);
  });

  it('keeps the message id of a caller’s envelope in every try', async () => {
    const action = { action_id: 'x', action_type: 'acme.mark', action_version: '1.0', payload: {} };
    const incomingHint = { protocol_version: '0.1', message_id: 'mine', actions: [action] } as const;
    const { arrive, transport, tick } = await retrying();
    arrive({ incomingHint });
    transport.last.sink.failed(LOST);
    tick();
    expect(transport.dispatched.map(({ request }) => request.hint?.message_id)).toEqual(['mine', 'mine']);
    transport.last.sink.finished(REPORT);
  });

  it('is given up after so many tries, with the last error and their number', async () => {
    const { arrive, transport, tick, sentTo, counts, expectIdle } = await retrying({
      workers: [1n, 2n, 3n, 4n].map((id) => workerSpec(id)),
    });
    const { sink } = arrive();
    for (const error of [LOST, LOST, UNREACHABLE]) {
      transport.last.sink.failed(error);
      tick();
    }
    expect(sentTo()).toEqual([1n, 2n, 3n]);
    expect(sink.heard.at(-1)).toBe('failed PM_ENGINE_UNREACHABLE before head');
    expect(sink.error?.details.tries).toBe(3);
    expect(counts).toEqual(['tiny lost failed', 'tiny lost failed', 'tiny unreachable exhausted']);
    expectIdle();
  });

  it('gets the error of its worker where there is no other', async () => {
    const { arrive, transport, tick, counts, expectIdle } = await retrying({ workers: [workerSpec(1n)] });
    const { sink } = arrive();
    transport.last.sink.failed(LOST);
    tick();
    expect(sink.heard).toEqual(['booked 1/0', 'failed PM_ENGINE_LOST before head']);
    expect(sink.error?.details).not.toHaveProperty('tries');
    expect(counts).toEqual(['tiny lost no_worker']);
    expectIdle();
  });

  it('goes elsewhere when its worker is declared gone, in whatever order that is heard', async () => {
    const { arrive, fleet, tick, sentTo, transport, expectIdle } = await retrying();
    const { sink } = arrive();
    fleet.remove(1n);
    expect(transport.last.aborts).toBe(1);
    tick();
    expect(sentTo()).toEqual([1n, 2n]);
    transport.last.sink.finished(REPORT);
    expect(sink.heard).toEqual(['booked 1/0', 'booked 2/0', 'finished stop']);
    expectIdle();
  });

  it('frees everything when its client leaves, between two tries or during one', async () => {
    const { arrive, transport, tick, sentTo, counts, expectIdle, road } = await retrying();
    const between = arrive();
    transport.last.sink.failed(LOST);
    between.ticket.abort();
    tick();
    expect(sentTo()).toEqual([1n]);
    expectIdle();
    const during = arrive();
    transport.last.sink.failed(LOST);
    tick();
    expect(road.activeBookings()).toBe(1);
    during.ticket.abort();
    during.ticket.abort();
    expect(transport.last.aborts).toBe(1);
    transport.last.sink.failed(LOST);
    tick();
    expect(counts).toEqual(['tiny lost aborted', 'tiny lost aborted']);
    expect([between, during].flatMap(({ sink }) => sink.heard)).not.toContainEqual(
      expect.stringMatching(/^(failed|finished)/),
    );
    expectIdle();
  });

  it('dispatches to nobody for a client that leaves while it is told where its retry goes', async () => {
    const { arrive, transport, tick, expectIdle } = await retrying();
    const { sink, ticket } = arrive();
    sink.also = (call) => {
      if (call === 'booked') ticket.abort();
    };
    transport.last.sink.failed(LOST);
    tick();
    expect(transport.dispatched.slice(1).every(({ aborts }) => aborts === 1)).toBe(true);
    expectIdle();
  });

  it('keeps the engine of the next try paused for a client that does not read', async () => {
    const { arrive, transport, tick } = await retrying();
    const { ticket } = arrive();
    ticket.pause();
    transport.last.sink.failed(LOST);
    tick();
    expect([transport.last.pauses, transport.last.resumes]).toEqual([1, 0]);
    ticket.resume();
    expect(transport.last.resumes).toBe(1);
  });
});

describe('a retry where requests queue', () => {
  // Busy from the first prompt token on; pinned requests of the test make workers so.
  const queues = { root: null, models: new Map(), threshold: 0, policy: 'fcfs' } as const;
  const pinned = { ...NO_CONSTRAINTS, pinnedWorker: { workerId: 2n, rank: null } };

  it('goes on at once, though all are busy: it had its turn', async () => {
    const { arrive, transport, tick, sentTo, expectIdle } = await retrying({
      workers: [workerSpec(1n), workerSpec(2n)],
      queues,
    });
    const tried = arrive();
    const lost = transport.last.sink;
    arrive({ constraints: pinned });
    const busy = transport.last.sink;
    const waiting = arrive();
    lost.failed(LOST);
    tick();
    expect(sentTo()).toEqual([1n, 2n, 2n]);
    expect(tried.sink.heard).toEqual(['booked 1/0', 'booked 2/0']);
    expect(waiting.sink.heard).toEqual([]);
    transport.last.sink.finished(REPORT);
    busy.finished(REPORT);
    tick();
    expect(waiting.sink.heard).toEqual(['booked 2/0']);
    transport.last.sink.finished(REPORT);
    expect(tried.sink.heard.at(-1)).toBe('finished stop');
    expectIdle();
  });
});

describe('no second try is made', () => {
  const failed = async (
    options: TestRoadOptions,
    play: (road: Awaited<ReturnType<typeof retrying>>) => void,
  ) => {
    const road = await retrying(options);
    play(road);
    road.tick();
    expect(road.transport.dispatched).toHaveLength(1);
    road.expectIdle();
    return road;
  };

  it('once something of the answer went to the client', async () => {
    for (const answer of ['data', 'tokens'] as const) {
      const { counts } = await failed({}, ({ arrive, transport }) => {
        const { sink } = arrive();
        transport.last.sink.head(200, {}, []);
        if (answer === 'data') transport.last.sink.data(new Uint8Array(1));
        else transport.last.sink.tokens(1);
        transport.last.sink.failed(LOST);
        expect(sink.heard.at(-1)).toBe('failed PM_ENGINE_LOST after head');
      });
      expect(counts).toEqual([]);
    }
  });

  it('of a pinned request, whose head is not held back either', async () => {
    const constraints = { ...NO_CONSTRAINTS, pinnedWorker: { workerId: 2n, rank: null } };
    await failed({}, ({ arrive, transport }) => {
      const { sink } = arrive({ constraints });
      transport.last.sink.head(200, {}, []);
      expect(sink.heard).toEqual(['booked 2/0', 'head 200']);
      transport.last.sink.failed(LOST);
      expect(sink.heard.at(-1)).toBe('failed PM_ENGINE_LOST after head');
    });
  });

  it('for a failure that another worker would repeat', async () => {
    await failed({}, ({ arrive, transport }) => {
      arrive();
      transport.last.sink.failed(
        new PointsmanError('PM_ENGINE_REFUSED', 'no', { details: { engine_status: 400 } }),
      );
    });
  });

  it('with limits.retries at 0', async () => {
    await failed({ retries: { retries: 0, ratio: 0.2 } }, ({ arrive, transport }) => {
      arrive();
      transport.last.sink.failed(LOST);
    });
  });

  it('with a budget that refused requests have not filled', async () => {
    const { arrive, transport, tick, counts } = await retrying({
      workers: [1n, 2n].map((id) => workerSpec(id)),
      concurrentRequests: 1,
      retries: { retries: 1, ratio: 0.5 },
    });
    const busy = new PointsmanError('PM_ENGINE_FAILED', 'x', { details: { engine_status: 503 } });
    const spend = (): void => {
      arrive();
      // Refused: they never come to a worker.
      for (let more = 0; more < 4; more += 1) arrive();
      transport.last.sink.failed(busy);
      tick();
      transport.last.sink.finished(REPORT);
    };
    for (let request = 0; request < 2000; request += 1) spend();
    const retried = counts.filter((what) => what === 'tiny unavailable answered').length;
    expect(retried).toBeGreaterThanOrEqual(1000);
    expect(retried).toBeLessThanOrEqual(1000 + 256);
  });

  it('with a budget of 0', async () => {
    const { counts } = await failed({ retries: { retries: 2, ratio: 0 } }, ({ arrive, transport }) => {
      arrive();
      transport.last.sink.failed(LOST);
    });
    expect(counts).toEqual(['tiny lost no_budget']);
  });
});

describe('failures that another worker may make good', () => {
  const engine = (code: 'PM_ENGINE_FAILED' | 'PM_ENGINE_REFUSED', status: number) =>
    retryReasonOf(new PointsmanError(code, 'x', { details: { engine_status: status } }));

  it('are those of the worker, not those of the request', () => {
    expect([retryReasonOf(LOST), retryReasonOf(UNREACHABLE)]).toEqual(['lost', 'unreachable']);
    expect([502, 503, 504, 500, 501].map((status) => engine('PM_ENGINE_FAILED', status))).toEqual([
      'unavailable',
      'unavailable',
      'unavailable',
      null,
      null,
    ]);
    expect([429, 400, 404].map((status) => engine('PM_ENGINE_REFUSED', status))).toEqual([
      'overloaded',
      null,
      null,
    ]);
    for (const code of ['PM_SELECTION_OVERLOADED', 'PM_ROAD_EXPIRED', 'PM_INTERNAL'] as const) {
      expect(retryReasonOf(new PointsmanError(code, 'x'))).toBeNull();
    }
  });
});

describe('the classifier', () => {
  it('is asked once, and its overrides count for every try', async () => {
    let asked = 0;
    const definition = defineRequestClassifier({
      type: 'pricing',
      create: () => ({
        classify: () => {
          asked += 1;
          return { schedulingCostTokens: 5 };
        },
      }),
    });
    const { arrive, transport, tick, decisions } = await retrying({ classifier: { definition } });
    arrive();
    transport.last.sink.failed(LOST);
    tick();
    transport.last.sink.finished(REPORT);
    const [first, second] = decisions?.ofRequest('r1') ?? [];
    expect(first?.classification?.overrides).toEqual({ scheduling_cost_tokens: 5 });
    expect(second?.classification).toEqual(first?.classification);
    expect(second?.booking.attempt_id).not.toBe(first?.booking.attempt_id);
    expect(asked).toBe(1);
  });

  it('is asked once, and hears of one end, whatever becomes of the tries', async () => {
    const asked: string[] = [];
    const events: string[] = [];
    const definition = defineRequestClassifier({
      type: 'counting',
      create: () => ({
        classify: (request) => {
          asked.push(request.requestId);
        },
        onEvent: ({ kind, requestId, ...rest }: ClassifierEvent) => {
          const worker = 'worker' in rest && rest.worker !== null ? rest.worker.workerId : '-';
          events.push(`${requestId} ${kind} ${worker}`);
        },
      }),
    });
    const { arrive, transport, tick, expectIdle } = await retrying({ classifier: { definition } });
    arrive();
    transport.last.sink.failed(LOST);
    tick();
    transport.last.sink.finished(REPORT);
    const left = arrive();
    transport.last.sink.failed(LOST);
    left.ticket.abort();
    arrive();
    for (let tries = 0; tries < 3; tries += 1) {
      transport.last.sink.failed(LOST);
      tick();
    }
    await Promise.resolve();
    expect(asked).toEqual(['r1', 'r2', 'r3']);
    expect(events.filter((event) => !event.includes('sent') && !event.includes('responding'))).toEqual([
      'r1 completed 2',
      'r2 aborted 2',
      'r3 aborted 3',
    ]);
    expectIdle();
  });
});

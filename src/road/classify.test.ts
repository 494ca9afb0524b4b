// Classification on the road: before anything is booked, without holding others up, and whatever the classifier does.
import { describe, expect, it } from 'vitest';
import { createSoloClassifier } from '../host/index.ts';
import {
  type ClassifierEvent,
  type ClassifyAnswer,
  type ClassifyRequest,
  defineRequestClassifier,
  defineWorkerSelectionPolicy,
  errorText,
  ManualClock,
  NO_LOG,
  PointsmanError,
  pickWorker,
  RateLimited,
  type RequestClassifier,
} from '../plugin/index.ts';
import { ClassifyStep } from './classify.ts';
import {
  PARTITION,
  REPORT,
  RecordingSink,
  roadRequest,
  type TestRoadOptions,
  testRoad,
} from './road.fixtures.ts';

const promisesRan = () => new Promise((resolve) => setImmediate(resolve));

function classifiedRoad(classifier: RequestClassifier, options: TestRoadOptions = {}) {
  const definition = defineRequestClassifier({ type: 'mine', create: () => classifier });
  return testRoad({ ...options, classifier: { definition, ...options.classifier } });
}

function deferred() {
  let answer: (value: ClassifyAnswer) => void = () => undefined;
  const promise = new Promise<never>((resolve) => {
    answer = resolve as typeof answer;
  });
  return { promise, answer };
}

describe('an answer', () => {
  it('at once goes on at once: the request is dispatched before arrive returns', async () => {
    const road = await classifiedRoad({ classify: () => ({ schedulingCostTokens: 5 }) });
    const { sink, record } = road.arrive();
    expect(sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    expect(record()?.classification).toEqual({
      classifier: 'mine',
      result: 'classified',
      waited_ms: 0,
      overrides: { scheduling_cost_tokens: 5 },
    });
    expect(record()?.queue.class).toBe('default');
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  });

  it('carries its overrides into the record and its policy class into the queue', async () => {
    const definition = defineRequestClassifier({
      type: 'mine',
      create: () => ({
        classify: () => ({
          policyClass: 'batch',
          dueAt: 5000,
          workerTarget: { workerId: 2n },
          schedulingCostTokens: null,
        }),
      }),
    });
    const road = await testRoad({ classifier: { definition, policyClasses: ['chat', 'batch'] } });
    const { record } = road.arrive();
    expect(record()?.queue.class).toBe('batch');
    expect(record()?.classification?.overrides).toEqual({
      policy_class: 'batch',
      due_at_ms: 5000,
      scheduling_cost_tokens: null,
      worker_target: { worker_id: 2n, dp_rank: null },
    });
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  });

  it('with a worker target reaches policies as the affinity target', async () => {
    const targets: unknown[] = [];
    const exclusive = defineWorkerSelectionPolicy({
      type: 'sticky',
      exclusiveAffinity: true,
      create: () => ({
        picker: pickWorker({
          pick(_, request) {
            targets.push(request.affinityTarget);
            return 0;
          },
        }),
      }),
    });
    const road = await classifiedRoad(
      { classify: ({ requestId }) => ({ workerTarget: { workerId: requestId === 'r1' ? 2n : 99n } }) },
      { selection: { definition: exclusive } },
    );
    // A target that is a candidate is gone to; one that is none is advice that cannot be followed.
    expect([road.arrive().sink.heard[0], road.arrive().sink.heard[0]]).toEqual(['booked 2/0', 'booked 1/0']);
    expect(targets).toEqual([{ workerId: 99n, rank: null }]);
    for (const { sink } of road.transport.dispatched) sink.finished(REPORT);
    road.expectIdle();
  });
});

describe('waiting', () => {
  it('holds nobody else up, counts as under way, and ends with the client', async () => {
    const waits: ((value: undefined) => void)[] = [];
    const road = await classifiedRoad(
      {
        classify: ({ inputTokens }) =>
          inputTokens === 64 ? new Promise((resolve) => waits.push(resolve)) : undefined,
      },
      { concurrentRequests: 3 },
    );
    const first = road.arrive();
    const second = road.arrive();
    expect([first.sink.heard, road.road.unsettled()]).toEqual([[], true]);
    const short = road.arrive({ tokens: Uint32Array.of(1, 2, 3) });
    expect(short.sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    expect(road.arrive().sink.heard).toEqual(['failed PM_OVERLOADED before head']);
    first.ticket.abort();
    for (const answer of waits) answer(undefined);
    await promisesRan();
    expect(first.sink.heard).toEqual([]);
    expect(second.sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    expect(road.transport.dispatched).toHaveLength(2);
    for (const { sink } of road.transport.dispatched) sink.finished(REPORT);
    road.expectIdle();
    expect(road.road.unsettled()).toBe(false);
  });

  it('counts the time from arrival in the record', async () => {
    const road = await classifiedRoad({
      classify: () => new Promise((resolve) => road.clock.schedule(40, () => resolve(undefined))),
    });
    const { record, sink } = road.arrive();
    road.clock.advanceTo(1040);
    await promisesRan();
    expect(sink.heard).toHaveLength(1);
    expect(record()?.classification?.waited_ms).toBe(40);
    expect(record()?.at_ms).toBe(1040);
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  });

  it('pauses of the door before there is an engine reach the engine', async () => {
    const { promise, answer } = deferred();
    const road = await classifiedRoad({ classify: () => promise });
    const { ticket } = road.arrive();
    ticket.pause();
    answer(undefined);
    await promisesRan();
    expect(road.transport.last.pauses).toBe(1);
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  });
});

describe('the lifecycle', () => {
  const told = async (play: (road: Awaited<ReturnType<typeof classifiedRoad>>) => void) => {
    const events: ClassifierEvent[] = [];
    const road = await classifiedRoad({
      classify: ({ requestId }): ClassifyAnswer => {
        if (requestId === 'r9') throw new RateLimited(1);
        return undefined;
      },
      onEvent: (event) => void events.push(event),
    });
    play(road);
    road.expectIdle();
    return events.map((event) =>
      [
        event.kind,
        event.worker === null ? '-' : `${event.worker.workerId}/${event.worker.rank}`,
        ...('contextTokens' in event ? [event.contextTokens] : []),
        ...('error' in event ? [event.error] : []),
      ].join(' '),
    );
  };

  it.each<[string, (road: Awaited<ReturnType<typeof classifiedRoad>>) => void, string[]]>([
    [
      'of a stream',
      ({ arrive, transport }) => {
        arrive();
        const { sink } = transport.last;
        sink.head(200, {}, []);
        sink.tokens(1);
        sink.tokens(2);
        sink.finished(REPORT);
      },
      ['sent 1/0', 'responding 1/0', 'completed 1/0 67'],
    ],
    [
      'of an engine that answers at once',
      ({ arrive, transport }) => {
        transport.during = ({ sink }) => {
          sink.tokens(1);
          sink.finished(REPORT);
        };
        arrive();
      },
      ['sent 1/0', 'responding 1/0', 'completed 1/0 67'],
    ],
    [
      'of an engine that cannot be reached',
      ({ arrive, transport }) => {
        transport.during = () => {
          throw new Error('no socket');
        };
        arrive();
      },
      ['aborted 1/0 64 PM_INTERNAL'],
    ],
    [
      'of a client that leaves',
      ({ arrive, transport }) => {
        const { ticket } = arrive();
        transport.last.sink.tokens(1);
        ticket.abort();
        ticket.abort();
      },
      ['sent 1/0', 'responding 1/0', 'aborted 1/0 65 '],
    ],
    [
      'of a worker that is lost',
      ({ arrive, fleet }) => {
        arrive();
        fleet.setState(1n, 'gone');
      },
      ['sent 1/0', 'aborted 1/0 64 PM_ENGINE_LOST'],
    ],
    [
      'of a door that fails',
      ({ arrive, transport }) => {
        const sink = new RecordingSink();
        sink.failOn = 'head';
        arrive({}, sink);
        transport.last.sink.head(200, {}, []);
      },
      ['sent 1/0', 'responding 1/0', 'aborted 1/0 64 PM_INTERNAL'],
    ],
    [
      'of a request that nobody can take',
      ({ arrive, fleet }) => {
        fleet.remove(1n);
        fleet.remove(2n);
        arrive();
      },
      ['aborted - 64 PM_SELECTION_NO_ENDPOINTS'],
    ],
  ])('%s', async (_, play, events) => {
    expect(await told(play)).toEqual(events);
  });
});

describe('an id', () => {
  it('in use twice is refused, and the first goes on', async () => {
    const { promise, answer } = deferred();
    const road = await classifiedRoad({ classify: () => promise });
    const first = road.arrive({ requestId: 'same' });
    const second = road.arrive({ requestId: 'same' });
    expect(second.sink.heard).toEqual(['failed PM_CLASSIFIER_DUPLICATE_ID before head']);
    answer(undefined);
    await promisesRan();
    expect(first.sink.heard).toEqual([expect.stringMatching(/^booked/)]);
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  });
});

it('a classifier that acts after the client left does nothing to anyone', async () => {
  const kept: ClassifyRequest[] = [];
  const { promise, answer } = deferred();
  const road = await classifiedRoad({
    classify(request) {
      kept.push(request);
      return promise;
    },
  });
  const left = road.arrive();
  left.ticket.abort();
  answer({ schedulingCostTokens: 3 } as never);
  await promisesRan();
  expect(kept[0]?.contextTokens).toBe(64);
  expect([left.sink.heard, road.transport.dispatched.length]).toEqual([[], 0]);
  road.expectIdle();
});

it('without a classifier, or with one that has nothing to say, nothing is asked and the record says so', async () => {
  for (const road of [await testRoad(), await classifiedRoad({})]) {
    const { record } = road.arrive();
    expect(record()?.classification).toBeNull();
    expect(record()?.queue.class).toBe('default');
    road.transport.last.sink.finished(REPORT);
    road.expectIdle();
  }
});

it('a hop that only prefills is not classified: its other hop is', async () => {
  let asked = 0;
  const road = await classifiedRoad({
    classify() {
      asked += 1;
      return undefined;
    },
  });
  road.arrive({ role: 'prefill' });
  expect(asked).toBe(0);
});

it.each([
  ['at once', () => undefined],
  ['late', () => Promise.resolve(undefined)],
])(
  'a request that fails inside after an answer %s ends with that failure, and waits no more',
  async (_, classify) => {
    const solo = await createSoloClassifier({
      definition: defineRequestClassifier({ type: 'mine', create: () => ({ classify }) }),
      partition: PARTITION,
      blockSize: 16,
      maxWaitMs: 1000,
      clock: new ManualClock(),
      seed: 1,
      log: NO_LOG,
    });
    const heard: string[] = [];
    const step = new ClassifyStep({
      source: solo,
      goOn() {
        throw new Error('inside');
      },
      asError: (thrown) => new PointsmanError('PM_INTERNAL', errorText(thrown)),
    });
    const exchange = {
      arrivedAt: 0,
      follow: () => undefined,
      refuse: ({ message }: PointsmanError) => void heard.push(`refused ${message}`),
      failed: ({ message }: PointsmanError) => void heard.push(`failed ${message}`),
    };
    step.run(exchange, roadRequest('r', {}));
    await promisesRan();
    expect([heard, step.waiting]).toEqual([['failed inside'], 0]);
  },
);

// A door or an engine that acts from within the calls it gets: whatever it does there, one end and nothing left booked.
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import type { RoadTicket } from './index.ts';
import { capabilities, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';

type TestRoad = Awaited<ReturnType<typeof testRoad>>;

const LOST = new PointsmanError('PM_ENGINE_LOST', 'x');
const CALLS = ['booked', 'head', 'data', 'tokens', 'finished', 'failed'] as const;
const DEEDS: Readonly<Record<string, (road: TestRoad, ticket: RoadTicket | null) => void>> = {
  aborts: (_road, ticket) => ticket?.abort(),
  pauses: (_road, ticket) => ticket?.pause(),
  throws() {
    throw new Error('the door is broken');
  },
  'sends another request'({ arrive }) {
    arrive();
  },
  'loses every worker'({ fleet }) {
    for (const { spec } of fleet.workers()) fleet.setState(spec.id, 'gone');
  },
  'removes every worker'({ fleet }) {
    for (const { spec } of fleet.workers()) fleet.remove(spec.id);
  },
  'lets the engine finish': ({ transport }) => transport.dispatched.at(-1)?.sink.finished(REPORT),
  'lets the engine fail': ({ transport }) => transport.dispatched.at(-1)?.sink.failed(LOST),
};

const endsOf = (heard: readonly string[]): number =>
  heard.filter((call) => call.startsWith('finished') || call.startsWith('failed')).length;

describe.each(CALLS)('a door that, told of %s,', (call) => {
  it.each(Object.entries(DEEDS))('%s', async (_, deed) => {
    const road = await testRoad();
    const sink = new RecordingSink();
    let ticket: RoadTicket | null = null;
    sink.also = (heard) => {
      if (heard === call) deed(road, ticket);
    };
    ticket = road.arrive({}, sink).ticket;
    const engine = road.transport.dispatched[0]?.sink;
    for (let twice = 0; twice < 2; twice += 1) {
      engine?.head(200, {}, []);
      engine?.data(new Uint8Array(3));
      engine?.tokens(40);
      if (call === 'failed') engine?.failed(LOST);
      else engine?.finished(REPORT);
    }
    expect(endsOf(sink.heard)).toBeLessThanOrEqual(1);
    for (const { sink: other } of road.transport.dispatched) other.finished(REPORT);
    road.expectIdle();
  });
});

describe('an engine that acts before dispatch returns', () => {
  it.each<[string, (dispatched: TestRoad['transport']['last'], road: TestRoad) => void]>([
    ['finishes', ({ sink }) => sink.finished(REPORT)],
    ['fails', ({ sink }) => sink.failed(LOST)],
    [
      'throws',
      () => {
        throw new Error('no socket');
      },
    ],
    [
      'finishes and throws',
      ({ sink }) => {
        sink.finished(REPORT);
        throw new Error('no socket');
      },
    ],
    ['is removed', ({ request }, { fleet }) => fleet.remove(request.worker.spec.id)],
  ])('%s', async (_, act) => {
    const road = await testRoad();
    road.transport.during = (dispatched) => act(dispatched, road);
    const { sink } = road.arrive();
    expect(endsOf(sink.heard)).toBe(1);
    road.expectIdle();
  });

  it('leaves the booking of a worker that got its slot alone', async () => {
    const road = await testRoad({ workers: [workerSpec(1n)] });
    const { arrive, fleet, scheduler, transport } = road;
    let second: ReturnType<typeof arrive> | null = null;
    transport.during = () => {
      transport.during = null;
      fleet.remove(1n);
      fleet.add(workerSpec(9n), capabilities(9n));
      second = arrive();
    };
    const first = arrive();
    expect(first.sink.heard).toEqual(['booked 1/0', 'failed PM_ENGINE_LOST before head']);
    transport.dispatched[0]?.sink.tokens(100);
    transport.dispatched[0]?.sink.finished(REPORT);
    first.ticket.abort();
    expect(scheduler.loads.activeRequests[fleet.slotOf(9n, 0)]).toBe(1);
    expect(scheduler.loads.activeDecodeBlocks[fleet.slotOf(9n, 0)]).toBe(4);
    transport.dispatched[1]?.sink.finished(REPORT);
    expect(second).toMatchObject({ sink: { heard: ['booked 9/0', 'finished stop'] } });
    road.expectIdle();
  });
});

describe('a decision that cannot be recorded', () => {
  it('is carried out without a record', async () => {
    const road = await testRoad();
    Object.defineProperty(road.decisions, 'open', {
      value: () => {
        throw new RangeError('no memory for a record');
      },
    });
    const { sink } = road.arrive();
    road.transport.last.sink.finished(REPORT);
    expect(sink.heard).toEqual([expect.stringMatching(/^booked/), 'finished stop']);
    expect(sink.decisionId).toBe('');
    road.expectIdle();
  });
});

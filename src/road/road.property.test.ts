import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { prompt, REPORT, testRoad, workerSpec } from './road.fixtures.ts';

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      seed: fc.nat(3),
      length: fc.integer({ min: 1, max: 90 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'head' as const,
        'tokens' as const,
        'finished' as const,
        'refused' as const,
        'reset' as const,
        'abort' as const,
      ),
      which: fc.nat(20),
      count: fc.integer({ min: 1, max: 40 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('gone' as const, 'remove' as const, 'add' as const, 'ok' as const),
      worker: fc.bigInt(1n, 3n),
    }),
  },
);

describe('the road under any events', () => {
  it('answers every request exactly once, accounts exactly for those under way, and ends empty', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { arrive, transport, fleet, health, road, scheduler, expectIdle, held } = await testRoad({
          workers: [1n, 2n, 3n].map((id) => workerSpec(id)),
        });
        const requests: {
          sink: ReturnType<typeof arrive>['sink'];
          ticket: ReturnType<typeof arrive>['ticket'];
          aborted: boolean;
        }[] = [];
        const ended = (heard: readonly string[]): number =>
          heard.filter((call) => call.startsWith('finished') || call.startsWith('failed')).length;
        for (const event of steps) {
          if (event.do === 'arrive') {
            requests.push({ ...arrive({ tokens: prompt(event.seed, event.length) }), aborted: false });
          } else if ('worker' in event) {
            const { worker } = event;
            if (event.do === 'add' && fleet.worker(worker) === null) fleet.add(workerSpec(worker));
            else if (event.do === 'remove') fleet.remove(worker);
            else if (event.do === 'gone' && fleet.worker(worker) !== null) fleet.setState(worker, 'gone');
            else if (event.do === 'ok') health.checkSucceeded(worker);
          } else if (event.do === 'abort') {
            const request = requests[event.which % Math.max(1, requests.length)];
            if (request !== undefined) {
              request.aborted ||= ended(request.sink.heard) === 0;
              request.ticket.abort();
            }
          } else {
            const engine = transport.dispatched[event.which % Math.max(1, transport.dispatched.length)]?.sink;
            if (event.do === 'head') engine?.head(200, {}, []);
            else if (event.do === 'tokens') engine?.tokens(event.count);
            else if (event.do === 'finished') engine?.finished(REPORT);
            else
              engine?.failed(
                new PointsmanError(event.do === 'reset' ? 'PM_ENGINE_LOST' : 'PM_ENGINE_UNREACHABLE', 'x'),
              );
          }
          const underWay = requests.filter(({ sink, aborted }) => !aborted && ended(sink.heard) === 0).length;
          expect(road.activeBookings()).toBe(underWay);
          expect(held()).toBe(underWay);
          expect(scheduler.loads.activeRequests.reduce((sum, count) => sum + count, 0)).toBe(underWay);
        }
        for (const { ticket } of requests) ticket.abort();
        for (const { sink, aborted } of requests)
          expect(ended(sink.heard)).toBeLessThanOrEqual(aborted ? 0 : 1);
        expectIdle();
      }),
      { numRuns: 120 },
    );
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PointsmanError } from '../plugin/index.ts';
import { NO_CONSTRAINTS } from './index.ts';
import { REPORT, type RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';
import type { RoadTicket } from './types.ts';

const WORKERS = [1n, 2n, 3n, 4n];

const FAILURES = {
  lost: new PointsmanError('PM_ENGINE_LOST', 'x'),
  unreachable: new PointsmanError('PM_ENGINE_UNREACHABLE', 'x'),
  stopping: new PointsmanError('PM_ENGINE_FAILED', 'x', { details: { engine_status: 503 } }),
  broken: new PointsmanError('PM_ENGINE_FAILED', 'x', { details: { engine_status: 500 } }),
  wrong: new PointsmanError('PM_ENGINE_REFUSED', 'x', { details: { engine_status: 400 } }),
};

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      pin: fc.constantFrom(null, null, null, null, 0, 1),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'head' as const,
        'data' as const,
        'tokens' as const,
        'finished' as const,
        'abort' as const,
      ),
      which: fc.nat(6),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('fail' as const),
      which: fc.nat(6),
      how: fc.constantFrom(...(Object.keys(FAILURES) as (keyof typeof FAILURES)[])),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('tick' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('gone' as const, 'ok' as const, 'ok' as const, 'ok' as const),
      worker: fc.constantFrom(...WORKERS),
    }),
  },
);

interface Known {
  readonly id: string;
  readonly sink: RecordingSink;
  readonly ticket: RoadTicket;
  readonly pin: bigint | null;
  aborted: boolean;
}

describe('requests that are tried again, under any events', () => {
  it('get one answer of one worker or one error, and leave nothing behind', async () => {
    let retried = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 30, maxLength: 90, size: 'max' }),
        fc.integer({ min: 0, max: 3 }),
        async (steps, retries) => {
          const { arrive, transport, fleet, health, clock, scheduler, expectIdle, held } = await testRoad({
            workers: WORKERS.map((id) => workerSpec(id)),
            retries: { retries, ratio: 0.5 },
          });
          const known: Known[] = [];
          const begun = new Set<object>();
          const tick = (): void => clock.advanceTo(clock.now());
          const ended = ({ sink }: Known): number =>
            sink.heard.filter((call) => /^(finished|failed)/.test(call)).length;
          const triesOf = (id: string) =>
            transport.dispatched.filter(({ request }) => request.requestId === id);
          const check = (): void => {
            for (const one of known) {
              const workers = triesOf(one.id).map(({ request }) => request.worker.spec.id);
              expect(new Set(workers).size).toBe(workers.length);
              expect(workers.length).toBeLessThanOrEqual(one.pin === null ? retries + 1 : 1);
              if (one.pin !== null) expect(workers.every((id) => id === one.pin)).toBe(true);
              expect(ended(one)).toBeLessThanOrEqual(1);
              // Nothing follows the end, and nothing is told of a worker after another one's answer began.
              const calls = one.sink.heard.map((call) => call.split(' ')[0]);
              const order = calls.join(' ');
              expect(order).toMatch(/^(booked ?)*(head ?)?((data|tokens) ?)*(finished|failed)?$/);
            }
          };
          for (const event of steps) {
            const engine = 'which' in event ? transport.dispatched.at(-1 - event.which) : undefined;
            if (event.do === 'arrive') {
              const pin = event.pin === null ? null : (WORKERS[event.pin] ?? null);
              const pinnedWorker = pin === null ? null : { workerId: pin, rank: null };
              const { sink, ticket } = arrive({ constraints: { ...NO_CONSTRAINTS, pinnedWorker } });
              known.push({ id: ticket.requestId, sink, ticket, pin, aborted: false });
            } else if (event.do === 'tick') tick();
            else if (event.do === 'gone') fleet.setState(event.worker, 'gone');
            else if (event.do === 'ok') health.checkSucceeded(event.worker);
            else if (event.do === 'abort') {
              const one = known.at(-1 - event.which);
              if (one !== undefined) {
                one.aborted ||= ended(one) === 0;
                one.ticket.abort();
              }
            } else if (engine !== undefined) {
              if (event.do === 'fail') engine.sink.failed(FAILURES[event.how]);
              else {
                // An engine begins its answer once, and before anything of it.
                if (!begun.has(engine)) engine.sink.head(200, {}, []);
                begun.add(engine);
                if (event.do === 'data') engine.sink.data(new Uint8Array(1));
                else if (event.do === 'tokens') engine.sink.tokens(1);
                else if (event.do === 'finished') engine.sink.finished(REPORT);
              }
            }
            check();
          }
          tick();
          check();
          const open = known.filter((one) => !one.aborted && ended(one) === 0);
          expect(scheduler.loads.activeBookings).toBe(open.length);
          expect(held()).toBe(open.length);
          for (const one of known) {
            if (triesOf(one.id).length > 1) retried += 1;
            one.ticket.abort();
            if (one.aborted) expect(ended(one)).toBe(0);
          }
          expectIdle();
        },
      ),
      { numRuns: 150, seed: 11 },
    );
    expect(retried).toBeGreaterThan(100);
  });
});

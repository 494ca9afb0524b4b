// Queue, second tries, late classifiers, the hold for a first worker, choices and bookings of callers, all at once and whatever happens
// meanwhile: each request is answered once or left, and nothing stays behind.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseConfig, type QueueSettings, queueSettingsOf } from '../config/index.ts';
import { blockHashSeed, createBlockHasher, hashBlocks } from '../kv/index.ts';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import {
  type ClassifierEvent,
  type ClassifyAnswer,
  defineRequestClassifier,
  type ErrorCode,
  PointsmanError,
  RateLimited,
} from '../plugin/index.ts';
import type { CallerPart } from './caller-part.ts';
import { BLOCK, prompt, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const settings = (yaml: string): QueueSettings => queueSettingsOf(parseConfig(yaml, 'q.yaml').config);
const PROFILES = [
  settings(''),
  settings('router: { router_queue_threshold: 0 }'),
  settings(`default_policy_family: f
uncached_isl_buckets: [{ min_tokens: 0, bucket: short }, { min_tokens: 80, bucket: long }]
policy_classes:
  - { name: short, policy_family: f, cache_bucket: short, quantum: 32, prefill_busy_threshold: 0, queue_policy: wspt }
  - { name: long, policy_family: f, cache_bucket: long, quantum: 100, prefill_busy_threshold: 64, request_queue_limit_per_worker: 2 }
`),
];
const LIMIT = 15;
const FAILURES: readonly ErrorCode[] = ['PM_ENGINE_LOST', 'PM_ENGINE_UNREACHABLE', 'PM_INTERNAL'];

const which = fc.nat(30);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      as: fc.constantFrom(null, null, 'choice' as const, 'booking' as const),
      tokens: fc.constantFrom(16, 96, 200),
      pinned: fc.option(fc.bigInt(1n, 3n), { freq: 4 }),
      within: fc.constantFrom(null, null, null, 'abort' as const, 'arrive' as const, 'lose' as const),
    }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'classified',
        'classified',
        'refused',
        'head',
        'first',
        'end',
        'fails',
        'fails',
        'abort',
      ),
      which,
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 0, 1, 40, 300, 70_000) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('add', 'remove', 'suspect', 'settle', 'reload'),
      which: fc.nat(2),
    }),
  },
);
const isEnd = (heard: string): boolean => heard.startsWith('finished') || heard.startsWith('failed');
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it('are answered once or left, in whatever mixture, and leave nothing behind', async () => {
  const hasher = createBlockHasher();
  await fc.assert(
    fc.asyncProperty(
      fc.nat(2),
      fc.boolean(),
      fc.array(step, { maxLength: 80, size: 'max' }),
      async (first, asks, steps) => {
        const gauges = new Map<string, () => unknown>();
        const metrics: Metrics = { ...NO_METRICS, gauge: (name, read) => void gauges.set(name, read) };
        const answers: { resolve(value: ClassifyAnswer): void; reject(thrown: unknown): void }[] = [];
        const events: ClassifierEvent[] = [];
        const road = await testRoad({
          workers: [workerSpec(1n), workerSpec(2n, { ranks: { first: 0, count: 2 } })],
          queues: PROFILES[first]!,
          concurrentRequests: LIMIT,
          retries: { retries: 2, ratio: 1 },
          firstWorkerHold: { waitMs: 5000, waiting: 4 },
          bookingExpiryMs: 60_000,
          metrics,
          ...(asks
            ? {
                classifier: {
                  definition: defineRequestClassifier({
                    type: 'mine',
                    create: () => ({
                      classify: () =>
                        new Promise((resolve, reject) =>
                          answers.push({ resolve: resolve as () => void, reject }),
                        ),
                      onEvent: (event) => void events.push(event),
                    }),
                  }),
                },
              }
            : {}),
        });
        const { transport, fleet, clock } = road;
        const requests: { sink: RecordingSink; abort(): void; left: boolean }[] = [];
        const callerOf = (as: 'choice' | 'booking', tokens: Uint32Array): CallerPart => ({
          prompt: {
            promptTokens: tokens.length,
            hashes: hashBlocks(hasher, tokens, BLOCK, blockHashSeed({})),
          },
          target: null,
          looksUp: true,
          sharesBlocks: true,
          tracksPrefill: null,
          costOverride: null,
          affinityTarget: null,
          placed: () => undefined,
          transport: as === 'choice' ? null : transport,
        });
        const arrive = (
          as: 'choice' | 'booking' | null,
          count: number,
          pinned: bigint | null,
          within: 'abort' | 'arrive' | 'lose' | null,
        ): void => {
          const sink = new RecordingSink();
          const entry = { sink, left: false, abort: (): void => undefined };
          requests.push(entry);
          sink.also = () => {
            if (within === 'abort') entry.abort();
            if (within === 'arrive' && requests.length < 200) arrive(as, count, pinned, null);
            if (within === 'lose') fleet.remove(1n);
          };
          const tokens = prompt(1, count);
          const pinnedWorker = pinned === null ? null : { workerId: pinned, rank: null };
          const { ticket } = road.arrive(
            {
              tokens,
              constraints: { ...NO_CONSTRAINTS, pinnedWorker },
              ...(as === null ? {} : { caller: callerOf(as, tokens) }),
            },
            sink,
          );
          entry.abort = () => {
            if (!sink.heard.some(isEnd)) entry.left = true;
            ticket.abort();
          };
        };
        const take = <T>(list: T[], at: number): T | undefined =>
          list.splice(at % Math.max(1, list.length), 1)[0];
        for (const one of steps) {
          if (one.do === 'arrive') arrive(one.as, one.tokens, one.pinned, one.within);
          else if (one.do === 'wait') clock.advanceTo(clock.now() + one.ms);
          else if ('which' in one) {
            const engine = transport.dispatched[one.which % Math.max(1, transport.dispatched.length)]?.sink;
            const id = BigInt(one.which + 1);
            if (one.do === 'classified') take(answers, one.which)?.resolve(undefined);
            else if (one.do === 'refused') take(answers, one.which)?.reject(new RateLimited(1));
            else if (one.do === 'head') engine?.head(200, {}, []);
            else if (one.do === 'first') engine?.tokens(1);
            else if (one.do === 'end') engine?.finished(REPORT);
            else if (one.do === 'fails')
              engine?.failed(new PointsmanError(FAILURES[one.which % FAILURES.length]!, 'as told'));
            else if (one.do === 'abort') requests[one.which % Math.max(1, requests.length)]?.abort();
            else if (one.do === 'reload') road.road.setQueues(PROFILES[one.which]!);
            else if (one.do === 'remove') fleet.remove(id);
            else if (one.do === 'settle') await settle();
            else if (fleet.worker(id) === null) fleet.add(workerSpec(id));
            else fleet.setState(id, one.do === 'add' ? 'ready' : 'suspect');
          }
          for (const { sink, left } of requests) {
            expect(sink.heard.filter(isEnd).length).toBeLessThanOrEqual(left ? 0 : 1);
          }
        }
        // Classifiers answer, engines end what they have and get: everybody's turn comes.
        for (const { sink } of requests) sink.also = null;
        for (let round = 0; round < 120; round += 1) {
          for (const { resolve } of answers.splice(0)) resolve(undefined);
          if (asks && round < 20) await settle();
          for (const { sink } of [...transport.dispatched]) sink.finished(REPORT);
          clock.advanceTo(clock.now() + 100);
        }
        for (const { sink, left } of requests) expect(sink.heard.filter(isEnd).length + Number(left)).toBe(1);
        road.expectIdle();
        await settle();
        expect(road.road.unsettled()).toBe(false);
        expect([clock.nextTimerAt(), gauges.get('pointsman_queue_kept_bytes')?.()]).toEqual([null, 0]);
        for (const name of ['pointsman_requests_held', 'pointsman_classifications_waiting'])
          expect(gauges.get(name)?.(), name).toBe(0);
        // Each that was classified has one end; those of callers that only choose are not.
        for (const id of new Set(events.map(({ requestId }) => requestId))) {
          const kinds = events.filter(({ requestId }) => requestId === id).map(({ kind }) => kind);
          expect(
            kinds.filter((kind) => kind === 'completed' || kind === 'aborted').length,
            kinds.join(),
          ).toBe(1);
        }
        // As many come in as at the start, and no more.
        if (asks) return;
        road.road.setQueues(PROFILES[0]!);
        if (fleet.worker(1n) === null) fleet.add(workerSpec(1n));
        fleet.setState(1n, 'ready');
        const heard = Array.from({ length: LIMIT + 1 }, () => road.arrive().sink.heard[0] ?? '');
        expect(heard.filter((call) => call.startsWith('booked')).length).toBe(LIMIT);
        expect(heard.at(-1)).toBe('failed PM_OVERLOADED before head');
      },
    ),
    { numRuns: 300 },
  );
});

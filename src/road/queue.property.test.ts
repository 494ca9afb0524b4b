// Requests that wait for their turn under whatever happens meanwhile: each is answered once or left, nobody is lost in a reload, and
// nothing stays behind.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseConfig, type QueueSettings, queueSettingsOf } from '../config/index.ts';
import { type Metrics, NO_METRICS } from '../observe/index.ts';
import { defineRequestClassifier } from '../plugin/index.ts';
import { prompt, REPORT, RecordingSink, testRoad, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

const settings = (yaml: string): QueueSettings => queueSettingsOf(parseConfig(yaml, 'q.yaml').config);
const profile = (classes: string): QueueSettings =>
  settings(`default_policy_family: f
uncached_isl_buckets: [{ min_tokens: 0, bucket: short }, { min_tokens: 80, bucket: long }]
policy_classes:
  - { name: short, policy_family: f, cache_bucket: short, quantum: 32, prefill_busy_threshold: 0, queue_policy: wspt }
  - { name: long, policy_family: f, cache_bucket: long, quantum: 100, prefill_busy_threshold: 64, request_queue_limit_per_worker: 2 }
${classes}`);
const PROFILES = [
  settings(''),
  settings('router: { router_queue_threshold: 0 }'),
  profile('  - { name: own, quantum: 10, prefill_busy_threshold: 0, busy_worker_ratio: 0.5 }\n'),
  profile('  - { name: other, quantum: 10 }\n'),
];

const place = fc.nat(30);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('arrive' as const),
      prompt: fc.nat(3),
      tokens: fc.constantFrom(16, 64, 96, 200),
      named: fc.constantFrom(null, 'own', 'f', 'other'),
      pinned: fc.option(fc.bigInt(1n, 3n), { freq: 3 }),
      queueing: fc.constantFrom(
        'wait' as const,
        'wait' as const,
        'wait' as const,
        'bypass' as const,
        'refuse' as const,
      ),
      strictPriority: fc.nat(1),
      due: fc.option(fc.constantFrom(0, 50, 5000), { freq: 3 }),
      within: fc.constantFrom(null, null, 'abort' as const, 'arrive' as const, 'fail' as const),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constantFrom('first' as const, 'end' as const, 'abort' as const),
      which: place,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 0, 1, 40, 300) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('add' as const, 'remove' as const, 'suspect' as const),
      which: fc.nat(2),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload' as const), to: fc.nat(3) }) },
);
const isEnd = (heard: string): boolean => heard.startsWith('finished') || heard.startsWith('failed');

it('are answered once or left, whatever happens, and leave nothing behind', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(3), fc.array(step, { maxLength: 80, size: 'max' }), async (first, steps) => {
      const gauges = new Map<string, () => unknown>();
      const metrics: Metrics = { ...NO_METRICS, gauge: (name, read) => void gauges.set(name, read) };
      let due: number | null = null;
      const road = await testRoad({
        workers: [workerSpec(1n), workerSpec(2n, { ranks: { first: 0, count: 2 } })],
        queues: PROFILES[first]!,
        concurrentRequests: 25,
        metrics,
        classifier: {
          definition: defineRequestClassifier({
            type: 'mine',
            create: () => ({ classify: () => (due === null ? undefined : { dueAt: due }) }),
          }),
        },
      });
      const { transport, fleet, clock } = road;
      const requests: { sink: RecordingSink; abort(): void; left: boolean }[] = [];
      const arrive = (changes: Parameters<typeof road.arrive>[0], within: string | null): void => {
        const sink = new RecordingSink();
        const entry = { sink, left: false, abort: (): void => undefined };
        requests.push(entry);
        if (within === 'fail') sink.failOn = 'booked';
        sink.also = (call) => {
          if (call !== 'booked') return;
          if (within === 'abort') entry.abort();
          if (within === 'arrive') arrive(changes, null);
        };
        const { ticket } = road.arrive(changes, sink);
        entry.abort = () => {
          if (!sink.heard.some(isEnd)) entry.left = true;
          ticket.abort();
        };
      };
      for (const one of steps) {
        const engine =
          'which' in one ? transport.dispatched[one.which % Math.max(1, transport.dispatched.length)] : null;
        if (one.do === 'arrive') {
          due = one.due === null ? null : clock.now() + one.due;
          const pinnedWorker = one.pinned === null ? null : { workerId: one.pinned, rank: null };
          const { strictPriority, queueing, named: policyClass } = one;
          arrive(
            {
              tokens: prompt(one.prompt, one.tokens),
              policyClass,
              queueing,
              constraints: { ...NO_CONSTRAINTS, pinnedWorker, strictPriority },
            },
            one.within,
          );
        } else if (one.do === 'first') engine?.sink.tokens(1);
        else if (one.do === 'end') engine?.sink.finished(REPORT);
        else if (one.do === 'abort') requests[one.which % Math.max(1, requests.length)]?.abort();
        else if (one.do === 'wait') clock.advanceTo(clock.now() + one.ms);
        else if (one.do === 'reload') road.road.setQueues(PROFILES[one.to]!);
        else {
          const id = BigInt(one.which + 1);
          if (one.do === 'remove') fleet.remove(id);
          else if (fleet.worker(id) === null) fleet.add(workerSpec(id));
          else fleet.setState(id, one.do === 'add' ? 'ready' : 'suspect');
        }
        for (const { sink, left } of requests) {
          expect(sink.heard.filter(isEnd).length).toBeLessThanOrEqual(left ? 0 : 1);
        }
      }
      // The sums of the classes are those of who waits: whoever heard nothing and is still there.
      const silent = requests.filter(({ sink, left }) => sink.heard.length === 0 && !left).length;
      const sums = (gauges.get('pointsman_queue_pending_requests')?.() ?? []) as { value: number }[];
      expect(sums.reduce((sum, { value }) => sum + value, 0)).toBe(silent);
      // Engines end what they have and get: everybody's turn comes.
      for (let round = 0; round < 200; round += 1) {
        for (const { sink } of [...transport.dispatched]) sink.finished(REPORT);
        clock.advanceTo(clock.now() + 100);
      }
      for (const { sink, left } of requests) {
        if (sink.failOn === 'booked' && sink.heard.some((call) => call.startsWith('booked'))) continue;
        expect(sink.heard.filter(isEnd).length + Number(left)).toBe(1);
      }
      road.expectIdle();
      expect([clock.nextTimerAt(), gauges.get('pointsman_queue_kept_bytes')?.()]).toEqual([null, 0]);
    }),
    { numRuns: 300 },
  );
});

// Roads with queues, for tests of what waits.
import { parseConfig, type QueueSettings, queueSettingsOf } from '../config/index.ts';
import type { Metrics } from '../observe/index.ts';
import { defineRequestClassifier, type Overrides } from '../plugin/index.ts';
import { REPORT, type TestRoadOptions, testRoad, workerSpec } from './road.fixtures.ts';
import { NO_CONSTRAINTS } from './types.ts';

export const settings = (yaml: string): QueueSettings => queueSettingsOf(parseConfig(yaml, 'q.yaml').config);
export const THRESHOLD = settings('router: { router_queue_threshold: 0 }');
export const TWO = `default_policy_family: standard
uncached_isl_buckets: [{ min_tokens: 0, bucket: short }, { min_tokens: 100, bucket: long }]
policy_classes:
  - { name: short, policy_family: standard, cache_bucket: short, quantum: 64, prefill_busy_threshold: 0 }
  - { name: long, policy_family: standard, cache_bucket: long, quantum: 64, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 }
  - { name: express, quantum: 640, prefill_busy_threshold: 0 }
  - { name: open, quantum: 64 }
`;

/** Counts and measurements of the queue, by name and labels. */
function watching() {
  const counts = new Map<string, number>();
  const waits: number[] = [];
  const gauges = new Map<string, () => unknown>();
  const metrics: Metrics = {
    count: (name, labels = {}, by = 1) => {
      const key = `${name} ${Object.values(labels).join(' ')}`;
      counts.set(key, (counts.get(key) ?? 0) + by);
    },
    observe: (name, value) => {
      if (name === 'pointsman_queue_wait_seconds') waits.push(value);
    },
    gauge: (name, read) => void gauges.set(name, read),
  };
  return {
    metrics,
    waits,
    count: (key: string) => counts.get(key) ?? 0,
    gauge: (name: string) => gauges.get(name)?.(),
  };
}

export async function queued(queues: QueueSettings, more: TestRoadOptions = {}) {
  const watched = watching();
  const road = await testRoad({ workers: [workerSpec(1n)], queues, metrics: watched.metrics, ...more });
  const { clock, transport } = road;
  return {
    ...road,
    ...watched,
    dispatched: () => transport.dispatched.map(({ request }) => request.requestId),
    /** Lets what is planned for now happen. */
    now: () => clock.advanceTo(clock.now()),
    later: (ms: number) => clock.advanceTo(clock.now() + ms),
    firstToken: (at: number) => transport.dispatched[at]?.sink.tokens(1),
    end: (at: number) => transport.dispatched[at]?.sink.finished(REPORT),
    pinned: (workerId: bigint) => ({
      constraints: { ...NO_CONSTRAINTS, pinnedWorker: { workerId, rank: null } },
    }),
  };
}

export const classified = (overrides: Overrides): Pick<TestRoadOptions, 'classifier'> => ({
  classifier: {
    definition: defineRequestClassifier({ type: 'mine', create: () => ({ classify: () => overrides }) }),
    policyClasses: ['standard', 'express', 'open'],
  },
});

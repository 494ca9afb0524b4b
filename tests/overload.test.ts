// Three times more than the engines can take, for ten minutes of virtual time: who gets what, who is told to come back when, and what
// grows. Room is what the clients' own log says: how much of a class waits, compared with the limit that is configured.
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type OverloadRun,
  type OverloadSetup,
  overload,
  type Sent,
  type Waiting,
} from './support/overload.ts';

const DURATION_MS = 600_000;
/** Until the queues are full and their pace is measured. */
const WARM_UP_MS = 60_000;
const QUANTA = { premium: 3072, basic: 1024 } as const;
type Name = keyof typeof QUANTA;
const NAMES: readonly Name[] = ['premium', 'basic'];
const REQUESTS_PER_WORKER = 6;
const TOKENS_PER_WORKER = 12_000;
const YAML = `default_policy_family: f
uncached_isl_buckets: [{ min_tokens: 0, bucket: any }]
policy_classes:
  - { name: any, policy_family: f, cache_bucket: any, quantum: 1024, prefill_busy_threshold: 0 }
  - { name: premium, quantum: ${QUANTA.premium}, prefill_busy_threshold: 0, request_queue_limit_per_worker: ${REQUESTS_PER_WORKER} }
  - { name: basic, quantum: ${QUANTA.basic}, prefill_busy_threshold: 0, raw_isl_token_queue_limit_per_worker: ${TOKENS_PER_WORKER} }
`;

/** An engine computes a prompt of 2,048 tokens in about 2.5 s: waits are long beside the whole seconds of `Retry-After`. */
function setup(workers: number, tokens: readonly [number, number]): OverloadSetup {
  const pauseMs = 2000 / workers;
  return {
    yaml: YAML,
    workers,
    engine: { speedup: 0.02 },
    clients: NAMES.map((policyClass) => ({ policyClass, pauseMs, tokens })),
    durationMs: DURATION_MS,
    outputTokens: 2,
    seed: 3,
  };
}

const wasServed = ({ bookedAt }: Sent): boolean => bookedAt >= WARM_UP_MS && bookedAt < DURATION_MS;
const tokensOf = (sent: readonly Sent[]): number => sent.reduce((sum, { tokens }) => sum + tokens, 0);

/** Of every refusal: the seconds that were told, and how long it took until there was room. */
function promises({ sent, waiting }: OverloadRun, name: Name, workers: number) {
  const log = waiting.filter(({ policyClass }) => policyClass === name);
  const hasRoom = ({ requests, tokens }: Waiting): boolean =>
    name === 'premium' ? requests < REQUESTS_PER_WORKER * workers : tokens < TOKENS_PER_WORKER * workers;
  return sent.flatMap(({ policyClass, sentAt, error }) => {
    if (policyClass !== name || error?.code !== 'PM_QUEUE_FULL' || sentAt < WARM_UP_MS) return [];
    const room = log.find((entry) => entry.at >= sentAt && hasRoom(entry));
    if (room === undefined) return [];
    return [{ told: Number(error.details.retry_after), had: (room.at - sentAt) / 1000 }];
  });
}

/** Within a factor of 2, as far as whole seconds from 1 can tell. */
const isRight = ({ told, had }: { told: number; had: number }): boolean =>
  had <= 2 * told && told <= Math.max(1, Math.ceil(2 * had));

describe.each([
  ['two engines, prompts of one length', 2, [2048, 2048], 1],
  ['four engines, prompts of any length', 4, [1024, 3072], 0.95],
] as const)('%s', (_, workers, tokens, rightShare) => {
  let run: OverloadRun;
  beforeAll(async () => {
    run = await overload(setup(workers, tokens));
  });

  it('is three times what the engines take', () => {
    const offered = tokensOf(run.sent.filter(({ sentAt }) => sentAt >= WARM_UP_MS));
    const ratio = offered / tokensOf(run.sent.filter(wasServed));
    expect(ratio).toBeGreaterThan(2.9);
    expect(ratio).toBeLessThan(3.5);
  });

  it('gives both classes tokens by their quanta, within 5 %, and in every two minutes within 10 %', () => {
    const shareOf = (name: Name, from: number, to: number): number => {
      const served = run.sent.filter((one) => wasServed(one) && one.bookedAt >= from && one.bookedAt < to);
      return tokensOf(served.filter(({ policyClass }) => policyClass === name)) / tokensOf(served);
    };
    const sum = QUANTA.premium + QUANTA.basic;
    for (const name of NAMES) {
      const due = QUANTA[name] / sum;
      expect(Math.abs(shareOf(name, WARM_UP_MS, DURATION_MS) / due - 1)).toBeLessThan(0.05);
      for (let from = WARM_UP_MS; from + 120_000 <= DURATION_MS; from += 120_000) {
        expect(Math.abs(shareOf(name, from, from + 120_000) / due - 1)).toBeLessThan(0.1);
      }
    }
  });

  it('starves nobody: all are answered, and whoever may wait is served in order and within its share of time', () => {
    expect(run.sent.filter(({ endedAt }) => endedAt < 0)).toEqual([]);
    const codes = new Set(run.sent.map(({ error }) => error?.code ?? 'served'));
    expect([...codes].sort()).toEqual(['PM_QUEUE_FULL', 'served']);
    for (const name of NAMES) {
      const served = run.sent.filter(({ policyClass, bookedAt }) => policyClass === name && bookedAt >= 0);
      const times = served.map(({ bookedAt }) => bookedAt);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      // What waits before a request at most, by the tokens that its class gets in the time.
      const perMs = tokensOf(served.filter(wasServed)) / (DURATION_MS - WARM_UP_MS);
      const most =
        name === 'premium'
          ? REQUESTS_PER_WORKER * workers * tokens[1]
          : TOKENS_PER_WORKER * workers + tokens[1];
      for (const { bookedAt, sentAt } of served) expect(bookedAt - sentAt).toBeLessThan((1.3 * most) / perMs);
    }
  });

  it.each(NAMES)(
    `tells the refused of %s when there is room, ${rightShare === 1 ? 'each' : 'nearly each'} within a factor of 2`,
    (name) => {
      const all = promises(run, name, workers);
      expect(all.length).toBeGreaterThan(200);
      expect(all.filter(isRight).length / all.length).toBeGreaterThanOrEqual(rightShare);
      const mean = (of: 'told' | 'had'): number => all.reduce((sum, one) => sum + one[of], 0) / all.length;
      expect(mean('told') / mean('had')).toBeGreaterThan(0.5);
      expect(mean('told') / mean('had')).toBeLessThan(2);
    },
  );

  it('keeps no more of anything after ten minutes than after one, and nothing in the end', () => {
    const early = run.sizes.filter(({ at }) => at < 2 * WARM_UP_MS);
    const late = run.sizes.filter(({ at }) => at >= 2 * WARM_UP_MS);
    const most = (of: typeof early, size: 'waiting' | 'bookings' | 'prefixRuns' | 'timers'): number =>
      Math.max(...of.map((one) => one[size]));
    for (const size of ['waiting', 'bookings', 'prefixRuns', 'timers'] as const) {
      expect(most(late, size)).toBeLessThanOrEqual(most(early, size) + workers);
    }
    const [last] = run.waiting.slice(-1);
    expect([last?.requests, run.atTheEnd]).toEqual([
      0,
      { waiting: 0, bookings: 0, prefixRuns: 0, timers: 0 },
    ]);
  });
});

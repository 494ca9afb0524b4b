// Busy thresholds from the configuration to the answer: every router mode, the whole road, and a Retry-After that comes true.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { composeRouter } from '../src/cli/compose-router.ts';
import { parseConfig } from '../src/config/index.ts';
import type { EngineSink } from '../src/engines/index.ts';
import { createMetrics } from '../src/observe/index.ts';
import { ManualClock, NO_LOG, type PointsmanError, seededRng, type WorkerRank } from '../src/plugin/index.ts';
import { NO_CONSTRAINTS, type RoadTicket } from '../src/road/index.ts';

const REPORT = {
  promptTokens: 1,
  cachedTokens: 0,
  outputTokens: 1,
  finishReason: 'stop',
  source: 'usage',
} as const;

async function router(yaml: string, workers: number) {
  const list = Array.from(
    { length: workers },
    (_, at) => `{ id: ${at + 1}, url: "http://127.0.0.1:${9001 + at}", dialect: sim, total_kv_blocks: 100 }`,
  );
  const { config, source } = parseConfig(
    `models: { m: { block_size: 16, tokens: { source: estimate } } }\nworkers: [${list.join(', ')}]\n${yaml}`,
    'router.yaml',
  );
  const clock = new ManualClock();
  const metrics = createMetrics();
  const engines: EngineSink[] = [];
  const core = await composeRouter({
    config,
    source,
    clock,
    metrics,
    log: NO_LOG,
    seed: 1,
    transportFor: () => ({
      dispatch(_, sink) {
        engines.push(sink);
        return { abort() {}, pause() {}, resume() {} };
      },
      close() {},
    }),
  });
  let arrivals = 0;
  const arrive = (tokens: number, pinned: bigint | null = null) => {
    const heard: { worker: WorkerRank | null; error: PointsmanError | null } = { worker: null, error: null };
    arrivals += 1;
    const ticket: RoadTicket = core.road.arrive(
      {
        requestId: `r${arrivals}`,
        door: 'replay',
        partition: { model: 'm', routingGroup: 'default' },
        role: 'aggregated',
        servedAs: 'm',
        api: 'completions',
        body: null,
        stream: true,
        tokens: Uint32Array.from({ length: tokens }, (_, at) => arrivals * 1000 + at),
        tokensSource: 'given',
        maxOutputTokens: 1,
        expectedOutputTokens: null,
        loraName: null,
        cacheSalt: null,
        session: null,
        constraints: {
          ...NO_CONSTRAINTS,
          pinnedWorker: pinned === null ? null : { workerId: pinned, rank: null },
        },
        incomingHint: null,
        tokenizeMicros: 0,
      },
      {
        booked: (chosen) => {
          heard.worker = chosen;
        },
        head() {},
        data() {},
        tokens() {},
        finished() {},
        failed: (error) => {
          heard.error = error;
        },
      },
    );
    const engine = heard.worker === null ? null : (engines.at(-1) ?? null);
    return { ...heard, ticket, engine };
  };
  return { core, clock, metrics, arrive };
}

const MODES = [
  'kv',
  'round-robin',
  'random',
  'power-of-two',
  'least-loaded',
  'device-aware-weighted',
  'direct',
] as const;

describe.each(MODES)('router mode %s', (mode) => {
  it('sends requests to workers that are not busy, and refuses them where all are', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ tokens: fc.integer({ min: 1, max: 300 }), ends: fc.nat(3), which: fc.nat(20) }),
          {
            maxLength: 40,
          },
        ),
        fc.integer({ min: 1, max: 4 }),
        async (steps, workers) => {
          const on = await router(
            `router: { mode: ${mode}, seed: 1, active_prefill_tokens_threshold: 200 }`,
            workers,
          );
          const running: { id: bigint; tokens: number; engine: EngineSink }[] = [];
          const loadOf = (id: bigint): number =>
            running.filter((one) => one.id === id).reduce((sum, { tokens }) => sum + tokens, 0);
          for (const { tokens, ends, which } of steps) {
            const ids = Array.from({ length: workers }, (_, at) => BigInt(at + 1));
            const target = mode === 'direct' ? BigInt((which % workers) + 1) : null;
            const free = ids.filter((id) => loadOf(id) <= 200 && (target === null || id === target));
            const { worker, error, engine } = on.arrive(tokens, target);
            if (free.length === 0) {
              expect([worker, error?.code, error?.status]).toEqual([null, 'PM_SELECTION_OVERLOADED', 429]);
            } else {
              expect(free).toContain(worker?.workerId);
              if (worker !== null && engine !== null) running.push({ id: worker.workerId, tokens, engine });
            }
            for (let end = 0; end < ends && ends > 1; end += 1) running.shift()?.engine.finished(REPORT);
          }
          for (const { engine } of running) engine.finished(REPORT);
          expect(on.core.road.activeBookings()).toBe(0);
          await on.core.close();
        },
      ),
      { numRuns: 25 },
    );
  });
});

describe('of the workers that are not busy', () => {
  it.each(MODES.filter((mode) => mode !== 'direct'))('router mode %s leaves none out', async (mode) => {
    const on = await router(`router: { mode: ${mode}, seed: 1, active_prefill_tokens_threshold: 200 }`, 4);
    // Worker 2 is busy all along.
    on.arrive(300, 2n);
    const counts = new Map<bigint, number>();
    for (let at = 0; at < 300; at += 1) {
      const { worker, engine } = on.arrive(16);
      counts.set(worker?.workerId ?? 0n, (counts.get(worker?.workerId ?? 0n) ?? 0) + 1);
      engine?.finished(REPORT);
    }
    expect([...counts.keys()].sort()).toEqual([1n, 3n, 4n]);
    const spread = mode === 'round-robin' ? 0 : 40;
    for (const count of counts.values()) expect(Math.abs(count - 100)).toBeLessThanOrEqual(spread);
    await on.core.close();
  });
});

describe('the metrics', () => {
  it('count refusals by model and reason, and who is busy', async () => {
    const on = await router(
      'router: { active_decode_blocks_threshold: 0.5 }\nlimits: { concurrent_requests: 3 }',
      2,
    );
    expect(await on.metrics.text()).toContain('pointsman_busy_workers{model="m"} 0');
    on.arrive(16 * 51, 1n);
    on.arrive(16 * 50, 2n);
    expect(await on.metrics.text()).toContain('pointsman_busy_workers{model="m"} 1');
    on.arrive(16, 2n);
    expect(on.arrive(16, 1n).error?.code).toBe('PM_OVERLOADED');
    const whole = await router('router: { active_decode_blocks_threshold: 0.5 }', 1);
    whole.arrive(16 * 51);
    expect(whole.arrive(16).error?.code).toBe('PM_SELECTION_OVERLOADED');
    expect(await on.metrics.text()).toContain(
      'pointsman_overload_refusals_total{model="m",reason="concurrent_requests"} 1',
    );
    expect(await whole.metrics.text()).toContain(
      'pointsman_overload_refusals_total{model="m",reason="workers_busy"} 1',
    );
  });

  it('say nothing of models without a threshold', async () => {
    const on = await router('', 1);
    expect(await on.metrics.text()).not.toContain('pointsman_busy_workers{');
  });
});

describe('a Retry-After comes true', () => {
  /** Engines that take requests one by one, at three times what they can do, for ten minutes; waits in seconds, promised and had. */
  async function overload(workers: number, threshold: number, shortest: number, longest: number) {
    const settings = `router: { mode: least-loaded, seed: 1, active_decode_blocks_threshold: ${threshold} }`;
    const on = await router(settings, workers);
    const rng = seededRng(7);
    const busyUntil = new Map<bigint, number>();
    const refusals: { at: number; seconds: number }[] = [];
    const freed: number[] = [];
    const { fleet, busy } = on.core;
    const someFree = (): boolean => fleet.workers().some((worker) => !busy.statusOf(worker).busy);
    const pause = (shortest + longest) / 2 / workers / 3;
    let now = 0;
    while (now < 600_000) {
      now += Math.ceil(pause * (0.5 + rng.next()));
      on.clock.advanceTo(now);
      const { worker, engine, error } = on.arrive(16 * (4 + Math.floor(rng.next() * 9)));
      if (error !== null) refusals.push({ at: now, seconds: Number(error.details.retry_after) });
      if (worker === null) continue;
      const start = Math.max(now, busyUntil.get(worker.workerId) ?? 0);
      const end = start + shortest + Math.floor(rng.next() * (longest - shortest));
      busyUntil.set(worker.workerId, end);
      on.clock.schedule(end - now, () => {
        const before = someFree();
        engine?.finished(REPORT);
        if (!before && someFree()) freed.push(end);
      });
    }
    await on.core.close();
    return refusals.flatMap(({ at, seconds }) => {
      const free = freed.find((time) => time >= at);
      return free === undefined ? [] : [{ promised: seconds, had: (free - at) / 1000 }];
    });
  }
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;

  it.each([
    [1, 0.2, 8000, 12_000],
    [1, 0.02, 20_000, 40_000],
    [3, 0.2, 5000, 13_000],
    [8, 0.1, 30_000, 60_000],
  ])('on average within a factor of 2: %d workers, threshold %d, %d to %d ms a request', async (...load) => {
    const waits = await overload(...load);
    expect(waits.length).toBeGreaterThan(20);
    const ratio = mean(waits.map(({ promised }) => promised)) / mean(waits.map(({ had }) => had));
    expect(ratio).toBeGreaterThan(0.5);
    expect(ratio).toBeLessThan(2);
  });

  it('each time within a factor of 2, or within a second, where an engine is even', async () => {
    const waits = await overload(1, 0.05, 9000, 9001);
    expect(waits.length).toBeGreaterThan(100);
    // The first are made before anything was measured.
    const wrong = waits
      .slice(5)
      .filter(
        ({ promised, had }) => Math.abs(promised - had) > 1 && (promised > 2 * had || had > 2 * promised),
      );
    expect(wrong.length / waits.length).toBeLessThan(0.15);
  });
});

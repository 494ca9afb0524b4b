import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { type BusyThresholds, NO_THRESHOLDS } from '../config/index.ts';
import { Fleet, type WorkerCapabilities, type WorkerSpec } from '../fleet/index.ts';
import type { RoleRuntime } from '../host/index.ts';
import { ManualClock, PointsmanError } from '../plugin/index.ts';
import { rankLimits } from './busy-workers.ts';
import { throughputModel } from './prefill-model.ts';
import { ANYWHERE, picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';
import { EXCLUSION_REASONS, type PlacementConstraints, type PlacementRequest } from './types.ts';

const BLOCK = 16;

const CAPABILITIES: WorkerCapabilities = {
  epoch: 'e',
  model: 'tiny',
  workerType: 'aggregated',
  blockSize: BLOCK,
  hashScheme: 'sim',
  reportsOutcomes: false,
  ranks: new Map(),
};

/** Takes the row that `pick` answers. */
function runtimeOf(pick: (count: number) => number): RoleRuntime {
  return picking(({ count }) => pick(count), { cache: false, preferredTaint: false });
}

function request(changes: Partial<PlacementRequest> = {}): PlacementRequest {
  return placementRequest({ runtime: runtimeOf(() => 0), promptTokens: 160, ...changes });
}

function under(
  thresholds: Partial<BusyThresholds>,
  workers: readonly WorkerSpec[],
  tokensPerSecond: number | null = null,
) {
  const fleet = new Fleet();
  const clock = new ManualClock(0);
  const scheduler = new Scheduler({
    fleet,
    fallback: null,
    tracksOutputBlocks: true,
    prefill: tokensPerSecond === null ? null : { model: throughputModel(() => tokensPerSecond), clock },
    clock,
  });
  for (const worker of workers) fleet.add(worker);
  const set = (changes: Partial<BusyThresholds>, model = 'tiny'): void =>
    scheduler.setBusyThresholds(new Map([[model, { ...NO_THRESHOLDS, ...changes }]]));
  set(thresholds);
  const refusal = (changes: Partial<PlacementRequest> = {}): PointsmanError => {
    try {
      scheduler.place(request(changes));
    } catch (thrown) {
      if (thrown instanceof PointsmanError) return thrown;
    }
    throw new Error('the request was placed');
  };
  const eligible = (changes: Partial<PlacementRequest> = {}): bigint[] => {
    const { table, attempt } = scheduler.place(request(changes));
    const ids = [...table.workerIds.subarray(0, table.count)];
    scheduler.release(attempt);
    return ids;
  };
  return { fleet, clock, scheduler, set, refusal, eligible };
}

const pinTo = (workerId: bigint, rank: number | null = null): PlacementConstraints => ({
  ...ANYWHERE,
  pinnedWorker: { workerId, rank },
});

describe('a rank is busy above its limits', () => {
  it('that come from its capacity, as configured before as advertised', () => {
    const thresholds = { activeDecodeBlocks: 0.5, activePrefillTokens: 9000, activePrefillTokensFrac: 2 };
    const capabilities = { ...CAPABILITIES, totalKvBlocks: 40, maxNumBatchedTokens: 100 };
    const given = tinyWorker(1n, { totalKvBlocks: 100, maxNumBatchedTokens: 8192 });
    expect(rankLimits({ spec: given, capabilities }, thresholds, BLOCK)).toEqual({
      decodeBlocks: 50,
      prefillTokens: 9000,
    });
    expect(rankLimits({ spec: tinyWorker(1n), capabilities }, thresholds, BLOCK)).toEqual({
      decodeBlocks: 20,
      prefillTokens: 200,
    });
  });

  it('counted in blocks of the model where its engine has smaller pages', () => {
    const capabilities = { ...CAPABILITIES, blockSize: 4, totalKvBlocks: 400 };
    const thresholds = { ...NO_THRESHOLDS, activeDecodeBlocks: 0.5 };
    expect(rankLimits({ spec: tinyWorker(1n), capabilities }, thresholds, 16).decodeBlocks).toBe(50);
    expect(rankLimits({ spec: tinyWorker(1n), capabilities }, thresholds, null).decodeBlocks).toBe(200);
  });

  it('and by no threshold whose capacity is not known', () => {
    const thresholds = { ...NO_THRESHOLDS, activeDecodeBlocks: 0, activePrefillTokensFrac: 0 };
    expect(rankLimits({ spec: tinyWorker(1n), capabilities: null }, thresholds, BLOCK)).toEqual({
      decodeBlocks: Number.POSITIVE_INFINITY,
      prefillTokens: Number.POSITIVE_INFINITY,
    });
    expect(rankLimits({ spec: tinyWorker(1n), capabilities: CAPABILITIES }, thresholds, BLOCK)).toEqual({
      decodeBlocks: Number.POSITIVE_INFINITY,
      prefillTokens: Number.POSITIVE_INFINITY,
    });
  });

  it('strictly: a load of the limit itself is not over it', () => {
    const { scheduler, eligible } = under({ activePrefillTokens: 160 }, [tinyWorker(1n), tinyWorker(2n)]);
    const first = scheduler.place(request()).attempt;
    expect(eligible()).toEqual([1n, 2n]);
    scheduler.place(request({ promptTokens: 1 }));
    expect(eligible()).toEqual([2n]);
    scheduler.prefillCompleted(first);
    expect(eligible()).toEqual([1n, 2n]);
  });
});

describe('a busy worker', () => {
  it('is one whose every rank is over a limit', () => {
    const { scheduler, eligible, refusal } = under({ activePrefillTokens: 0 }, [
      tinyWorker(1n, { ranks: { first: 0, count: 2 } }),
    ]);
    scheduler.place(request({ constraints: pinTo(1n, 0) }));
    expect(eligible()).toEqual([1n, 1n]);
    expect(eligible({ constraints: pinTo(1n, 0) })).toEqual([1n]);
    scheduler.place(request({ constraints: pinTo(1n, 1) }));
    expect(refusal().code).toBe('PM_SELECTION_OVERLOADED');
    expect(refusal({ constraints: pinTo(1n, 0) }).code).toBe('PM_SELECTION_OVERLOADED');
  });

  it('may be over another limit on each rank', () => {
    const ranks = { first: 0, count: 2 };
    const { scheduler, refusal } = under({ activePrefillTokens: 300, activeDecodeBlocks: 0.5 }, [
      tinyWorker(1n, { ranks, totalKvBlocks: 40 }),
    ]);
    const long = scheduler.place(request({ constraints: pinTo(1n, 0), promptTokens: 640 })).attempt;
    scheduler.prefillCompleted(long);
    scheduler.place(request({ constraints: pinTo(1n, 1), promptTokens: 319 }));
    expect(refusal().status).toBe(429);
  });

  it('is shown with its reason in the record, behind every other reason', () => {
    const { fleet, scheduler } = under({ activePrefillTokens: 0 }, [
      tinyWorker(1n),
      tinyWorker(2n),
      tinyWorker(3n),
    ]);
    scheduler.place(request({ constraints: pinTo(1n) }));
    scheduler.place(request({ constraints: pinTo(2n) }));
    fleet.setState(2n, 'draining');
    const { excluded } = scheduler.place(request());
    const reasons = [...excluded.reasons.subarray(0, excluded.count)];
    expect(reasons.map((reason) => EXCLUSION_REASONS[reason])).toEqual(['busy', 'draining']);
  });

  it('is tested only under the thresholds of its own model, and not at all without', () => {
    const { scheduler, set, eligible, refusal } = under({ activePrefillTokens: 0 }, [tinyWorker(1n)]);
    scheduler.place(request());
    expect(refusal().code).toBe('PM_SELECTION_OVERLOADED');
    set({ activePrefillTokens: 0 }, 'other');
    expect(eligible()).toEqual([1n]);
    set({ activePrefillTokens: 0 });
    expect(refusal().code).toBe('PM_SELECTION_OVERLOADED');
    set({});
    expect(eligible()).toEqual([1n]);
  });

  it('is tested by a capacity from the moment that its engine states it', () => {
    const { fleet, scheduler, eligible, refusal } = under({ activeDecodeBlocks: 0.5 }, [tinyWorker(1n)]);
    scheduler.place(request());
    expect(eligible()).toEqual([1n]);
    fleet.setCapabilities(1n, { ...CAPABILITIES, totalKvBlocks: 10 });
    expect(refusal().code).toBe('PM_SELECTION_OVERLOADED');
  });
});

describe('where the pace of prompts is known, a worker', () => {
  it('is free as soon as little enough is left of its prompts, before any first token', () => {
    const { clock, scheduler, fleet, eligible, refusal } = under(
      { activePrefillTokens: 100 },
      [tinyWorker(1n)],
      160,
    );
    scheduler.place(request());
    const isBusy = (): boolean => fleet.workers().some((worker) => scheduler.busy.isBusy(worker, BLOCK));
    clock.advanceTo(374);
    expect([refusal().code, isBusy()]).toEqual(['PM_SELECTION_OVERLOADED', true]);
    // 60 of 160 tokens are done.
    clock.advanceTo(375);
    expect(isBusy()).toBe(false);
    expect(eligible()).toEqual([1n]);
  });

  it('is found free by the request after a refusal, however soon it gets free', () => {
    const { clock, scheduler, eligible, refusal } = under(
      { activePrefillTokens: 100 },
      [tinyWorker(1n)],
      160,
    );
    scheduler.place(request());
    let asked = 0;
    const now = vi.spyOn(clock, 'now').mockImplementation(() => 374 + asked++);
    expect(refusal().code).toBe('PM_SELECTION_OVERLOADED');
    now.mockRestore();
    clock.advanceTo(500);
    expect(eligible()).toEqual([1n]);
  });

  it('is expected to be free by the pace of whole prompts and by what is over now', () => {
    const { clock, scheduler, refusal } = under({ activePrefillTokens: 100 }, [tinyWorker(1n)], 40);
    const first = scheduler.place(request()).attempt;
    clock.advanceTo(4000);
    scheduler.prefillCompleted(first);
    scheduler.place(request({ promptTokens: 320 }));
    // 220 over, two prompts of 160 tokens in 4 s each; then 120 over, the rest of one.
    expect(refusal().details.retry_after).toBe('8');
    clock.advanceTo(6500);
    expect(refusal().details.retry_after).toBe('2');
  });
});

describe('a refusal', () => {
  it('says who is busy by what, and how long it takes', () => {
    const { clock, scheduler, refusal } = under({ activePrefillTokens: 100, activeDecodeBlocks: 0.9 }, [
      tinyWorker(1n),
      tinyWorker(2n),
    ]);
    for (const id of [1n, 2n]) {
      // Each rank gives 160 tokens back every 4 s.
      const first = scheduler.place(request({ constraints: pinTo(id) })).attempt;
      clock.advanceTo(clock.now() + 4000);
      scheduler.prefillCompleted(first);
      scheduler.release(first);
      scheduler.place(request({ constraints: pinTo(id) }));
    }
    const error = refusal();
    expect(error.message).toBe(
      'all 2 worker ranks that could take the request in role aggregated are over the busy thresholds of model tiny (active_decode_blocks_threshold 0.9, active_prefill_tokens_threshold 100); try again in 1 s',
    );
    expect(error.details).toEqual({
      refusal: 'workers_busy',
      model: 'tiny',
      role: 'aggregated',
      busy_ranks: 2,
      retry_after: '1',
    });
    // Worker 1 has held its second prompt for 4 s, worker 2 for no time yet.
    expect(refusal({ constraints: pinTo(2n) })).toMatchObject({
      message:
        'the request is pinned to worker 2, which is over the busy thresholds of model tiny (active_decode_blocks_threshold 0.9, active_prefill_tokens_threshold 100); try again in 4 s',
      details: { worker_id: '2', busy_ranks: 1, retry_after: '4' },
    });
    expect(refusal({ constraints: { ...ANYWHERE, allowedWorkers: [2n] } }).message).toMatch(
      /^the one worker rank that could take the request in role aggregated is over/,
    );
  });

  it('says 1 s while nothing was measured', () => {
    const { scheduler, refusal } = under({ activePrefillTokens: 0 }, [tinyWorker(1n)]);
    scheduler.place(request());
    expect(refusal().details.retry_after).toBe('1');
  });

  it('is none for want of load where the busy could not take the request anyway', () => {
    const { scheduler, refusal } = under({ activePrefillTokens: 0 }, [tinyWorker(1n)]);
    scheduler.place(request());
    expect(refusal({ constraints: { ...ANYWHERE, requiredTaints: ['h100'] } }).code).toBe(
      'PM_SELECTION_NO_ENDPOINTS',
    );
    expect(refusal({ constraints: pinTo(9n) }).code).toBe('PM_SELECTION_PINNED_UNAVAILABLE');
    expect(refusal({ role: 'prefill' }).code).toBe('PM_SELECTION_NO_ENDPOINTS');
  });
});

const thresholds = fc.record({
  activeDecodeBlocks: fc.constantFrom(null, 0, 0.25, 0.5, 1),
  activePrefillTokens: fc.constantFrom(null, null, 0, 100, 500),
  activePrefillTokensFrac: fc.constantFrom(null, 0, 0.5, 2),
});
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('place' as const),
      tokens: fc.integer({ min: 1, max: 400 }),
      row: fc.nat(20),
      pin: fc.option(fc.bigInt(1n, 5n), { freq: 4 }),
      taint: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('prefilled' as const, 'output' as const, 'release' as const, 'release' as const),
      which: fc.nat(50),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('thresholds' as const), thresholds }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('remove' as const, 'add' as const, 'draining' as const, 'ready' as const),
      id: fc.bigInt(1n, 4n),
      ranks: fc.integer({ min: 1, max: 3 }),
      blocks: fc.constantFrom(null, 20, 50),
      batched: fc.constantFrom(null, 128),
      taint: fc.boolean(),
    }),
  },
);

it('whoever is free, and nobody else, is a candidate under any order of loads, thresholds and fleet changes', () => {
  fc.assert(
    fc.property(thresholds, fc.array(step, { maxLength: 80, size: 'max' }), (first, steps) => {
      const { fleet, scheduler, clock, set } = under(first, []);
      let current: BusyThresholds = first;
      const bookings: { attempt: number; id: bigint; rank: number; tokens: number; blocks: number }[] = [];
      const loadOf = (id: bigint, rank: number): { tokens: number; blocks: number } => {
        const own = bookings.filter((one) => one.id === id && one.rank === rank);
        return {
          tokens: own.reduce((sum, one) => sum + one.tokens, 0),
          blocks: own.reduce((sum, one) => sum + one.blocks, 0),
        };
      };
      const isBusy = ({ id, ranks, totalKvBlocks, maxNumBatchedTokens }: WorkerSpec): boolean =>
        Array.from({ length: ranks.count }, (_, rank) => loadOf(id, rank)).every(({ tokens, blocks }) => {
          const { activeDecodeBlocks, activePrefillTokens, activePrefillTokensFrac } = current;
          if (activeDecodeBlocks !== null && totalKvBlocks !== null)
            if (blocks / totalKvBlocks > activeDecodeBlocks) return true;
          if (activePrefillTokens !== null && tokens > activePrefillTokens) return true;
          return (
            activePrefillTokensFrac !== null &&
            maxNumBatchedTokens !== null &&
            tokens > activePrefillTokensFrac * maxNumBatchedTokens
          );
        });
      for (const one of steps) {
        clock.advanceTo(clock.now() + 10);
        if (one.do === 'thresholds') {
          current = one.thresholds;
          set(current);
        } else if (one.do === 'add') {
          if (fleet.worker(one.id) !== null) continue;
          const ranks = { first: 0, count: one.ranks };
          const taints = one.taint ? ['t'] : [];
          fleet.add(
            tinyWorker(one.id, {
              ranks,
              taints,
              totalKvBlocks: one.blocks,
              maxNumBatchedTokens: one.batched,
            }),
          );
        } else if (one.do === 'remove') {
          if (!fleet.remove(one.id)) continue;
          for (const gone of bookings.filter(({ id }) => id === one.id))
            bookings.splice(bookings.indexOf(gone), 1);
        } else if (one.do === 'draining' || one.do === 'ready') {
          if (fleet.worker(one.id) !== null) fleet.setState(one.id, one.do);
        } else if (one.do === 'place') {
          const constraints = {
            ...ANYWHERE,
            pinnedWorker: one.pin === null ? null : { workerId: one.pin, rank: null },
            requiredTaints: one.taint ? ['t'] : [],
          };
          const able = fleet
            .workers()
            .filter(
              ({ state, spec: { id, taints } }) =>
                state === 'ready' &&
                (one.pin === null || id === one.pin) &&
                (!one.taint || taints.includes('t')),
            );
          const free = able.filter((worker) => !isBusy(worker.spec));
          const rows = free.flatMap(({ spec: { id, ranks } }) =>
            Array.from({ length: ranks.count }, (_, rank) => `${id}/${rank}`),
          );
          try {
            const runtime = runtimeOf((count) => one.row % count);
            const placed = scheduler.place(request({ promptTokens: one.tokens, runtime, constraints }));
            const { table, attempt, workerId: id, rank } = placed;
            expect(
              Array.from({ length: table.count }, (_, row) => `${table.workerIds[row]}/${table.ranks[row]}`),
            ).toEqual(rows);
            bookings.push({ attempt, id, rank, tokens: one.tokens, blocks: Math.floor(one.tokens / BLOCK) });
          } catch (thrown) {
            if (!(thrown instanceof PointsmanError)) throw thrown;
            expect(rows).toEqual([]);
            const none = one.pin === null ? 'PM_SELECTION_NO_ENDPOINTS' : 'PM_SELECTION_PINNED_UNAVAILABLE';
            expect(thrown.code).toBe(able.length > 0 ? 'PM_SELECTION_OVERLOADED' : none);
            if (able.length > 0) expect(Number(thrown.details.retry_after)).toBeGreaterThanOrEqual(1);
          }
        } else if ('which' in one) {
          const booking = bookings[one.which % Math.max(1, bookings.length)];
          if (booking === undefined) continue;
          if (one.do === 'prefilled') {
            scheduler.prefillCompleted(booking.attempt);
            booking.tokens = 0;
          } else if (one.do === 'output') {
            scheduler.outputBlock(booking.attempt, 1, null);
            booking.blocks += 1;
          } else {
            scheduler.release(booking.attempt);
            bookings.splice(bookings.indexOf(booking), 1);
          }
        }
        for (const worker of fleet.workers()) {
          expect(scheduler.busy.isBusy(worker, BLOCK)).toBe(isBusy(worker.spec));
        }
      }
    }),
    { numRuns: 300 },
  );
});

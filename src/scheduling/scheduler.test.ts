import { describe, expect, it } from 'vitest';
import { Fleet, type WorkerSpec } from '../fleet/index.ts';
import type { PrefixMatch } from '../kv/index.ts';
import { linearCost, PointsmanError, seededRng } from '../plugin/index.ts';
import { DefaultChoice } from './default-choice.ts';
import { ANYWHERE, picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';
import { EXCLUSION_REASONS, type PlacementConstraints, type PlacementRequest } from './types.ts';

function scheduled(workers: readonly WorkerSpec[], fallback = true) {
  const fleet = new Fleet();
  const scheduler = new Scheduler({
    fleet,
    fallback: fallback ? new DefaultChoice(linearCost(), seededRng(1)) : null,
  });
  for (const worker of workers) fleet.add(worker);
  return { fleet, scheduler };
}

/** What a prefix index would find: blocks per tier and slot. */
function matchOf(
  rows: readonly { slot: number; device?: number; host?: number; disk?: number; external?: number }[],
): PrefixMatch {
  const tier = (read: (row: (typeof rows)[number]) => number | undefined) =>
    Int32Array.from(rows, (row) => read(row) ?? 0);
  return {
    count: rows.length,
    owners: Int32Array.from(rows, ({ slot }) => slot),
    depthPerTier: [
      tier((row) => row.device),
      tier((row) => row.host),
      tier((row) => row.disk),
      tier((row) => row.external),
    ],
    version: 1,
  };
}

const codeOf = (attempt: () => unknown): string => {
  try {
    attempt();
  } catch (error) {
    return error instanceof PointsmanError ? error.code : String(error);
  }
  return 'placed';
};

describe('placing a request', () => {
  it('fills the cache columns from the match, lower tiers by their weight', () => {
    const { scheduler } = scheduled([
      tinyWorker(1n),
      tinyWorker(2n),
      tinyWorker(3n, { model: 'other' }),
      tinyWorker(4n),
    ]);
    const match = matchOf([
      { slot: 1, device: 2, host: 4, disk: 1, external: 3 },
      { slot: 2, device: 50 },
      { slot: 3, device: 1 },
    ]);
    const { table } = scheduler.place(placementRequest({ match }));
    expect(table.count).toBe(3);
    expect([...table.slots.subarray(0, 3)]).toEqual([0, 1, 3]);
    expect([...table.workerIds.subarray(0, 3)]).toEqual([1n, 2n, 4n]);
    expect([...table.deviceBlocks.subarray(0, 3)]).toEqual([0, 2, 1]);
    expect([...table.hostBlocks.subarray(0, 3)]).toEqual([0, 4, 0]);
    expect([...table.diskBlocks.subarray(0, 3)]).toEqual([0, 4, 0]);
    // 2 + 4 × 0.75 + 4 × 0.25
    expect([...table.effectiveOverlapBlocks.subarray(0, 3)]).toEqual([0, 6, 1]);
    expect([...table.cachedTokens.subarray(0, 3)]).toEqual([0, 96, 16]);
  });

  it('clears what the decision before left in its columns', () => {
    const { scheduler } = scheduled([tinyWorker(1n), tinyWorker(2n)]);
    scheduler.place(placementRequest({ match: matchOf([{ slot: 0, device: 5, host: 5, disk: 5 }]) }));
    const { table } = scheduler.place(placementRequest());
    for (const column of [
      table.deviceBlocks,
      table.hostBlocks,
      table.diskBlocks,
      table.cachedTokens,
      table.effectiveOverlapBlocks,
    ]) {
      expect([column[0], column[1]]).toEqual([0, 0]);
    }
    expect(table.hasTierMatches).toBe(false);
  });

  it('books uncached tokens on the chosen slot, and shows them to the next decision', () => {
    const { scheduler } = scheduled([tinyWorker(1n), tinyWorker(2n)]);
    const placement = scheduler.place(
      placementRequest({ runtime: picking(() => 1), match: matchOf([{ slot: 1, device: 3 }]) }),
    );
    expect([placement.slot, placement.workerId, placement.prefillTokens, placement.decodeBlocks]).toEqual([
      1,
      2n,
      52,
      6,
    ]);
    const { table, attempt } = scheduler.place(placementRequest());
    expect([
      table.activePrefillTokens[1],
      table.activeDecodeBlocks[1],
      table.decodeCostBlocks[1],
      table.activeRequests[1],
      table.occupancy[1],
    ]).toEqual([52, 6, 12, 1, 1]);
    scheduler.release(attempt);
    scheduler.release(1);
    expect(scheduler.loads.activeBookings).toBe(0);
  });

  it('does not count prompt tokens to prefill for decode workers', () => {
    const { scheduler } = scheduled([tinyWorker(1n, { role: 'decode' })]);
    const placement = scheduler.place(placementRequest({ role: 'decode' }));
    expect([placement.prefillTokens, placement.tracksPrefillTokens, placement.decodeBlocks]).toEqual([
      0,
      false,
      6,
    ]);
  });

  it('turns away whoever may not take the request, and says why', () => {
    const { fleet, scheduler } = scheduled([
      tinyWorker(1n),
      tinyWorker(2n, { taints: ['gpu'] }),
      tinyWorker(3n, { taints: ['gpu'] }),
      tinyWorker(4n, { taints: ['gpu'] }),
      tinyWorker(5n, { taints: ['gpu'] }),
      tinyWorker(6n, { taints: ['gpu'], ranks: { first: 0, count: 2 } }),
    ]);
    fleet.setState(3n, 'suspect');
    fleet.setState(4n, 'draining');
    fleet.setState(5n, 'gone');
    const reasons = (constraints: Partial<PlacementConstraints>) => {
      const { excluded, table } = scheduler.place(
        placementRequest({ constraints: { ...ANYWHERE, ...constraints } }),
      );
      const others = Array.from({ length: excluded.count }, (_, row) => [
        excluded.slots[row],
        EXCLUSION_REASONS[excluded.reasons[row] ?? 0],
      ]);
      return { eligible: [...table.slots.subarray(0, table.count)], others };
    };
    expect(reasons({ requiredTaints: ['gpu'] })).toEqual({
      eligible: [1, 5, 6],
      others: [
        [0, 'missing_taint'],
        [2, 'suspect'],
        [3, 'draining'],
        [4, 'gone'],
      ],
    });
    expect(reasons({ allowedWorkers: [2n, 3n] })).toMatchObject({
      eligible: [1],
      others: [
        [0, 'not_allowed'],
        [2, 'suspect'],
        [3, 'not_allowed'],
        [4, 'not_allowed'],
        [5, 'not_allowed'],
        [6, 'not_allowed'],
      ],
    });
    expect(reasons({ pinnedWorker: { workerId: 6n, rank: 1 } }).eligible).toEqual([6]);
    expect(reasons({ pinnedWorker: { workerId: 6n, rank: null } }).eligible).toEqual([5, 6]);
  });

  it('places a request of an adapter only where it is held, and says when nobody holds it', () => {
    const { fleet, scheduler } = scheduled([
      tinyWorker(1n),
      tinyWorker(2n, { adapters: ['law'] }),
      tinyWorker(3n, { adapters: ['law', 'code'] }),
    ]);
    const reasonsOf = (changes: Partial<PlacementRequest>) => {
      const { excluded } = scheduler.place(placementRequest(changes));
      return [...excluded.reasons.subarray(0, excluded.count)].map((reason) => EXCLUSION_REASONS[reason]);
    };
    expect(reasonsOf({ loraName: 'law' })).toEqual(['missing_adapter']);
    const constraints = { ...ANYWHERE, excludedWorkers: [2n] };
    expect(reasonsOf({ loraName: 'law', constraints })).toEqual(['missing_adapter', 'excluded']);
    expect(() => scheduler.place(placementRequest({ loraName: 'poetry' }))).toThrow(
      'no worker of model tiny in role aggregated holds the adapter "poetry"',
    );
    fleet.setState(3n, 'draining');
    expect(() => scheduler.place(placementRequest({ loraName: 'code' }))).toThrow(
      'none of the 3 workers and ranks that serve model tiny in role aggregated can take the request (2 missing adapter, 1 draining)',
    );
    const pinned = { ...ANYWHERE, pinnedWorker: { workerId: 1n, rank: null } };
    expect(() => scheduler.place(placementRequest({ loraName: 'law', constraints: pinned }))).toThrow(
      'the request is pinned to worker 1, which cannot take it now (1 missing adapter)',
    );
  });

  it('takes the domains of a topology as taints', () => {
    const { scheduler } = scheduled([
      tinyWorker(1n, { topology: { zone: 'a' } }),
      tinyWorker(2n, { topology: { zone: 'b', rack: 'r7' } }),
    ]);
    const requiredTaints = ['dynamo.topology/zone=b'];
    const placed = scheduler.place(placementRequest({ constraints: { ...ANYWHERE, requiredTaints } }));
    expect(placed.workerId).toBe(2n);
    const preferredTaints = new Map([['dynamo.topology/rack=r7', 0.85]]);
    const { table } = scheduler.place(placementRequest({ constraints: { ...ANYWHERE, preferredTaints } }));
    expect(table.preferredTaintMultiplier[0]).toBe(1);
    expect(table.preferredTaintMultiplier[1]).toBeCloseTo(0.50104, 5);
  });

  it('shows which workers run on a CPU', () => {
    const { scheduler } = scheduled([
      tinyWorker(1n, { device: 'gpu' }),
      tinyWorker(2n, { device: 'cpu', ranks: { first: 0, count: 2 } }),
      tinyWorker(3n),
    ]);
    const { table } = scheduler.place(placementRequest());
    expect([...table.onCpu.subarray(0, table.count)]).toEqual([0, 1, 1, 0]);
    const constraints = { ...ANYWHERE, allowedWorkers: [2n, 3n] };
    const narrowed = scheduler.place(placementRequest({ constraints })).table;
    expect([...narrowed.onCpu.subarray(0, narrowed.count)]).toEqual([1, 1, 0]);
  });

  it('prefers and avoids by taints, unless the request is pinned', () => {
    const { scheduler } = scheduled([
      tinyWorker(1n, { taints: ['good'] }),
      tinyWorker(2n, { taints: ['bad', 'other'] }),
      tinyWorker(3n),
    ]);
    const preferredTaints = new Map([
      ['good', 1],
      ['bad', -1],
    ]);
    const { table } = scheduler.place(placementRequest({ constraints: { ...ANYWHERE, preferredTaints } }));
    expect(table.preferredTaintMultiplier[0]).toBeCloseTo(0.46692, 5);
    expect(table.preferredTaintMultiplier[1]).toBeCloseTo(2.14169, 5);
    expect(table.preferredTaintMultiplier[2]).toBe(1);
    const pinned = { ...ANYWHERE, preferredTaints, pinnedWorker: { workerId: 2n, rank: null } };
    expect(scheduler.place(placementRequest({ constraints: pinned })).table.preferredTaintMultiplier[0]).toBe(
      1,
    );
  });

  it('books nothing when it refuses', () => {
    const { scheduler } = scheduled([tinyWorker(1n)]);
    const refusing = {
      ...picking(() => 0),
      select: () => {
        throw new PointsmanError('PM_SELECTION_ALL_FILTERED', 'nobody');
      },
    };
    expect(codeOf(() => scheduler.place(placementRequest({ runtime: refusing })))).toBe(
      'PM_SELECTION_ALL_FILTERED',
    );
    expect(codeOf(() => scheduler.place(placementRequest({ role: 'prefill' })))).toBe(
      'PM_SELECTION_NO_ENDPOINTS',
    );
    expect(scheduler.loads.activeBookings).toBe(0);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('bug');
      },
    ],
    ['picks a row that is not there', () => 2],
    ['picks no row', () => Number.NaN],
  ])('falls back on the default cost when the policy %s', (_, pick) => {
    const { scheduler } = scheduled([tinyWorker(1n), tinyWorker(2n)]);
    const placement = scheduler.place(
      placementRequest({ runtime: picking(pick), match: matchOf([{ slot: 1, device: 6 }]) }),
    );
    expect([
      placement.workerId,
      placement.fellBackOn,
      placement.pick.by,
      placement.costWeights?.overlap_score_credit,
    ]).toEqual([2n, 'PM_PLUGIN_THREW', 'lowest_cost', 1]);
    expect(placement.pick.costs.slice(0, 2)).toEqual(Float64Array.of(12.25, 6.25));
    expect(scheduler.place(placementRequest()).fellBackOn).toBeNull();
  });

  it('fails the request when the policy is broken and nothing may choose in its place', () => {
    const { scheduler } = scheduled([tinyWorker(1n)], false);
    expect(codeOf(() => scheduler.place(placementRequest({ runtime: picking(() => 7) })))).toBe(
      'PM_SELECTION_FAILED',
    );
    expect(scheduler.loads.activeBookings).toBe(0);
  });

  it('frees the bookings of a worker that is gone or removed, once', () => {
    const { fleet, scheduler } = scheduled([tinyWorker(1n), tinyWorker(2n)]);
    const attempts = [0, 1, 0].map(
      (row) => scheduler.place(placementRequest({ runtime: picking(() => row) })).attempt,
    );
    fleet.setState(1n, 'gone');
    expect(scheduler.loads.activeBookings).toBe(1);
    fleet.remove(2n);
    expect(attempts.map((attempt) => scheduler.release(attempt))).toEqual([false, false, false]);
    expect(scheduler.loads.activeDecodeBlocks.every((blocks) => blocks === 0)).toBe(true);
  });

  it('uses the same arrays for every decision', () => {
    const { scheduler } = scheduled(Array.from({ length: 20 }, (_, index) => tinyWorker(BigInt(index + 1))));
    const first = scheduler.place(placementRequest());
    const arrays = Object.values(first.table).filter((value) => ArrayBuffer.isView(value));
    expect(arrays.length).toBeGreaterThanOrEqual(17);
    const { excluded } = first;
    for (let decision = 0; decision < 100; decision += 1) {
      const again = scheduler.place(
        placementRequest({ match: matchOf([{ slot: decision % 20, device: 3 }]) }),
      );
      expect(again).toBe(first);
      expect(Object.values(again.table).filter((value) => ArrayBuffer.isView(value))).toEqual(arrays);
      for (const [index, array] of Object.values(again.table)
        .filter((value) => ArrayBuffer.isView(value))
        .entries()) {
        expect(array).toBe(arrays[index]);
      }
      expect(again.excluded).toBe(excluded);
      scheduler.release(again.attempt);
    }
  });
});

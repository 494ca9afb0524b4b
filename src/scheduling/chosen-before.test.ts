// Choosing without booking, booking what was chosen before, and weights for one request.
import { expect, it } from 'vitest';
import { Fleet } from '../fleet/index.ts';
import type { RoleRuntime } from '../host/index.ts';
import { linearCost, seededRng } from '../plugin/index.ts';
import { DefaultChoice } from './default-choice.ts';
import { ANYWHERE, picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';

function fleetOf(...ids: bigint[]): Fleet {
  const fleet = new Fleet();
  for (const id of ids) fleet.add(tinyWorker(id, { registered: true }));
  return fleet;
}

function schedulerOf(fleet: Fleet): Scheduler {
  return new Scheduler({ fleet, fallback: new DefaultChoice(linearCost(), seededRng(1)) });
}

const at = (workerId: bigint) => ({ ...ANYWHERE, pinnedWorker: { workerId, rank: 0 } });

it('chooses as it would place, and books nothing', () => {
  const scheduler = schedulerOf(fleetOf(1n, 2n));
  const request = placementRequest({ runtime: picking(() => 1), withRegistered: true });
  expect(scheduler.choose(request)).toMatchObject({ workerId: 2n, rank: 0, attempt: 0, prefillTokens: 100 });
  expect(scheduler.loads.activeBookings).toBe(0);
  expect(scheduler.place(request)).toMatchObject({ workerId: 2n, prefillTokens: 100 });
  expect(scheduler.loads.activeBookings).toBe(1);
  expect(() => scheduler.choose(placementRequest())).toThrow('no worker serves');
});

it('books where it is told, as many tokens as it is told, and asks no policy', () => {
  const scheduler = schedulerOf(fleetOf(1n, 2n));
  const runtime = picking(() => {
    throw new Error('nobody asks');
  });
  const target = { prefillTokens: 7, commitsCopy: true };
  const request = placementRequest({ runtime, target, constraints: at(1n), withRegistered: true });
  expect(scheduler.place(request)).toMatchObject({
    workerId: 1n,
    prefillTokens: 7,
    commit: null,
    fellBackOn: null,
    pick: { by: 'pinned' },
  });
  expect(scheduler.place({ ...request, tracksPrefill: false })).toMatchObject({ prefillTokens: 0 });
  expect(scheduler.place({ ...request, target: { ...target, prefillTokens: null } }).prefillTokens).toBe(100);
  expect(() => scheduler.place({ ...request, constraints: at(3n) })).toThrow('pinned to rank 0 of worker 3');
  expect(scheduler.loads.activeBookings).toBe(3);
});

it('books on a rank that is over a busy threshold where it is told to', () => {
  const scheduler = schedulerOf(fleetOf(1n));
  scheduler.setBusyThresholds(
    new Map([['tiny', { activeDecodeBlocks: null, activePrefillTokens: 10, activePrefillTokensFrac: null }]]),
  );
  const free = placementRequest({ withRegistered: true });
  const { attempt } = scheduler.place(free);
  expect(() => scheduler.place(free)).toThrow('over the busy thresholds');
  const told = { ...free, constraints: at(1n), target: { prefillTokens: 1, commitsCopy: false } };
  expect(scheduler.place(told).attempt).toBeGreaterThan(attempt);
});

it('weighs one request by weights of its own where the role runs the default cost unnamed', () => {
  const scheduler = schedulerOf(fleetOf(1n, 2n));
  const usual: RoleRuntime = {
    ...picking(() => 1),
    policy: { type: 'dynamo-default-cost-fn', instance: null, version: '1' },
  };
  const named = { ...usual, policy: { ...usual.policy, instance: 'mine' } };
  // A long prompt on worker 1, many blocks on worker 2.
  scheduler.place(
    placementRequest({
      runtime: picking(() => 0),
      promptTokens: 1600,
      withRegistered: true,
    }),
  );
  for (let times = 0; times < 2; times += 1) {
    const { attempt } = scheduler.place(
      placementRequest({ runtime: picking(() => 1), promptTokens: 1600, withRegistered: true }),
    );
    scheduler.prefillCompleted(attempt);
  }
  const ask = (runtime: RoleRuntime, prefill_load_scale: number) =>
    scheduler.choose(
      placementRequest({ runtime, costOverride: { prefill_load_scale }, withRegistered: true }),
    );
  expect(ask(usual, 0)).toMatchObject({ workerId: 1n, costWeights: { prefill_load_scale: 0 } });
  expect(ask(usual, 4)).toMatchObject({ workerId: 2n, costWeights: { prefill_load_scale: 4 } });
  expect(ask(named, 0)).toMatchObject({ workerId: 2n, costWeights: null });
});

it('takes blocks of output that callers tell, though it follows none itself', () => {
  const scheduler = schedulerOf(fleetOf(1n));
  const { attempt, slot } = scheduler.place(placementRequest({ withRegistered: true }));
  const before = scheduler.loads.bookedOn(slot).decodeBlocks;
  expect(scheduler.outputBlock(attempt, 16, null)).toBe(false);
  expect(scheduler.toldOutputBlock(attempt, null)).toBe(true);
  expect(scheduler.loads.bookedOn(slot).decodeBlocks).toBe(before + 1);
  scheduler.release(attempt);
  expect(scheduler.toldOutputBlock(attempt, null)).toBe(false);
});

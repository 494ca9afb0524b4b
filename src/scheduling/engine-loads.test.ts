import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fleet } from '../fleet/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { EngineLoads, FRESH_MS } from './engine-loads.ts';
import { picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';

function scheduled() {
  const fleet = new Fleet();
  const clock = new ManualClock(1000);
  const [one, two] = [
    fleet.add(tinyWorker(1n, { totalKvBlocks: 100 })),
    fleet.add(tinyWorker(2n, { ranks: { first: 0, count: 2 } })),
  ];
  const scheduler = new Scheduler({ fleet, fallback: null, clock });
  const look = () => {
    const { table, attempt } = scheduler.place(placementRequest({ runtime: picking(() => 0) }));
    const rows = Array.from({ length: table.count }, (_, row) => [
      table.activeRequests[row],
      table.occupancy[row],
      table.activeDecodeBlocks[row],
      table.decodeCostBlocks[row],
      table.activePrefillTokens[row],
    ]);
    scheduler.release(attempt);
    return rows;
  };
  return { fleet, clock, one, two, scheduler, look };
}

const IDLE = [0, 0, 0, 6, 0];

describe('engine-reported load', () => {
  it('stands beside what is booked and changes no decision, unless it is blended', () => {
    const { one, scheduler, look } = scheduled();
    scheduler.engineLoads.report(one, { requests: 9, kvUsage: 0.5 }, 100, 1000);
    expect(look()).toEqual([IDLE, IDLE, IDLE]);
    scheduler.engineLoads.blends = true;
    expect(look()).toEqual([[9, 0, 50, 56, 0], IDLE, IDLE]);
    // What the router has booked is not touched by it.
    expect(scheduler.requestsOn(0)).toBe(0);
    expect(scheduler.loads.activeDecodeBlocks[0]).toBe(0);
  });

  it('counts where it is larger, figure by figure, and never lowers what is booked', () => {
    const { one, scheduler, look } = scheduled();
    scheduler.engineLoads.blends = true;
    for (let booked = 0; booked < 3; booked += 1) scheduler.place(placementRequest());
    scheduler.engineLoads.report(one, { requests: 1, kvUsage: 0.9 }, 100, 1000);
    expect(look()[0]).toEqual([3, 3, 90, 96, 300]);
    scheduler.engineLoads.report(one, { requests: 7, kvUsage: 0.01 }, 100, 1000);
    expect(look()[0]).toEqual([7, 3, 18, 24, 300]);
  });

  it('is shared evenly by the ranks of a worker; a usage of unknown capacity says nothing of blocks', () => {
    const { two, scheduler, look } = scheduled();
    scheduler.engineLoads.blends = true;
    scheduler.engineLoads.report(two, { requests: 5, kvUsage: 0.5 }, null, 1000);
    expect(look().slice(1)).toEqual([
      [2.5, 0, 0, 6, 0],
      [2.5, 0, 0, 6, 0],
    ]);
  });

  it('counts while it is fresh, until it is withdrawn, and not for the next owner of the slot', () => {
    const { fleet, clock, one, scheduler, look } = scheduled();
    scheduler.engineLoads.blends = true;
    scheduler.engineLoads.report(one, { requests: 4, kvUsage: null }, 100, 1000);
    clock.advanceTo(1000 + FRESH_MS);
    expect(look()[0]?.[0]).toBe(4);
    clock.advanceTo(1001 + FRESH_MS);
    expect(look()[0]?.[0]).toBe(0);
    scheduler.engineLoads.report(one, { requests: 4, kvUsage: null }, 100, clock.now());
    scheduler.engineLoads.report(one, null, 100, clock.now());
    expect(look()[0]?.[0]).toBe(0);
    scheduler.engineLoads.report(one, { requests: 4, kvUsage: null }, 100, clock.now());
    fleet.remove(1n);
    fleet.add(tinyWorker(1n));
    expect(look()[0]?.[0]).toBe(0);
  });

  it('is the larger of both for any figures', () => {
    const figure = fc.double({ min: 0, max: 1e6, noNaN: true });
    fc.assert(
      fc.property(
        figure,
        figure,
        figure,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (requests, blocks, reported, usage) => {
          const loads = new EngineLoads();
          const fleet = new Fleet();
          loads.report(fleet.add(tinyWorker(1n)), { requests: reported, kvUsage: usage }, 1000, 0);
          const table = {
            count: 1,
            slots: Int32Array.of(0),
            activeRequests: Float64Array.of(requests),
            activeDecodeBlocks: Float64Array.of(blocks),
            additionalBlocks: Float64Array.of(3),
            decodeCostBlocks: Float64Array.of(blocks + 3),
          };
          loads.blend(table, 0);
          expect(table.activeRequests[0]).toBe(Math.max(requests, reported));
          expect(table.activeDecodeBlocks[0]).toBe(Math.max(blocks, usage * 1000));
          expect(table.decodeCostBlocks[0]).toBe(Math.max(blocks, usage * 1000) + 3);
        },
      ),
    );
  });
});

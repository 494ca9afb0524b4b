import { describe, expect, it } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import type { ReportedLoad } from '../engines/index.ts';
import { BlockSizes, Fleet, type ProbeResult } from '../fleet/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { Scheduler } from '../scheduling/index.ts';
import { ReportedLoads, reportsInto } from './reported-loads.ts';

const LOAD = { running: 3, waiting: 1, kvUsage: 0.5 };

function setUp() {
  const clock = new ManualClock(1000);
  const fleet = new Fleet();
  const worker = fleet.add(workerFixture().spec);
  const asked: { answer: (load: ReportedLoad | null) => void; fail: () => void; signal: AbortSignal }[] = [];
  const switches = { wanted: true };
  const loads = new ReportedLoads({
    fleet,
    clock,
    wanted: () => switches.wanted,
    ask: (_url, signal) =>
      new Promise((resolve, reject) =>
        asked.push({ answer: resolve, fail: () => reject(new Error('no')), signal }),
      ),
  });
  let result: ProbeResult = { healthy: true };
  const probe = loads.around(() => Promise.resolve(result));
  const { signal } = new AbortController();
  const check = async (healthy = true): Promise<void> => {
    result = healthy ? { healthy } : { healthy };
    expect(await probe(worker, { askCapabilities: false, signal })).toEqual({ healthy });
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const { id } = worker.spec;
  return { clock, fleet, id, asked, switches, loads, check, turn };
}

describe('reported loads', () => {
  it('are asked with each good check, one question at a time, and grow old', async () => {
    const { clock, id, asked, loads, check, turn } = setUp();
    await check();
    await check();
    expect([asked.length, loads.of(id)]).toEqual([1, null]);
    asked[0]?.answer(LOAD);
    await turn();
    clock.advanceTo(1500);
    expect(loads.of(id)).toEqual({ load: LOAD, ageMs: 500 });
    await check();
    expect([asked.length, loads.of(id)?.ageMs]).toEqual([2, 500]);
  });

  it.each(['says nothing', 'fails', 'is late'] as const)('are gone when the engine %s', async (how) => {
    const { clock, id, asked, loads, check, turn } = setUp();
    await check();
    asked[0]?.answer(LOAD);
    await turn();
    await check();
    if (how === 'fails') asked[1]?.fail();
    if (how === 'is late') clock.advanceTo(3000);
    expect(asked[1]?.signal.aborted).toBe(how === 'is late');
    asked[1]?.answer(how === 'is late' ? LOAD : null);
    await turn();
    expect(loads.of(id)).toBeNull();
    expect(clock.nextTimerAt()).toBeNull();
  });

  it.each(['is unhealthy', 'is removed', 'is asked no more'] as const)(
    'are forgotten with the question under way when the worker %s',
    async (how) => {
      const { fleet, id, asked, switches, loads, check, turn } = setUp();
      await check();
      asked[0]?.answer(LOAD);
      await turn();
      await check();
      if (how === 'is unhealthy') await check(false);
      else if (how === 'is removed') fleet.remove(id);
      else {
        switches.wanted = false;
        await check();
      }
      expect([asked[1]?.signal.aborted, loads.of(id)]).toEqual([true, null]);
      asked[1]?.answer(LOAD);
      await turn();
      expect(loads.of(id)).toBeNull();
    },
  );

  it('end their questions when closed', async () => {
    const { asked, loads, check } = setUp();
    await check();
    loads.close();
    expect(asked[0]?.signal.aborted).toBe(true);
  });
});

describe('reports for scheduling', () => {
  it('are handed on with the capacity of a rank, and withdrawn with the worker’s health', async () => {
    const clock = new ManualClock(1000);
    const fleet = new Fleet();
    const worker = fleet.add(workerFixture({ totalKvBlocks: 200 }).spec);
    const scheduler = new Scheduler({ fleet, fallback: null, clock });
    const taken: unknown[] = [];
    const report: typeof scheduler.engineLoads.report = (...args) => taken.push(args);
    scheduler.engineLoads.report = report;
    const blockSizes = new BlockSizes(fleet, () => 16);
    const said: (ReportedLoad | null)[] = [
      LOAD,
      { running: null, waiting: 2, kvUsage: null },
      { running: null, waiting: null, kvUsage: 1 },
      null,
    ];
    const loads = new ReportedLoads({
      fleet,
      clock,
      wanted: () => true,
      ask: () => Promise.resolve(said.shift() ?? null),
      heard: reportsInto(scheduler.engineLoads, blockSizes, clock),
    });
    let healthy = true;
    const probe = loads.around(() => Promise.resolve(healthy ? { healthy: true } : { healthy: false }));
    const { signal } = new AbortController();
    for (let check = 0; check < 5; check += 1) {
      healthy = check < 4;
      await probe(worker, { askCapabilities: false, signal });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(taken).toEqual([
      [worker, { requests: 4, kvUsage: 0.5 }, 200, 1000],
      [worker, { requests: 2, kvUsage: null }, 200, 1000],
      [worker, { requests: null, kvUsage: 1 }, 200, 1000],
      [worker, null, 200, 1000],
      [worker, null, 200, 1000],
    ]);
  });
});

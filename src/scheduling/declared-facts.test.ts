// What scheduling finds out for the inputs `in-flight-blocks`, `request-phases`, `cache-pressure`, `output-length` and `timing`, and for nobody else.
import { describe, expect, it } from 'vitest';
import { Fleet, type WorkerCapabilities, type WorkerSpec } from '../fleet/index.ts';
import type { CandidateTable, RoleNeeds } from '../host/index.ts';
import type { HashPairs } from '../kv/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { picking, placementRequest, tinyWorker } from './scheduler.fixtures.ts';
import { Scheduler } from './scheduler.ts';
import { WORKING_SET_MS } from './working-sets.ts';

const BLOCK = 16;
/** Sequence hashes of 6 blocks; chains with the same mark share a prefix as far as `same` says. */
function chain(mark: number, same = 6): HashPairs {
  return Uint32Array.from({ length: 12 }, (_, at) => (at >> 1 < same ? 1000 + at : mark * 100 + at));
}
const ALL = { inFlight: true, phases: true, cachePressure: true, outputLength: true, timing: true };

function bench(needs: Partial<RoleNeeds> = ALL, worker: Partial<WorkerSpec> = {}) {
  const clock = new ManualClock(1000);
  let reads = 0;
  const watched = {
    now: () => {
      reads += 1;
      return clock.now();
    },
  };
  const fleet = new Fleet();
  fleet.add(tinyWorker(1n, worker));
  fleet.add(tinyWorker(2n, worker));
  const scheduler = new Scheduler({ fleet, fallback: null, clock: watched });
  let seen: CandidateTable | null = null;
  const place = (row: number, sequence: HashPairs, promptTokens = 6 * BLOCK) => {
    const runtime = picking((table) => {
      seen = table;
      return row;
    }, needs);
    const hashes = { blocks: 6, sequence, local: sequence };
    return scheduler.place(placementRequest({ runtime, hashes, promptTokens, blockSize: BLOCK })).attempt;
  };
  const column = (
    name:
      | 'inFlightBlocks'
      | 'prefillTokens'
      | 'prefillFrontMs'
      | 'decodeRequests'
      | 'bookedPromptTokens'
      | 'cachePressure',
  ) => [...(seen?.[name].subarray(0, 2) ?? [])];
  return { clock, fleet, scheduler, place, column, table: () => seen, reads: () => reads };
}

describe('declared facts', () => {
  it('say which leading blocks bookings hold, until they end, and count these as cached for the next booking', () => {
    const { place, column, scheduler } = bench();
    const first = place(0, chain(1));
    expect(column('inFlightBlocks')).toEqual([0, 0]);
    place(1, chain(2, 4));
    expect(column('inFlightBlocks')).toEqual([4, 0]);
    place(0, chain(3, 5));
    expect(column('inFlightBlocks')).toEqual([5, 4]);
    place(0, chain(4, 1));
    // 96 tokens of the first, and 16 of the one whose other five blocks are in flight.
    expect(column('prefillTokens')).toEqual([112, 96]);
    scheduler.release(first);
    place(0, chain(5));
    expect(column('inFlightBlocks')).toEqual([5, 4]);
  });

  it('say what bookings are at', () => {
    const { clock, place, column, scheduler } = bench();
    const first = place(0, chain(1, 0));
    place(0, chain(2, 0));
    clock.advanceTo(1030);
    scheduler.prefillCompleted(first);
    clock.advanceTo(1035);
    place(1, chain(3, 0));
    expect(column('prefillTokens')).toEqual([96, 0]);
    expect(column('prefillFrontMs')).toEqual([5, 0]);
    expect(column('decodeRequests')).toEqual([1, 0]);
    expect(column('bookedPromptTokens')).toEqual([192, 0]);
  });

  it('say how long answers are, the last ones weighing most, and nothing before one has finished', () => {
    const { place, scheduler, table } = bench();
    const finish = (outputTokens: number) => {
      const attempt = place(0, chain(1));
      scheduler.prefillCompleted(attempt);
      scheduler.answered(attempt, outputTokens);
      scheduler.release(attempt);
    };
    finish(100);
    expect(table()?.averageOutputTokens).toBeNull();
    finish(200);
    expect(table()?.averageOutputTokens).toBe(100);
    finish(Number.NaN);
    // What no model writes is a wrong count, which would hide everything else for a hundred answers.
    finish(2 ** 40);
    expect(table()?.averageOutputTokens).toBe(150);
    finish(150);
    expect(table()?.averageOutputTokens).toBe(150);
    for (let answer = 0; answer < 1000; answer += 1) finish(10);
    expect(table()?.averageOutputTokens).toBeLessThan(15);
  });

  it('learn how long workers take, also where others wait before a prompt', () => {
    const { clock, place, scheduler, table } = bench();
    let now = clock.now();
    // A worker of one prompt token a ms and an output token every 20, always with two prompts at a time.
    for (let round = 0; round < 200; round += 1) {
      const long = 200 + 37 * (round % 50);
      const first = place(0, chain(round, 0), long);
      const second = place(0, chain(-round, 0), 2000);
      now += long;
      clock.advanceTo(now);
      scheduler.prefillCompleted(first);
      now += 2000;
      clock.advanceTo(now);
      scheduler.prefillCompleted(second);
      now += 20 * 9;
      clock.advanceTo(now);
      for (const attempt of [first, second]) {
        if (attempt === second) scheduler.answered(attempt, 10);
        scheduler.release(attempt);
      }
    }
    place(0, chain(1));
    const timing = table()?.timings[table()?.timingKind[0] ?? 0];
    expect(timing).toBeDefined();
    const n = 3000;
    const prompt =
      n * ((timing?.prefillTokenMs ?? 0) + ((timing?.prefillAttentionMs ?? 0) * n) / 2) +
      (timing?.prefillPassMs ?? 0);
    expect(prompt / n).toBeGreaterThan(0.9);
    expect(prompt / n).toBeLessThan(1.15);
    expect(timing?.decodeMs).toBeGreaterThan(17);
    expect(timing?.decodeMs).toBeLessThan(23);
  });

  it.each<[string, number]>([
    ['forwards by ten minutes', 600_000],
    ['forwards by a day', 86_400_000],
    ['backwards by ten minutes', -600_000],
    ['backwards by a day', -86_400_000],
  ])('are hardly moved by a clock that steps %s, and are right again soon', (_, step) => {
    let now = 1e9;
    const fleet = new Fleet();
    fleet.add(tinyWorker(1n));
    const scheduler = new Scheduler({ fleet, fallback: null, clock: { now: () => now } });
    let seen: CandidateTable | null = null;
    const runtime = picking((table) => {
      seen = table;
      return 0;
    }, ALL);
    const serve = (beforeFirst: number, beforeEnd: number) => {
      const { attempt } = scheduler.place(
        placementRequest({ runtime, promptTokens: 1000, blockSize: BLOCK }),
      );
      now += 60 + beforeFirst;
      scheduler.prefillCompleted(attempt);
      now += 9 * 8 + beforeEnd;
      scheduler.answered(attempt, 10);
      scheduler.release(attempt);
    };
    const expected = () => {
      scheduler.release(
        scheduler.place(placementRequest({ runtime, promptTokens: 1, blockSize: BLOCK })).attempt,
      );
      const timing = seen?.timings[0];
      if (timing === undefined) throw new Error('nothing is known');
      const { prefillTokenMs, prefillAttentionMs, prefillPassMs, decodeMs } = timing;
      return [prefillPassMs + 1000 * (prefillTokenMs + 500 * prefillAttentionMs), decodeMs];
    };
    for (let request = 0; request < 100; request += 1) serve(0, 0);
    expect(expected()[0]).toBeCloseTo(60, 0);
    expect(expected()[1]).toBeCloseTo(8, 0);
    serve(step, 0);
    serve(0, step);
    for (const [part, right] of [60, 8].entries()) {
      const ratio = (expected()[part] ?? 0) / right;
      expect(ratio).toBeGreaterThan(0.95);
      expect(ratio).toBeLessThan(1.05);
    }
    for (let request = 0; request < 100; request += 1) serve(0, 0);
    expect(expected()[0]).toBeCloseTo(60, 0);
    expect(expected()[1]).toBeCloseTo(8, 0);
  });

  it('say how likely it is that what pools forget is asked for again, of workers that say what they hold', () => {
    const { clock, fleet, place, column } = bench(ALL, { totalKvBlocks: 2048 / BLOCK });
    const long = (seed: number) =>
      Uint32Array.from({ length: 2 * 300 }, (_, at) => seed + Math.imul(at, 0x9e3779b1));
    place(0, long(1), 300 * BLOCK);
    place(1, long(1), 300 * BLOCK);
    expect(column('cachePressure')).toEqual([Math.exp(-2048 / 4096), 0]);
    clock.advanceTo(clock.now() + WORKING_SET_MS);
    place(0, long(2), 300 * BLOCK);
    const decayed = expect.closeTo(Math.exp((-2048 / 4096) * Math.E), 9);
    expect(column('cachePressure')).toEqual([decayed, decayed]);
    fleet.remove(2n);
    fleet.add(tinyWorker(3n, { totalKvBlocks: 2048 / BLOCK }));
    clock.advanceTo(clock.now() + 1_000);
    place(0, long(2), 300 * BLOCK);
    expect(column('cachePressure')).toEqual([
      expect.closeTo(Math.exp((-0.5 * Math.exp(1 / 300)) / (1 + 1 / Math.E)), 9),
      0,
    ]);
    fleet.setState(1n, 'gone');
    fleet.setState(1n, 'ready');
    clock.advanceTo(clock.now() + 1_000);
    place(0, long(1), 300 * BLOCK);
    expect(column('cachePressure')).toEqual([0, 0]);
  });

  it('know what an engine holds from its own account, in its own pages, and forget what a run before it held', () => {
    const { clock, fleet, place, column } = bench();
    const said = {
      ...{ version: null, blockSize: BLOCK / 4, totalKvBlocks: 4 * (2048 / BLOCK), chatTemplate: null },
      ...{ models: null, maxNumBatchedTokens: null, maxModelLength: null, ranks: null },
      ...{ prefixCaching: null, kvEvents: null },
    };
    const advertised = (epoch: string): WorkerCapabilities => ({
      ...{ epoch, model: 'tiny', workerType: 'aggregated', blockSize: BLOCK, hashScheme: 'sim' },
      ...{ reportsOutcomes: true, adapters: null, ranks: new Map() },
    });
    fleet.setEngine(1n, { dialect: 'vllm', description: said });
    fleet.setCapabilities(1n, advertised('first'));
    const long = Uint32Array.from({ length: 2 * 300 }, (_, at) => Math.imul(at, 0x9e3779b1));
    place(0, long, 300 * BLOCK);
    place(1, long, 300 * BLOCK);
    place(1, long, 300 * BLOCK);
    expect(column('cachePressure')).toEqual([Math.exp(-2048 / 4096), 0]);
    clock.advanceTo(clock.now() + 1_000);
    fleet.setCapabilities(1n, advertised('second'));
    place(1, long, 300 * BLOCK);
    expect(column('cachePressure')).toEqual([0, 0]);
  });

  it('are not looked for, and no time is read, where nobody declares them', () => {
    const none = bench({
      ...{ inFlight: false, phases: false, cachePressure: false, outputLength: false, timing: false },
    });
    const attempt = none.place(0, chain(1));
    none.scheduler.prefillCompleted(attempt);
    none.scheduler.answered(attempt, 100);
    none.place(0, chain(1));
    none.scheduler.release(attempt);
    expect(none.reads()).toBe(0);
    expect(none.column('inFlightBlocks')).toEqual([0, 0]);
    expect(none.column('bookedPromptTokens')).toEqual([0, 0]);
    expect(none.column('cachePressure')).toEqual([0, 0]);
    expect(none.table()?.timings).toEqual([]);
  });
});

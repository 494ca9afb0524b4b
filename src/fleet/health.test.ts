import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { Fleet } from './fleet.ts';
import { WorkerHealth } from './health.ts';
import { HealthProber, type ProbeResult } from './prober.ts';
import type { WorkerCapabilities, WorkerSpec, WorkerState } from './types.ts';

function spec(id: bigint): WorkerSpec {
  return {
    id,
    model: 'tiny',
    url: 'http://127.0.0.1:9000',
    dialect: 'sim',
    role: 'aggregated',
    ranks: { first: 0, count: 1 },
    kvEvents: new Map(),
    maxNumBatchedTokens: null,
    totalKvBlocks: null,
    taints: [],
    topology: {},
  };
}

function advertised(epoch: string): WorkerCapabilities {
  return {
    epoch,
    model: 'tiny-sim',
    workerType: 'aggregated',
    blockSize: 16,
    hashScheme: 'sim-xxh3/seed=0',
    reportsOutcomes: true,
    ranks: new Map(),
  };
}

function fleetOfOne() {
  const fleet = new Fleet();
  const health = new WorkerHealth(fleet);
  fleet.add(spec(1n));
  return { fleet, health, state: () => fleet.worker(1n)?.state };
}

/** Lets settled promises run their continuations. */
const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
};

describe('worker health', () => {
  it('suspects a worker at the second refused connection in a row', () => {
    const { health, state } = fleetOfOne();
    health.connectionRefused(1n);
    expect(state()).toBe('ready');
    health.answered(1n);
    health.connectionRefused(1n);
    expect(state()).toBe('ready');
    health.connectionRefused(1n);
    expect(state()).toBe('suspect');
    health.checkSucceeded(1n);
    expect(state()).toBe('ready');
  });

  it('suspects a worker at once when a stream is reset', () => {
    const { health, state } = fleetOfOne();
    health.streamReset(1n);
    expect(state()).toBe('suspect');
  });

  it('loses a worker at the third failed check in a row and takes it back at the next success', () => {
    const { health, state } = fleetOfOne();
    health.checkFailed(1n);
    health.checkFailed(1n);
    health.checkSucceeded(1n);
    health.checkFailed(1n);
    health.checkFailed(1n);
    expect(state()).toBe('ready');
    health.checkFailed(1n);
    expect(state()).toBe('gone');
    health.streamReset(1n);
    expect(state()).toBe('gone');
    health.checkSucceeded(1n);
    expect(state()).toBe('ready');
  });

  it('brings a lost worker back draining when it was draining', () => {
    const { fleet, health, state } = fleetOfOne();
    fleet.setState(1n, 'draining');
    health.streamReset(1n);
    health.checkSucceeded(1n);
    expect(state()).toBe('draining');
    for (let check = 0; check < 3; check += 1) health.checkFailed(1n);
    expect(state()).toBe('gone');
    health.checkSucceeded(1n);
    expect(state()).toBe('draining');
  });

  it('ignores reports about workers that are not there', () => {
    const { fleet, health } = fleetOfOne();
    fleet.remove(1n);
    health.connectionRefused(1n);
    health.streamReset(2n);
    health.checkFailed(1n);
    health.checkSucceeded(1n);
    health.answered(1n);
    expect(fleet.size).toBe(0);
  });

  it('holds its rules over any sequence of reports', () => {
    const reports = ['refused', 'reset', 'answered', 'ok', 'failed'] as const;
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...reports), { maxLength: 40 }), (sequence) => {
        const { health, state } = fleetOfOne();
        let expected: WorkerState = 'ready';
        let refusals = 0;
        let failures = 0;
        for (const report of sequence) {
          if (report === 'refused') {
            health.connectionRefused(1n);
            refusals += 1;
            if (refusals >= 2 && expected === 'ready') expected = 'suspect';
          } else if (report === 'reset') {
            health.streamReset(1n);
            if (expected === 'ready') expected = 'suspect';
          } else if (report === 'answered') {
            health.answered(1n);
            refusals = 0;
          } else if (report === 'ok') {
            health.checkSucceeded(1n);
            refusals = 0;
            failures = 0;
            expected = 'ready';
          } else {
            health.checkFailed(1n);
            failures += 1;
            if (failures >= 3) expected = 'gone';
          }
          expect(state()).toBe(expected);
        }
      }),
    );
  });
});

describe('the prober', () => {
  function probed(heard = (): boolean => true) {
    const { fleet, health, state } = fleetOfOne();
    const clock = new ManualClock();
    const asked: { at: number; capabilities: boolean; aborted: () => boolean }[] = [];
    let answer: ((result: ProbeResult) => void) | null = null;
    const prober = new HealthProber({
      fleet,
      health,
      clock,
      heard,
      probe: (_worker, { askCapabilities, signal }) => {
        asked.push({ at: clock.now(), capabilities: askCapabilities, aborted: () => signal.aborted });
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    });
    const reply = async (result: ProbeResult): Promise<void> => {
      answer?.(result);
      await settled();
    };
    return { fleet, health, state, clock, asked, prober, reply };
  }

  it('asks at once, then every 5 s, and for capabilities again after 60 s', async () => {
    const { fleet, clock, asked, prober, reply } = probed();
    prober.start();
    for (let at = 0; at <= 60_000; at += 5000) {
      clock.advanceTo(at);
      const due = asked.at(-1)?.capabilities === true;
      await reply({ healthy: true, ...(due ? { capabilities: advertised('a') } : {}) });
    }
    expect(asked.map(({ at }) => at)).toEqual(Array.from({ length: 13 }, (_, check) => check * 5000));
    expect(asked.filter(({ capabilities }) => capabilities).map(({ at }) => at)).toEqual([0, 60_000]);
    expect(fleet.worker(1n)?.capabilities?.epoch).toBe('a');
    prober.stop();
    expect(clock.nextTimerAt()).toBeNull();
  });

  it('counts a late answer as none, asks a troubled worker every second, and notices a restart when it is back', async () => {
    const { fleet, state, clock, asked, prober, reply } = probed();
    let restarts = 0;
    fleet.listen({ restarted: () => restarts++ });
    prober.start();
    clock.advanceTo(0);
    await reply({ healthy: true, capabilities: advertised('a') });
    clock.advanceTo(5000);
    clock.advanceTo(7000);
    expect(asked.at(-1)?.aborted()).toBe(true);
    await reply({ healthy: true, capabilities: advertised('late') });
    clock.advanceTo(8000);
    await reply({ healthy: false });
    clock.advanceTo(9000);
    await reply({ healthy: false });
    expect(state()).toBe('gone');
    clock.advanceTo(10_000);
    expect(asked.map(({ at }) => at)).toEqual([0, 5000, 8000, 9000, 10_000]);
    expect(asked.at(-1)?.capabilities).toBe(true);
    await reply({ healthy: true, capabilities: advertised('b') });
    expect([state(), restarts]).toEqual(['ready', 1]);
    prober.stop();
  });

  it('asks a worker that turned suspect at once', async () => {
    const { health, state, clock, asked, prober, reply } = probed();
    prober.start();
    clock.advanceTo(0);
    await reply({ healthy: true, capabilities: null });
    clock.advanceTo(1234);
    health.streamReset(1n);
    clock.advanceTo(1234);
    expect(asked.map(({ at, capabilities }) => [at, capabilities])).toEqual([
      [0, true],
      [1234, true],
    ]);
    await reply({ healthy: true, capabilities: null });
    expect(state()).toBe('ready');
    prober.stop();
  });

  it('asks again when a check that began before the trouble comes back', async () => {
    const { health, state, clock, asked, prober, reply } = probed();
    prober.start();
    clock.advanceTo(0);
    await reply({ healthy: true, capabilities: advertised('a') });
    clock.advanceTo(5000);
    health.streamReset(1n);
    await reply({ healthy: true });
    expect(state()).toBe('suspect');
    clock.advanceTo(5000);
    expect(asked.map(({ at, capabilities }) => [at, capabilities])).toEqual([
      [0, true],
      [5000, false],
      [5000, true],
    ]);
    await reply({ healthy: true, capabilities: advertised('b') });
    expect(state()).toBe('ready');
    prober.stop();
  });

  it('holds a worker that comes back until its events are heard, for a second at most', async () => {
    let heard = false;
    const { health, state, clock, asked, prober, reply } = probed(() => heard);
    const answer = { healthy: true, capabilities: advertised('a') } as const;
    prober.start();
    clock.advanceTo(0);
    await reply(answer);
    // One that was never in trouble is not held back.
    expect([state(), clock.nextTimerAt()]).toEqual(['ready', 5000]);
    health.streamReset(1n);
    clock.advanceTo(0);
    await reply(answer);
    clock.advanceTo(50);
    expect(state()).toBe('suspect');
    heard = true;
    await reply(answer);
    expect(state()).toBe('ready');
    heard = false;
    health.streamReset(1n);
    const before = asked.length;
    clock.advanceTo(50);
    await reply(answer);
    for (let at = 100; at <= 1050; at += 50) {
      expect(state()).toBe('suspect');
      clock.advanceTo(at);
      await reply(answer);
    }
    expect([state(), asked.length - before]).toEqual(['ready', 21]);
    prober.stop();
  });

  it('forgets removed workers and ignores answers after it stopped', async () => {
    const { fleet, state, clock, asked, prober, reply } = probed();
    prober.start();
    clock.advanceTo(0);
    prober.stop();
    expect(asked[0]?.aborted()).toBe(true);
    await reply({ healthy: false });
    expect([state(), clock.nextTimerAt()]).toEqual(['ready', null]);
    prober.start();
    fleet.remove(1n);
    clock.advanceTo(100_000);
    expect(asked.length).toBe(1);
    prober.stop();
  });
});

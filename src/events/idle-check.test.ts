// The last messages of an engine that says nothing more: lost without a trace in any number.
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { bench, removed, stored } from './applier.fixtures.ts';
import { encodeEventBatch } from './encode-batch.ts';
import type { KvEvent } from './types.ts';

const IDLE_MS = 1000;

/** An engine that remembers what it published, and can be asked. */
function setUp({ idleMs = IDLE_MS, keeps = 1000 } = {}) {
  const clock = new ManualClock(0);
  const setting = { idleMs };
  /** Whether the engine answers. */
  const engine = { answers: true };
  const { applier, depth } = bench({ clock, idleCheckMs: () => setting.idleMs });
  let history: { sequence: number; bytes: Uint8Array }[] = [];
  let next = 0;
  const asked: number[] = [];
  applier.askAt(1, {
    replay(from, { batch, ended, failed }) {
      asked.push(from);
      return clock.schedule(1, () => {
        if (!engine.answers) {
          failed?.('timed_out');
          return;
        }
        for (const { sequence, bytes } of history) if (sequence >= from) batch(sequence, bytes);
        ended();
      });
    },
  });
  const publish = (isHeard: boolean, ...events: KvEvent[]): void => {
    const bytes = encodeEventBatch({ timestamp: clock.now() + 1, rank: null, events });
    const sequence = next++;
    history = [...history, { sequence, bytes }].slice(history.length + 1 - keeps);
    if (isHeard) applier.onBatch(1, sequence, bytes);
  };
  const restart = (): void => {
    history = [];
    next = 0;
  };
  return { applier, depth, clock, asked, publish, restart, setting, engine };
}

describe('a stream that went silent', () => {
  it('finds the messages that were the last ones, and lost', () => {
    const { applier, asked, clock, depth, publish } = setUp();
    publish(true, stored([10, 11], [1, 2, 3, 4]));
    publish(false, removed([11]));
    publish(false, stored([20], [7, 8]));
    clock.advanceTo(IDLE_MS - 1);
    expect([asked, depth(1, [1, 2, 3, 4]), depth(1, [7, 8])]).toEqual([[], 2, 0]);
    clock.advanceTo(IDLE_MS + 1);
    expect([asked, depth(1, [1, 2, 3, 4]), depth(1, [7, 8])]).toEqual([[0], 1, 1]);
    expect(applier.feed(1)).toMatchObject({
      lastSequence: 2,
      stale: false,
      partial: false,
      missedBatches: 0,
    });
  });

  it('is asked about from its last message on, after pauses that double up to 16 times the first', () => {
    const { applier, asked, clock, publish } = setUp();
    publish(true, stored([10], [1, 2]));
    publish(true, stored([11], [3, 4], { after: 10 }));
    const times: number[] = [];
    for (let seen = 0; clock.now() < 80 * IDLE_MS; clock.advanceTo(clock.now() + IDLE_MS)) {
      if (asked.length > seen) times.push(clock.now());
      seen = asked.length;
    }
    expect(times).toEqual([1, 3, 7, 15, 31, 47, 63, 79].map((pauses) => pauses * IDLE_MS));
    expect(new Set(asked)).toEqual(new Set([1]));
    // It speaks again: the pauses begin anew.
    publish(true, stored([12], [5, 6], { after: 11 }));
    const before = asked.length;
    clock.advanceTo(clock.now() + IDLE_MS);
    clock.advanceTo(clock.now() + 2 * IDLE_MS);
    expect(asked.slice(before)).toEqual([2, 2]);
    expect(applier.feed(1)).toMatchObject({ stale: false, restarts: 0, missedBatches: 0 });
  });

  it('is not asked about while messages come, however many', () => {
    const { asked, clock, publish } = setUp();
    for (let at = 0; at < 100; at += 1) {
      publish(true, stored([10 + at], [at, at]));
      clock.advanceTo(clock.now() + IDLE_MS - 1);
    }
    expect(asked).toEqual([]);
  });

  it('is found to be of an engine that began anew and has nothing', () => {
    const { applier, clock, depth, publish, restart } = setUp();
    publish(true, stored([10], [1, 2]));
    restart();
    clock.advanceTo(IDLE_MS + 10);
    expect(depth(1, [1, 2])).toBe(0);
    publish(true, stored([30], [5, 6]));
    clock.advanceTo(clock.now() + IDLE_MS);
    expect([depth(1, [5, 6]), applier.feed(1)?.stale]).toEqual([1, false]);
  });

  it('is as good as before when its engine does not answer, until a message shows that one was lost', () => {
    const { applier, asked, clock, depth, engine, publish } = setUp();
    publish(true, stored([10], [1, 2]));
    engine.answers = false;
    clock.advanceTo(20 * IDLE_MS);
    expect(asked).toEqual([0, 0, 0, 0]);
    expect(applier.feed(1)).toMatchObject({ stale: false, missedBatches: 0, replays: { timed_out: 4 } });
    publish(false, stored([11], [3, 4]));
    publish(true, stored([12], [5, 6]));
    clock.advanceTo(clock.now() + 10);
    expect(applier.feed(1)).toMatchObject({ stale: true, missedBatches: 1 });
    expect([depth(1, [1, 2]), depth(1, [5, 6])]).toEqual([1, 1]);
  });

  it('is not believed to be well when a message comes while its engine does not answer, and shows a loss', () => {
    const { applier, asked, clock, engine, publish } = setUp();
    publish(true, stored([10], [1, 2]));
    engine.answers = false;
    clock.advanceTo(IDLE_MS);
    publish(false, stored([11], [3, 4]));
    publish(true, stored([12], [5, 6]));
    clock.advanceTo(IDLE_MS + 1);
    expect(asked).toEqual([0]);
    expect(applier.feed(1)).toMatchObject({ stale: true, missedBatches: 1 });
  });

  it('is forgotten once, and not again, when its engine repeats nothing', () => {
    const { applier, asked, clock, depth, publish } = setUp({ keeps: 0 });
    publish(true, stored([10], [1, 2]));
    clock.advanceTo(IDLE_MS + 10);
    expect(depth(1, [1, 2])).toBe(0);
    publish(true, stored([11], [3, 4]));
    clock.advanceTo(clock.now() + 10 * IDLE_MS);
    publish(true, stored([12], [5, 6]));
    const before = asked.length;
    clock.advanceTo(clock.now() + 100 * IDLE_MS);
    expect([asked.length - before, depth(1, [3, 4]), depth(1, [5, 6])]).toEqual([0, 1, 1]);
    expect(applier.feed(1)).toMatchObject({ partial: true });
  });

  it('is not asked about any more when the setting becomes 0 meanwhile', () => {
    const { asked, clock, publish, setting } = setUp();
    publish(true, stored([10], [1, 2]));
    setting.idleMs = 0;
    clock.advanceTo(100 * IDLE_MS);
    expect([asked, clock.nextTimerAt()]).toEqual([[], null]);
  });

  it('leaves no timer behind when it is cut, has nobody to be asked, or is forgotten', () => {
    const { applier, asked, clock, publish } = setUp();
    publish(true, stored([10], [1, 2]));
    applier.onConnection(1, false);
    expect(clock.nextTimerAt()).toBeNull();
    applier.onConnection(1, true);
    clock.advanceTo(clock.now() + 10);
    expect([asked.length, clock.nextTimerAt()]).toEqual([1, IDLE_MS]);
    applier.askAt(1, null);
    expect(clock.nextTimerAt()).toBeNull();
    publish(true, stored([11], [3, 4]));
    applier.forget(1);
    expect(clock.nextTimerAt()).toBeNull();
    const never = setUp({ idleMs: 0 });
    never.publish(true, stored([10], [1, 2]));
    expect(never.clock.nextTimerAt()).toBeNull();
  });
});

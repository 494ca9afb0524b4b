import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EVENT_KINDS, type EventKind, VirtualTime } from './virtual-time.ts';

const kinds = Object.keys(EVENT_KINDS) as EventKind[];

describe('VirtualTime', () => {
  it('runs what is planned in order of time, kind and planning, without what was cancelled', () => {
    const planned = fc.record({
      at: fc.integer({ min: 0, max: 6 }),
      kind: fc.constantFrom(...kinds),
      cancel: fc.boolean(),
      follow: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(planned, { maxLength: 60 }), (plan) => {
        const time = new VirtualTime();
        const ran: string[] = [];
        const expected: { at: number; kind: number; label: string }[] = [];
        for (const [index, { at, kind, cancel, follow }] of plan.entries()) {
          const stop = time.plan(at, kind, () => {
            ran.push(`${index}@${time.now()}`);
            // Something that is due at once runs before later moments.
            if (follow) time.plan(at, 'engine', () => ran.push(`after ${index}@${time.now()}`));
          });
          if (cancel) stop();
          else expected.push({ at, kind: EVENT_KINDS[kind], label: `${index}@${at}` });
        }
        expected.sort((a, b) => a.at - b.at || a.kind - b.kind);
        while (time.step());
        expect(ran.filter((label) => !label.startsWith('after'))).toEqual(expected.map(({ label }) => label));
        for (const [index, { at, cancel, follow }] of plan.entries()) {
          expect(ran.includes(`after ${index}@${at}`)).toBe(follow && !cancel);
        }
        expect(time.nextAt()).toBeNull();
      }),
    );
  });

  it('runs a recurring event as one that is planned anew each time, and only when it was planned last', () => {
    const steps = fc.array(
      fc.record({
        at: fc.integer({ min: 0, max: 6 }),
        act: fc.constantFrom('plan', 'cancel', 'step', 'other'),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(steps, (acts) => {
        const ran = [true, false].map((isRecurring) => {
          const time = new VirtualTime();
          const told: string[] = [];
          const tell = (): void => void told.push(`engine@${time.now()}`);
          const recurring = time.recurring('engine', tell);
          let stop = (): void => undefined;
          for (const [index, { act, at }] of acts.entries()) {
            if (act === 'other') time.plan(at, 'engine', () => told.push(`${index}@${time.now()}`));
            else if (act === 'step') time.step();
            else if (isRecurring) act === 'plan' ? recurring.plan(at) : recurring.cancel();
            else {
              stop();
              if (act === 'plan') stop = time.plan(at, 'engine', tell);
            }
          }
          while (time.step());
          return told;
        });
        expect(ran[0]).toEqual(ran[1]);
      }),
    );
  });

  it('never runs backwards: what is planned for the past runs now', () => {
    const time = new VirtualTime(100);
    const ran: number[] = [];
    time.plan(50, 'message', () => ran.push(time.now()));
    time.schedule(-5, () => ran.push(time.now()));
    time.runUntil(120);
    expect(ran).toEqual([100, 100]);
    expect(time.now()).toBe(120);
  });
});

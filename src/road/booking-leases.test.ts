// A booking is ended by nobody but its owner, and when it has none.
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../observe/index.ts';
import { defineHintPolicy } from '../plugin/index.ts';
import { prompt, REPORT, RecordingSink, type TestRoadOptions, testRoad } from './road.fixtures.ts';

const PERIOD_MS = 300_000;
const MINUTE_MS = 60_000;
const TWO_HOURS_MS = 7_200_000;

async function leased(options: TestRoadOptions = {}) {
  const metrics = createMetrics();
  const bench = await testRoad({ bookingExpiryMs: PERIOD_MS, metrics, ...options });
  const expired = async (): Promise<Record<string, string>> =>
    Object.fromEntries(
      [...(await metrics.text()).matchAll(/^pointsman_bookings_expired_total\{reason="(\w+)"\} (\d+)/gm)].map(
        ([, reason = '', count = '']) => [reason, count],
      ),
    );
  /** Lets time pass, with a look at each minute. */
  const pass = (ms: number, each: (minute: number) => void = () => undefined): void => {
    const end = bench.clock.now() + ms;
    for (let minute = 1; bench.clock.now() < end; minute += 1) {
      bench.clock.advanceTo(Math.min(end, bench.clock.now() + MINUTE_MS));
      each(minute);
      bench.road.expireBookings();
    }
  };
  bench.road.expireBookings();
  return { ...bench, expired, pass };
}

/** A door that knows whether its client is still there. */
class WatchingSink extends RecordingSink {
  waiting = true;
  asked = 0;
  waits(): boolean {
    this.asked += 1;
    return this.waiting;
  }
}

describe('the lease of a booking', () => {
  it('lasts for a stream of two hours that goes on every four minutes, whatever its door knows', async () => {
    const { arrive, transport, pass, road, expired, expectIdle } = await leased();
    const { sink } = arrive({ tokens: prompt(1, 64) });
    const engine = transport.last.sink;
    pass(TWO_HOURS_MS, (minute) => {
      if (minute % 4 === 0) engine.tokens(1);
      expect(road.activeBookings()).toBe(1);
    });
    engine.finished(REPORT);
    expect(sink.error).toBeNull();
    expect(await expired()).toEqual({});
    expectIdle();
  });

  it('lasts for two silent hours while the door says that somebody waits, and not a look longer', async () => {
    const { arrive, transport, pass, road, expired, expectIdle } = await leased();
    const sink = new WatchingSink();
    arrive({ tokens: prompt(1, 64) }, sink);
    pass(TWO_HOURS_MS);
    expect(road.activeBookings()).toBe(1);
    expect(sink.asked).toBeGreaterThan(20);
    sink.waiting = false;
    pass(PERIOD_MS);
    expect([sink.error?.code, transport.last.aborts]).toEqual(['PM_ROAD_EXPIRED', 1]);
    expect(await expired()).toEqual({ abandoned: '1' });
    expectIdle();
  });

  it.each(['never', 'after the first token', 'after the head'] as const)(
    'ends one to two periods after the last progress where the door does not know: %s',
    async (progress) => {
      const { arrive, transport, pass, road, decisions, expectIdle } = await leased();
      const { sink } = arrive({ tokens: prompt(1, 64) });
      const engine = transport.last.sink;
      if (progress !== 'never') engine.head(200, {}, []);
      if (progress === 'after the first token') engine.tokens(1);
      pass(PERIOD_MS - MINUTE_MS);
      expect(road.activeBookings()).toBe(1);
      pass(PERIOD_MS + MINUTE_MS);
      expect(road.activeBookings()).toBe(0);
      const told = `failed PM_ROAD_EXPIRED ${progress === 'never' ? 'before' : 'after'} head`;
      expect(sink.heard.at(-1)).toBe(told);
      expect(sink.error?.message).toBe('the engine sent nothing for long, and nobody waits for the answer');
      expect(decisions?.get(sink.decisionId)?.booking?.released).toBe('expired');
      // What the engine still sends reaches nobody and frees nothing.
      engine.tokens(1);
      engine.finished(REPORT);
      expect(sink.heard.at(-1)).toBe(told);
      expectIdle();
    },
  );

  it('ends for an owner that is gone, and only the attempt that it belongs to', async () => {
    const { arrive, transport, pass, scheduler, road, expired, expectIdle } = await leased();
    const lost = scheduler.loads.book(0, null, 5, 80);
    const renewed = scheduler.loads.book(0, null, 2, 0);
    arrive({ requestId: 'same', tokens: prompt(1, 64) }, new WatchingSink());
    pass(2 * PERIOD_MS, () => scheduler.renew(renewed));
    expect(scheduler.release(lost)).toBe(false);
    expect(road.activeBookings()).toBe(2);
    expect(await expired()).toEqual({ unowned: '1' });
    expect(scheduler.release(renewed)).toBe(true);
    transport.last.sink.finished(REPORT);
    expectIdle();
  });

  it('is looked at when a request arrives, without a timer', async () => {
    const { arrive, transport, clock, road, expectIdle } = await leased();
    const { sink } = arrive({ tokens: prompt(1, 64) });
    for (const at of [PERIOD_MS, 2 * PERIOD_MS]) {
      clock.advanceTo(1000 + at);
      arrive({ tokens: prompt(2, 64) });
      transport.last.sink.finished(REPORT);
    }
    expect(sink.error?.code).toBe('PM_ROAD_EXPIRED');
    expect(road.activeBookings()).toBe(0);
    expectIdle();
  });

  it('ends when the door fails to say whether anybody waits', async () => {
    const { arrive, pass, expectIdle } = await leased();
    const sink = Object.assign(new RecordingSink(), {
      waits(): boolean {
        throw new Error('the door is broken');
      },
    });
    arrive({ tokens: prompt(1, 64) }, sink);
    pass(2 * PERIOD_MS);
    expect(sink.error?.code).toBe('PM_ROAD_EXPIRED');
    expectIdle();
  });

  it('goes on for ever on a road that is told no period', async () => {
    const { arrive, clock, road } = await testRoad();
    const { ticket } = arrive({ tokens: prompt(1, 64) });
    clock.advanceTo(TWO_HOURS_MS);
    expect(road.expireBookings()).toBe(Number.POSITIVE_INFINITY);
    expect(road.activeBookings()).toBe(1);
    ticket.abort();
  });
});

const idle = defineHintPolicy({ type: 'idle', create: () => ({ buildHints: () => [] }) });

describe('a walk that breaks after the booking', () => {
  it.each(['while the booking is handed over', 'in the hint stage'] as const)(
    'leaves none behind: %s',
    async (where) => {
      let calls = 0;
      const clockOf = where === 'in the hint stage' ? 2 : 1;
      const bench = await testRoad({
        wallMicros: () => {
          calls += 1;
          if (calls === clockOf) throw new Error('no clock');
          return 0;
        },
        hints: [{ definition: idle }],
      });
      const { sink } = bench.arrive({ tokens: prompt(1, 64) });
      expect([calls, sink.error?.code]).toEqual([clockOf, 'PM_INTERNAL']);
      bench.expectIdle();
    },
  );
});

import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { SequencedStream } from './sequenced-stream.ts';
import type { BatchOutcome, StreamIncident } from './stream-port.ts';

interface Message {
  readonly at: number | null;
  readonly text: string;
  readonly outcome?: BatchOutcome;
}

const LIMITS = { pendingBatches: 4, pendingBytes: 100, attempts: 2, pauseMs: 10, rebuildPauseMs: 1000 };

function setUp(endpoint = true) {
  const clock = new ManualClock(0);
  const log: string[] = [];
  const asked: { ticket: number; from: number }[] = [];
  const incidents = new Map<StreamIncident, number>();
  let missed = 0;
  let canAsk = endpoint;
  const stream = new SequencedStream<Message>(
    {
      apply(sequence, { text, outcome = 'applied' }): BatchOutcome {
        log.push(outcome === 'applied' ? `${sequence}${text}` : `${sequence}${text} ${outcome}`);
        return outcome;
      },
      forget: (reason) => log.push(`forget ${reason}`),
      timestamp: ({ at }) => at,
      bytes: () => 10,
      keep: (message) => message,
      canAsk: () => canAsk,
      ask: (ticket, from) => asked.push({ ticket, from }),
      missed: (batches) => {
        missed += batches;
      },
      happened: (incident) => incidents.set(incident, (incidents.get(incident) ?? 0) + 1),
    },
    clock,
    LIMITS,
  );
  /** Batches of an engine process are named by a letter; `a` lived before `b`. */
  const message = (sequence: number, process = '', more: Partial<Message> = {}): Message => ({
    at: (process === '' ? 0 : process.charCodeAt(0) * 1000) + sequence + 1,
    text: process,
    ...more,
  });
  const live = (sequence: number, process?: string, more?: Partial<Message>): void =>
    stream.arrived(sequence, message(sequence, process, more));
  /** Answers the newest request with these numbers; without `end` the answer goes on. */
  const answer = (sequences: readonly number[], process?: string, end = true): void => {
    const { ticket } = asked.at(-1) ?? { ticket: -1 };
    for (const sequence of sequences) stream.replayed(ticket, sequence, message(sequence, process));
    if (end) stream.replayEnded(ticket);
  };
  const fail = (): void => stream.replayFailed(asked.at(-1)?.ticket ?? -1, 'timed_out');
  return {
    stream,
    clock,
    incidents,
    live,
    answer,
    fail,
    message,
    asked,
    askedFrom: () => asked.map(({ from }) => from),
    applied: () => log.splice(0).join(', '),
    missed: () => missed,
    setEndpoint: (there: boolean) => {
      canAsk = there;
    },
  };
}

describe('SequencedStream', () => {
  it('asks for a gap from the last known batch on, and applies live batches only after what they follow', () => {
    const { live, answer, applied, askedFrom, stream } = setUp();
    live(0);
    live(1);
    live(4);
    live(5);
    expect([applied(), askedFrom(), stream.isRecovering, stream.pending.count]).toEqual([
      '0, 1',
      [1],
      true,
      2,
    ]);
    answer([1, 2, 3, 4], undefined, false);
    expect(applied()).toBe('2, 3, 4, 5');
    live(6);
    answer([5]);
    expect([applied(), askedFrom()]).toEqual(['6', [1]]);
    expect(stream).toMatchObject({ stale: false, partial: false, isRecovering: false, watermark: 6 });
  });

  it('asks for the whole history when the first batch heard is not number 0, and when a connection stands', () => {
    const heard = setUp();
    heard.live(3);
    heard.answer([0, 1, 2, 3]);
    expect([heard.askedFrom(), heard.applied()]).toEqual([[0], '0, 1, 2, 3']);
    const quiet = setUp();
    quiet.stream.connected();
    quiet.answer([0, 1]);
    expect([quiet.askedFrom(), quiet.applied(), quiet.stream.partial]).toEqual([[0], '0, 1', false]);
    quiet.stream.connected();
    quiet.answer([1]);
    expect([quiet.askedFrom(), quiet.applied(), quiet.stream.stale]).toEqual([[0, 1], '', false]);
  });

  it('ignores what it heard before, and takes what was overtaken in its turn', () => {
    const { live, applied, incidents, stream } = setUp();
    for (const sequence of [0, 1, 1, 0, 3, 2, 3, 4]) live(sequence);
    expect(applied()).toBe('0, 1, 2, 3, 4');
    expect(incidents.get('duplicate')).toBe(3);
    expect(incidents.get('restart')).toBeUndefined();
    expect(stream.stale).toBe(false);
  });

  it('rebuilds from what came when the history does not reach back, and says that it is partial', () => {
    const { live, answer, applied, stream, incidents } = setUp();
    live(0);
    live(9);
    answer([5, 6, 7, 8, 9]);
    expect(applied()).toBe('0, forget too_old, 5, 6, 7, 8, 9');
    expect(stream).toMatchObject({ partial: true, stale: false, watermark: 9 });
    expect(incidents.get('too_old')).toBe(1);
  });

  it('is partial, not stale, when it comes to an engine whose history has lost its beginning', () => {
    const { live, answer, applied, stream } = setUp();
    live(9);
    answer([7, 8, 9]);
    expect([applied(), stream.partial, stream.stale]).toEqual(['7, 8, 9', true, false]);
    live(10, '', { outcome: 'cleared' });
    expect(stream.partial).toBe(false);
  });

  it('asks again for a hole in an answer, with growing pauses, and then gives it up as lost by the engine', () => {
    const { live, answer, applied, askedFrom, clock, stream, missed } = setUp();
    live(0);
    live(5);
    answer([0, 1, 3, 4, 5]);
    expect([applied(), askedFrom()]).toEqual(['0, 1', [0]]);
    clock.advanceTo(9);
    expect(askedFrom()).toEqual([0]);
    clock.advanceTo(10);
    answer([1, 3, 4, 5]);
    expect(askedFrom()).toEqual([0, 1]);
    clock.advanceTo(30);
    answer([1, 3, 4, 5]);
    expect([applied(), askedFrom()]).toEqual(['3, 4, 5', [0, 1, 1]]);
    expect([stream.stale, stream.watermark, missed()]).toEqual([true, 5, 1]);
  });

  it('keeps what it has when no answer comes, applies what waits, and rebuilds later', () => {
    const { live, fail, answer, applied, askedFrom, clock, stream, missed } = setUp();
    live(0);
    live(3);
    fail();
    expect([applied(), stream.stale, missed()]).toEqual(['0, 3', true, 2]);
    // An engine that did not answer is not asked for every gap.
    live(6);
    expect([applied(), askedFrom(), missed()]).toEqual(['6', [0], 4]);
    clock.advanceTo(1000);
    expect(askedFrom()).toEqual([0, 0]);
    answer([0, 1, 2, 3, 4, 5, 6]);
    expect([applied(), stream.stale]).toEqual(['forget rebuild, 0, 1, 2, 3, 4, 5, 6', false]);
  });

  it('goes on over gaps, stale, where nobody can be asked', () => {
    const { live, applied, askedFrom, stream, missed } = setUp(false);
    live(2);
    live(3);
    live(7);
    expect([applied(), askedFrom(), stream.stale, missed()]).toEqual(['2, 3, 7', [], true, 5]);
    stream.requestReplay();
    stream.connected();
    expect(askedFrom()).toEqual([]);
    live(8, '', { outcome: 'cleared' });
    expect(stream.stale).toBe(false);
  });

  it('takes number 0 of another process, or any number with a newer time, as a restart', () => {
    for (const first of [0, 2]) {
      const { live, applied, stream, incidents, answer } = setUp();
      for (let sequence = 0; sequence < 5; sequence += 1) live(sequence, 'a');
      live(first, 'b');
      if (first > 0) answer([0, 1, 2], 'b');
      expect(applied()).toBe(`0a, 1a, 2a, 3a, 4a, forget restart, ${first === 0 ? '0b' : '0b, 1b, 2b'}`);
      expect([incidents.get('restart'), stream.stale, stream.partial]).toEqual([1, false, false]);
    }
  });

  it('takes a far step back as a restart, whatever the clocks say', () => {
    const { live, applied } = setUp(false);
    live(0, 'b');
    live(2000, 'b');
    live(5, 'a');
    live(6, 'a');
    expect(applied()).toBe('0b, 2000b, forget restart, 5a, 6a');
  });

  it('knows a restart from a repeat without time stamps by number 0 only', () => {
    const { live, applied } = setUp(false);
    for (const sequence of [0, 1, 2, 1, 2, 3, 0, 1]) live(sequence, '', { at: null });
    expect(applied()).toBe('0, 1, 2, 3, forget restart, 0, 1');
  });

  it('leaves out what a process that ended still delivers', () => {
    const { live, applied, stream } = setUp();
    live(0, 'a');
    live(1, 'a');
    live(0, 'b');
    live(2, 'a');
    live(1, 'b');
    expect(applied()).toBe('0a, 1a, forget restart, 0b, 1b');
    expect(stream.isRecovering).toBe(false);
  });

  it('believes an engine whose clock was set back after a while', () => {
    const { live, applied, stream } = setUp(false);
    live(0, 'b');
    stream.restarted();
    applied();
    for (let sequence = 0; sequence < 70; sequence += 1) live(sequence, 'a');
    expect(applied()).toBe('64a, 65a, 66a, 67a, 68a, 69a');
    expect(stream.stale).toBe(true);
  });

  it('ignores answers of an older epoch', () => {
    const { live, stream, asked, message, applied } = setUp();
    live(0, 'a');
    live(5, 'a');
    const old = asked.at(-1)?.ticket ?? -1;
    live(0, 'b');
    stream.replayed(old, 1, message(1, 'a'));
    stream.replayEnded(old);
    stream.replayFailed(old, 'timed_out');
    live(1, 'b');
    expect(applied()).toBe('0a, forget restart, 0b, 1b');
    expect(stream).toMatchObject({ stale: false, watermark: 1, pending: { count: 0 } });
  });

  it('sees in an answer that another process gave it', () => {
    const { live, answer, applied, askedFrom } = setUp();
    live(0, 'a');
    live(1, 'a');
    live(4, 'b');
    // Numbers alone look like a gap; the last known batch is another one now.
    answer([1, 2, 3, 4], 'b');
    answer([0, 1, 2, 3, 4], 'b');
    expect(applied()).toBe('0a, 1a, forget restart, 0b, 1b, 2b, 3b, 4b');
    expect(askedFrom()).toEqual([1, 0]);
  });

  it('asks for everything when an engine does not even hold the last known batch', () => {
    const fresh = setUp();
    fresh.live(0, 'a');
    fresh.live(1, 'a');
    fresh.stream.connected();
    fresh.answer([]);
    expect([fresh.applied(), fresh.askedFrom()]).toEqual(['0a, 1a, forget too_old', [1, 0]]);
    fresh.answer([]);
    fresh.live(0, 'b');
    expect(fresh.applied()).toBe('0b');
    expect(fresh.stream).toMatchObject({ partial: false, stale: false });
    // An engine that keeps no history at all.
    const bare = setUp();
    bare.live(0, 'a');
    bare.live(5, 'a');
    bare.answer([]);
    bare.answer([]);
    bare.clock.advanceTo(20);
    bare.answer([]);
    bare.live(6, 'a');
    expect([bare.applied(), bare.askedFrom()]).toEqual(['0a, forget too_old, 5a, 6a', [0, 0, 0]]);
    expect(bare.stream).toMatchObject({ partial: true, stale: false, watermark: 6 });
  });

  it('asks once more for a batch that cannot be read, then leaves it out', () => {
    const { live, answer, stream, asked, message, applied, askedFrom } = setUp();
    live(0);
    live(1, '', { outcome: 'undecodable' });
    live(2);
    expect([applied(), askedFrom()]).toEqual(['0, 1 undecodable', [0]]);
    answer([0, 1, 2]);
    expect([applied(), stream.stale]).toEqual(['1, 2', false]);
    live(3, '', { outcome: 'undecodable' });
    const { ticket } = asked.at(-1) ?? { ticket: -1 };
    stream.replayed(ticket, 2, message(2));
    stream.replayed(ticket, 3, message(3, '', { outcome: 'undecodable' }));
    stream.replayEnded(ticket);
    expect([applied(), stream.stale, stream.watermark]).toEqual(['3 undecodable, 3 undecodable', true, 3]);
  });

  it('holds so many batches, and asks again for those that found no room', () => {
    const { live, answer, applied, askedFrom, clock, stream, incidents } = setUp();
    live(0);
    for (let sequence = 2; sequence <= 9; sequence += 1) live(sequence);
    expect([stream.pending.count, stream.pending.bytes, incidents.get('overflow')]).toEqual([4, 40, 4]);
    answer([0, 1]);
    expect(applied()).toBe('0, 1, 2, 3, 4, 5');
    clock.advanceTo(10);
    answer([5, 6, 7, 8, 9]);
    expect([applied(), askedFrom(), stream.stale]).toEqual(['6, 7, 8, 9', [0, 5], false]);
  });

  it('rebuilds on demand, not while it is asking, not too often, and not where the history is known to be short', () => {
    const { live, answer, stream, applied, askedFrom, clock } = setUp();
    live(0);
    stream.requestReplay();
    stream.requestReplay();
    answer([0]);
    expect([applied(), askedFrom()]).toEqual(['0, forget rebuild, 0', [0]]);
    stream.requestReplay();
    expect(askedFrom()).toEqual([0]);
    clock.advanceTo(2000);
    expect(askedFrom()).toEqual([0, 0]);
    live(1);
    answer([0, 1]);
    expect(applied()).toBe('1, forget rebuild, 0, 1');
    live(9);
    answer([8, 9]);
    stream.requestReplay();
    clock.advanceTo(1_000_000);
    expect([askedFrom(), stream.partial]).toEqual([[0, 0, 1], true]);
  });

  it('rebuilds a forgotten owner when its engine is well again', () => {
    const { live, answer, stream, applied } = setUp();
    live(0);
    stream.recover();
    stream.forgotten();
    expect(stream.stale).toBe(true);
    stream.recover();
    answer([0]);
    expect([applied(), stream.stale]).toEqual(['0, forget rebuild, 0', false]);
  });

  it('asks anew over a new connection, and leaves no timer when closed', () => {
    const { live, fail, stream, askedFrom, clock, setEndpoint } = setUp();
    live(3);
    stream.connected();
    expect(askedFrom()).toEqual([0, 0]);
    fail();
    stream.close();
    setEndpoint(false);
    expect(clock.nextTimerAt()).toBe(null);
  });
});

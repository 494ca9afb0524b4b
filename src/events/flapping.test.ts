// Workers and connections that come and go every few milliseconds: how often their engines are asked, and for how much.
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { LossyEngine, type ModelBatch } from './lossy-engine.fixtures.ts';
import { SequencedStream } from './sequenced-stream.ts';

const LIMITS = { pendingBatches: 100, pendingBytes: 1000, attempts: 3, pauseMs: 10, rebuildPauseMs: 1000 };

/** A stream whose engine answers everything it is asked after `answerMs`; what it was asked for. */
function setUp(answerMs: number) {
  const clock = new ManualClock(0);
  const engine = new LossyEngine(100_000);
  const held = new Set<number>();
  const asked: number[] = [];
  const stream: SequencedStream<ModelBatch> = new SequencedStream(
    {
      apply(_sequence, batch) {
        for (const id of batch.stores) held.add(id);
        for (const id of batch.removes) held.delete(id);
        return 'applied';
      },
      forget: () => held.clear(),
      timestamp: ({ at }) => at,
      bytes: () => 1,
      keep: (batch) => batch,
      canAsk: () => true,
      ask(ticket, from) {
        asked.push(from);
        clock.schedule(answerMs, () => {
          for (const batch of engine.replay(from)) stream.replayed(ticket, batch.sequence, batch);
          stream.replayEnded(ticket);
        });
      },
      missed() {},
      happened() {},
    },
    clock,
    LIMITS,
  );
  const publish = (id: number): void => {
    const batch = engine.publish(id);
    stream.arrived(batch.sequence, batch);
  };
  const pass = (ms: number): void => clock.advanceTo(clock.now() + ms);
  /** Whether in the end all is known. */
  const settle = (): void => {
    for (let times = 0; times < 3; times += 1) {
      publish(0);
      pass(100_000);
    }
    expect([...held].sort()).toEqual([...engine.held].sort());
    expect(stream).toMatchObject({ stale: false, isRecovering: false });
  };
  return { stream, held, asked, publish, pass, settle };
}

describe('a stream', () => {
  it.each([0, 5, 50])('whose worker flaps asks as seldom as rebuilds may be (answers after %i ms)', (ms) => {
    const { stream, held, asked, publish, pass, settle } = setUp(ms);
    for (let round = 0; round < 20_000; round += 1) {
      publish(round % 17);
      held.clear();
      stream.forgotten();
      stream.recover();
      pass(3);
    }
    // A minute, in pauses of 1, 2, 4, 8, 16, 16 … seconds.
    expect(asked.length).toBeLessThanOrEqual(10);
    settle();
  });

  it.each([0, 5, 50])(
    'whose connection flaps asks for its whole history as seldom (answers after %i ms)',
    (ms) => {
      const { stream, asked, publish, pass, settle } = setUp(ms);
      for (let round = 0; round < 4000; round += 1) {
        stream.connected();
        pass(3);
        publish(round % 17);
        pass(9);
        stream.disconnected();
        pass(3);
      }
      expect(asked.length).toBeLessThanOrEqual(4001);
      expect(asked.filter((from) => from === 0).length).toBeLessThanOrEqual(12);
      stream.connected();
      settle();
    },
  );
});

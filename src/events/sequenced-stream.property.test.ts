// The stream's state machine against a plain model of engines: whatever is lost, doubled, late, overtaken or restarted, what was
// handed on is what the engine holds, or a mark says that it is not.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { LossyEngine, type ModelBatch } from './lossy-engine.fixtures.ts';
import { SequencedStream } from './sequenced-stream.ts';
import type { ResumePoint } from './stream-port.ts';

const LIMITS = { pendingBatches: 6, pendingBytes: 1000, attempts: 9, pauseMs: 10, rebuildPauseMs: 500 };

type Step =
  | { readonly kind: 'publish'; readonly id: number; readonly fate: 'heard' | 'lost' | 'twice' | 'late' }
  | { readonly kind: 'restart' | 'connect' | 'orphan' | 'noticed' | 'copy' | 'resume' | 'resume-unplaced' }
  | { readonly kind: 'time'; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({
      kind: fc.constant('publish' as const),
      id: fc.nat(12),
      fate: fc.constantFrom('heard', 'heard', 'heard', 'heard', 'lost', 'lost', 'twice', 'late'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('restart', 'connect', 'orphan', 'noticed') }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('copy', 'copy', 'resume', 'resume', 'resume-unplaced') }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('time' as const), ms: fc.nat(30) }) },
);

interface World {
  /** Batches the engine can repeat. */
  readonly keeps: number;
  /** How an answer travels: complete, with a message lost in it, or never. One after the other, then complete. */
  readonly answers: readonly ('whole' | 'holed' | 'none')[];
  readonly endpoint: boolean;
  /** Whether copies of what is held tell the time stamp of their watermark. */
  readonly timed?: boolean;
}

/** What a router that died had written down. */
interface Copy {
  readonly held: ReadonlySet<number>;
  readonly last: ModelBatch;
  readonly point: ResumePoint;
}

function run(world: World, steps: readonly Step[]) {
  const clock = new ManualClock(0);
  const engine = new LossyEngine(world.keeps);
  const held = new Set<number>();
  let last: ModelBatch | null = null;
  const fates = [...world.answers];
  let copy: Copy | null = null;
  const begin = (): SequencedStream<ModelBatch> => {
    const stream: SequencedStream<ModelBatch> = new SequencedStream(
      {
        apply(sequence, batch) {
          // Strictly in order, and never of a process that is older than what is held.
          expect(sequence).toBe(batch.sequence);
          if (last !== null) {
            expect(batch.process).toBeGreaterThanOrEqual(last.process);
            if (batch.process === last.process) expect(sequence).toBeGreaterThan(last.sequence);
          }
          last = batch;
          for (const id of batch.stores) held.add(id);
          for (const id of batch.removes) held.delete(id);
          return 'applied';
        },
        forget() {
          held.clear();
          last = null;
        },
        timestamp: ({ at }) => at,
        bytes: () => 1,
        keep: (batch) => batch,
        canAsk: () => world.endpoint,
        ask(ticket, from) {
          const fate = fates.shift() ?? 'whole';
          if (fate === 'none') {
            clock.schedule(50, () => stream.replayFailed(ticket, 'timed_out'));
            return;
          }
          clock.schedule(5, () => {
            const answer = engine.replay(from);
            const lost = fate === 'holed' ? Math.floor(answer.length / 2) : -1;
            answer.forEach((batch, index) => {
              if (index === lost) return;
              clock.schedule(1 + index / 10, () => stream.replayed(ticket, batch.sequence, batch));
            });
            clock.schedule(2 + answer.length / 10, () => stream.replayEnded(ticket));
          });
        },
        missed() {},
        happened() {},
      },
      clock,
      LIMITS,
    );
    return stream;
  };
  let stream = begin();
  // Another router goes on with what this one had written down.
  const resume = ({ held: before, last: heard, point }: Copy): void => {
    stream.close();
    stream = begin();
    late = [];
    held.clear();
    for (const id of before) held.add(id);
    last = heard;
    stream.resume(point);
  };
  const take = (): Copy | null => {
    const { watermark: sequence, watermarkTime: time, stale, partial } = stream;
    if (last === null || sequence !== last.sequence) return null;
    return {
      held: new Set(held),
      last,
      point: { sequence, time: world.timed === false ? null : time, stale, partial },
    };
  };
  const hear = (batch: ModelBatch): void => stream.arrived(batch.sequence, batch);
  let late: ModelBatch[] = [];
  const publish = (id: number, fate: 'heard' | 'lost' | 'twice' | 'late'): void => {
    const batch = engine.publish(id);
    if (fate === 'late') {
      late.push(batch);
      return;
    }
    if (fate === 'lost') return;
    hear(batch);
    if (fate === 'twice') hear(batch);
    for (const overtaken of late.splice(0)) hear(overtaken);
  };
  // Others tell of a restart; the owner is forgotten by whoever heard of it.
  const notice = (): void => {
    held.clear();
    last = null;
    stream.restarted();
  };
  for (const each of steps) {
    if (each.kind === 'publish') publish(each.id, each.fate);
    else if (each.kind === 'time') clock.advanceTo(clock.now() + each.ms);
    else if (each.kind === 'connect') stream.connected();
    else if (each.kind === 'orphan') stream.requestReplay();
    else if (each.kind === 'copy') copy = take() ?? copy;
    else if (each.kind === 'resume') {
      // Without time stamps nobody could tell that the engine began anew and has come as far since.
      const isTold = copy?.point.time !== null || copy.last.process === engine.process;
      if (copy !== null && isTold) resume(copy);
    } else if (each.kind === 'resume-unplaced') {
      // As from a peer that does not say how far its blocks go.
      if (copy !== null) resume({ ...copy, point: { ...copy.point, sequence: null, time: null } });
    } else if (each.kind === 'restart') {
      // What is under way on a connection ends with its process.
      late = [];
      stream.disconnected();
      engine.restart();
    } else notice();
  }
  late = [];
  // A connection to another process is another connection. Where nobody can be asked, others must tell of it.
  if (world.endpoint) stream.connected();
  else notice();
  // The stream goes on: a batch that is heard shows what was lost before it.
  const settle = (): void => {
    publish(0, 'heard');
    while (clock.nextTimerAt() !== null) clock.advanceTo(clock.nextTimerAt() ?? 0);
  };
  settle();
  settle();
  return { engine, held, stream };
}

const sorted = (ids: ReadonlySet<number>): number[] => [...ids].sort((a, b) => a - b);
const steps = fc.array(step, { maxLength: 120 });

describe('SequencedStream over streams that lose, double, delay and restart', () => {
  it('ends with what the engine holds when everything can be asked again', () => {
    fc.assert(
      fc.property(
        steps,
        fc.array(fc.constantFrom('whole', 'holed', 'none'), { maxLength: 8 }),
        fc.boolean(),
        (all, answers, timed) => {
          const { engine, held, stream } = run({ keeps: 10_000, answers, endpoint: true, timed }, all);
          expect(sorted(held)).toEqual(sorted(engine.held));
          expect(stream).toMatchObject({
            stale: false,
            partial: false,
            isRecovering: false,
            pending: { count: 0 },
          });
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('knows a part of what an engine with a short history holds, and says so', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 20 }), (all, keeps) => {
        const { engine, held, stream } = run({ keeps, answers: [], endpoint: true }, all);
        for (const id of held) expect(engine.held.has(id)).toBe(true);
        if (!stream.partial) expect(sorted(held)).toEqual(sorted(engine.held));
        expect(stream.stale).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  it('is right without replay as long as it is not stale', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { engine, held, stream } = run({ keeps: 1, answers: [], endpoint: false }, all);
        if (!stream.stale) expect(sorted(held)).toEqual(sorted(engine.held));
        expect(stream).toMatchObject({ isRecovering: false, pending: { count: 0 } });
      }),
      { numRuns: 1000 },
    );
  });
});

// The state machine of one (worker, rank)'s event stream. Engines publish without acknowledgement, so messages get lost; each has
// a number, and an engine with a replay endpoint repeats what it still holds. This machine asks for what is missing, notices new
// processes, and says what it could not make good. It knows no socket and no encoding, and its only timers are those of the
// injected clock. Rules and reasons: docs/decisions/007-event-streams.md.
import type { Clock } from '../plugin/index.ts';
import type { AskedReplay } from './asked-replay.ts';
import { OrderedBatches, type StreamMarks, type StreamPosition } from './ordered-batches.ts';
import { RebuildPace } from './rebuild-pace.ts';
import { StreamEpoch } from './stream-epoch.ts';
import { type ReplayFailure, STREAM_LIMITS, type StreamLimits, type StreamPort } from './stream-port.ts';

/** One stream. */
export class SequencedStream<M> {
  readonly #port: StreamPort<M>;
  readonly #clock: Clock;
  readonly #limits: StreamLimits;
  readonly #epoch = new StreamEpoch();
  readonly #batches: OrderedBatches<M>;
  readonly #pace: RebuildPace;
  #asked: AskedReplay | null = null;
  #ticket = 0;
  #attempts = 0;
  /** Something may have been missed without a trace in the numbers heard. */
  #doubt = false;
  #rebuild = false;
  /** Whatever the next batch's number, those before it are known from elsewhere. */
  #takesAnyNext = false;
  /** Where the stream stood when its connection was lost. */
  #cutAt: StreamPosition | null = null;
  #cancelPause: (() => void) | null = null;

  constructor(port: StreamPort<M>, clock: Clock, limits: StreamLimits = STREAM_LIMITS) {
    this.#port = port;
    this.#clock = clock;
    this.#limits = limits;
    this.#batches = new OrderedBatches(port, limits);
    this.#pace = new RebuildPace(clock, limits.rebuildPauseMs);
  }

  /** Number of the last batch that was applied or given up; -1 = none. */
  get watermark(): number {
    return this.#batches.watermark;
  }

  /** Batches are lost for good since the engine's start, its last clear or the last rebuild: the index may err both ways. */
  get stale(): boolean {
    return this.#batches.stale;
  }

  /** The engine's history did not reach back: what is known is right, but the engine may hold more. */
  get partial(): boolean {
    return this.#batches.partial;
  }

  /** A replay is asked for or will be, so what is known is behind. */
  get isRecovering(): boolean {
    return this.#asked !== null || this.#cancelPause !== null;
  }

  /** Batches that wait for those before them, and their bytes. */
  get pendingBatches(): number {
    return this.#batches.pending.count;
  }

  get pendingBytes(): number {
    return this.#batches.pending.bytes;
  }

  /** A message of the live stream. */
  arrived(sequence: number, message: M): void {
    const timestamp = this.#port.timestamp(message);
    if (this.#takesAnyNext) this.#goOnBehind(sequence - 1);
    const verdict = this.#epoch.judge(sequence, timestamp);
    if (verdict === 'foreign') {
      this.#port.happened('duplicate');
      return;
    }
    if (verdict === 'restart') this.#startAnew(timestamp);
    if (sequence > this.#epoch.highest + 1) this.#port.happened('gap');
    this.#epoch.note(sequence, timestamp);
    const isNew = this.#batches.offer(sequence, message, !this.#mayAsk);
    if (!isNew) this.#port.happened('duplicate');
    this.#seek();
  }

  /** A message of an answer. */
  replayed(ticket: number, sequence: number, message: M): void {
    const asked = this.#asked;
    if (asked?.ticket !== ticket) return;
    const timestamp = this.#port.timestamp(message);
    const { anchor } = asked;
    const isOther = sequence === anchor.sequence && anchor.time !== null && timestamp !== anchor.time;
    if (isOther || this.#epoch.contradicts(sequence, timestamp)) {
      // Another process answers than the one that was heard.
      this.#startAnew(timestamp);
      this.#doubt = true;
      this.#seek();
      return;
    }
    asked.answers += 1;
    if (asked.answers === 1) this.#beginAt(sequence, asked);
    this.#epoch.note(sequence, timestamp);
    this.#batches.offer(sequence, message, true);
  }

  /** An answer is complete. */
  replayEnded(ticket: number): void {
    const asked = this.#asked;
    if (asked?.ticket !== ticket) return;
    this.#asked = null;
    this.#port.happened('answered');
    if (asked.answers === 0) this.#nothingHeld(asked);
    else if (!this.#hasGap) this.#attempts = 0;
    // What is missing still is lost by the engine itself.
    else if (!this.#tryAgain(this.watermark > asked.before)) this.#jump();
    this.#seek();
  }

  /** An answer stays away, or broke off. What is known is kept. */
  replayFailed(ticket: number, failure: ReplayFailure): void {
    if (this.#asked?.ticket !== ticket) return;
    this.#dropAsked();
    this.#port.happened(failure);
    this.#batches.stale = true;
    this.#pace.failed();
    this.#giveUp();
    this.#rebuild = false;
    this.#rebuildLater();
  }

  /** The connection is lost; perhaps with its process, whose successor may go on with any number. */
  disconnected(): void {
    this.#cutAt ??= this.#batches.position;
    // What waits would be taken for the successor's.
    this.#batches.pending.clear();
  }

  /** The connection stands anew: what was sent before is not heard any more. */
  connected(): void {
    if (!this.#port.canAsk()) return;
    // What was asked over a connection that is lost may never be answered.
    this.#dropAsked();
    this.#pace.reachable();
    this.#doubt = true;
    this.#seek();
  }

  /** The engine started anew, as others noticed; its stream is expected to begin with batch 0. */
  restarted(): void {
    this.#reset();
    this.connected();
  }

  /**
   * Goes on behind a batch whose blocks are known from elsewhere: what the engine published since is asked for. Null = it is not known
   * behind which: any next batch will do, and what was published in between may be missing. The marks are those of the blocks.
   */
  resume(watermark: number | null, marks: StreamMarks): void {
    this.#reset();
    this.#takesAnyNext = watermark === null;
    if (watermark !== null) this.#goOnBehind(watermark);
    this.#batches.stale = marks.stale || watermark === null;
    this.#batches.partial = marks.partial;
    this.connected();
  }

  /** The owner was forgotten although its engine may live on, so that it may hold what is not known. */
  forgotten(): void {
    this.#batches.stale = true;
  }

  /** The engine of a forgotten owner is well: wants everything it holds. */
  recover(): void {
    if (this.stale) this.#rebuildLater();
  }

  /**
   * Wants everything the engine still holds, for whoever sees that something is missing. Seldom more than once in
   * `rebuildPauseMs`; where the history is known not to reach back, or the engine cannot be asked, nothing comes of it.
   */
  requestReplay(): void {
    if (!this.partial && this.#asked === null) this.#rebuildLater();
  }

  /** Ends its timers; answers are ignored from then on. */
  close(): void {
    this.#stopAsking();
    this.#batches.pending.clear();
  }

  get #hasGap(): boolean {
    return this.#epoch.highest > this.watermark;
  }

  get #mayAsk(): boolean {
    return this.#port.canAsk() && !this.#pace.isQuiet;
  }

  /** Waits no longer for an answer; what it was to tell of a lost connection stays open. */
  #dropAsked(): void {
    const asked = this.#asked;
    this.#asked = null;
    if (asked === null || asked.answers > 0) return;
    this.#rebuild ||= asked.rebuild;
    if (asked.isCut) this.#cutAt ??= asked.anchor;
  }

  #rebuildLater(): void {
    if (!this.#port.canAsk() || this.#rebuild) return;
    this.#pace.later(() => {
      this.#rebuild = true;
      this.#seek();
    });
  }

  /** Asks for what is missing, if it may now. */
  #seek(): void {
    if (!this.#hasGap && !this.#doubt && !this.#rebuild) return;
    if (this.#asked !== null || this.#cancelPause !== null) return;
    if (!this.#mayAsk) {
      this.#doubt = false;
      this.#giveUp();
      return;
    }
    // The last known batch is asked for too: it tells whether the history reaches back, and whether it is that of this process.
    const anchor = this.#batches.position;
    const isCut = this.#cutAt !== null;
    // What was heard between the cut and now may be of two processes.
    const rebuild = this.#rebuild || (isCut && this.#cutAt?.sequence !== anchor.sequence);
    if (rebuild) this.#pace.began();
    this.#rebuild = false;
    this.#doubt = false;
    this.#cutAt = null;
    this.#ticket += 1;
    this.#asked = { ticket: this.#ticket, anchor, isCut, rebuild, before: this.watermark, answers: 0 };
    this.#port.happened('asked');
    this.#port.ask(this.#ticket, rebuild ? 0 : Math.max(0, anchor.sequence));
  }

  /** Fits the stream to the first batch of an answer. */
  #beginAt(sequence: number, asked: AskedReplay): void {
    const { anchor, isCut, rebuild } = asked;
    if (!rebuild && sequence <= (isCut ? Math.max(0, anchor.sequence) : this.watermark + 1)) {
      if (this.watermark < 0) this.#batches.partial = false;
      return;
    }
    if (rebuild) {
      this.#port.forget('rebuild');
      this.#batches.partial = sequence > 0;
    } else {
      this.#batches.partial = true;
      this.#port.happened('too_old');
      if (this.watermark >= 0) this.#port.forget('too_old');
    }
    this.#batches.stale = false;
    asked.before = sequence - 1;
    this.#batches.skipTo(sequence - 1, false);
  }

  /** An answer without any batch. */
  #nothingHeld({ before, rebuild }: AskedReplay): void {
    if (rebuild) {
      if (this.#epoch.highest >= 0) this.#rebuildLater();
    } else if (before >= 0) {
      // Not even the last known batch: a new process, or an engine that keeps no history. The next answer tells which.
      this.#port.happened('too_old');
      this.#port.forget('too_old');
      this.#batches.stale = false;
      this.#batches.partial = true;
      this.#batches.rewind();
      this.#doubt = true;
    } else if (!this.#hasGap) {
      this.#attempts = 0;
    } else if (this.watermark < 0 && this.pendingBatches === 0) {
      // It has not published anything yet.
      this.#reset();
    } else if (!this.#tryAgain(false)) {
      this.#batches.partial = true;
      this.#batches.skipTo(this.#nextKnown - 1, true);
    }
  }

  /** Asks again after a pause; false when that was done often enough. */
  #tryAgain(progress: boolean): boolean {
    this.#attempts = progress ? 0 : this.#attempts + 1;
    if (this.#attempts >= this.#limits.attempts) {
      this.#attempts = 0;
      return false;
    }
    this.#cancelPause = this.#clock.schedule(this.#limits.pauseMs * 2 ** this.#attempts, () => {
      this.#cancelPause = null;
      this.#seek();
    });
    return true;
  }

  /** Hands on what is there, over all holes. */
  #giveUp(): void {
    while (this.#hasGap) this.#jump();
  }

  /** Hands on what lies behind the first hole, which is lost. */
  #jump(): void {
    this.#attempts = 0;
    this.#batches.stale = true;
    const next = this.#nextKnown;
    const lost = next - 1 - this.watermark;
    if (lost > 0) this.#port.missed(lost);
    this.#batches.skipTo(next - 1, true);
  }

  /** Number of the first batch behind the first hole. */
  get #nextKnown(): number {
    return this.#batches.pending.lowest() ?? this.#epoch.highest + 1;
  }

  #goOnBehind(watermark: number): void {
    this.#takesAnyNext = false;
    this.#epoch.resumed(watermark);
    this.#batches.skipTo(watermark, false);
  }

  #startAnew(timestamp: number | null): void {
    this.#reset(timestamp);
    this.#port.happened('restart');
    this.#port.forget('restart');
  }

  #reset(timestamp?: number | null): void {
    this.#stopAsking();
    this.#takesAnyNext = false;
    this.#epoch.startAnew(timestamp);
    this.#batches.reset();
  }

  #stopAsking(): void {
    this.#asked = null;
    this.#attempts = 0;
    this.#doubt = false;
    this.#rebuild = false;
    this.#cutAt = null;
    this.#cancelPause?.();
    this.#cancelPause = null;
    this.#pace.reset();
  }
}

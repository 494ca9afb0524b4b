// The state machine of one (worker, rank)'s event stream. Engines publish without acknowledgement, so messages get lost; each has
// a number, and an engine with a replay endpoint repeats what it still holds. This machine asks for what is missing, notices new
// processes, and says what it could not make good. It knows no socket and no encoding, and its only timers are those of the
// injected clock. Rules and reasons: docs/decisions/007-event-streams.md.
import type { Clock } from '../plugin/index.ts';
import type { AskedReplay } from './asked-replay.ts';
import { EngineHistory } from './engine-history.ts';
import { HoleRetries } from './hole-retries.ts';
import { OrderedBatches, type StreamPosition } from './ordered-batches.ts';
import { RebuildPace } from './rebuild-pace.ts';
import { StreamEpoch } from './stream-epoch.ts';
import {
  type ReplayFailure,
  type ResumePoint,
  STREAM_LIMITS,
  type StreamLimits,
  type StreamPort,
} from './stream-port.ts';

/** One stream. */
export class SequencedStream<M> {
  readonly #port: StreamPort<M>;
  readonly #epoch = new StreamEpoch();
  readonly #batches: OrderedBatches<M>;
  readonly #pace: RebuildPace;
  readonly #retries: HoleRetries;
  #asked: AskedReplay | null = null;
  #ticket = 0;
  /** Something may have been missed without a trace in the numbers heard. */
  #doubt = false;
  #rebuild = false;
  readonly #history = new EngineHistory();
  /** Whatever the next batch's number, those before it are known from elsewhere. */
  #takesAnyNext = false;
  /** Where the stream stood when its connection was lost. */
  #cutAt: StreamPosition | null = null;

  constructor(port: StreamPort<M>, clock: Clock, limits: StreamLimits = STREAM_LIMITS) {
    this.#port = port;
    this.#batches = new OrderedBatches(port, limits);
    this.#pace = new RebuildPace(clock, limits.rebuildPauseMs);
    this.#retries = new HoleRetries(clock, limits, () => this.#seek());
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

  /** Blocks came from a copy since the last time that all were forgotten, so that nobody knows how many copies of each there are. */
  get restored(): boolean {
    return this.#batches.restored;
  }

  /** Time stamp of the batch at the watermark, seconds by the engine's clock; null = not known. */
  get watermarkTime(): number | null {
    return this.#batches.position.time;
  }

  /** A replay is asked for or will be, so what is known is behind. */
  get isRecovering(): boolean {
    return this.#asked !== null || this.#retries.isWaiting;
  }

  /** What waits for the batches before it. */
  get pending(): Readonly<Record<'count' | 'bytes', number>> {
    return this.#batches.pending;
  }

  /** A message of the live stream. */
  arrived(sequence: number, message: M): void {
    const timestamp = this.#port.timestamp(message);
    if (this.#takesAnyNext) this.#goOnBehind({ sequence: sequence - 1, time: null });
    this.#history.heard(sequence);
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
    this.#history.answered();
    this.#takesAnyNext = false;
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
    else if (!this.#hasGap) this.#retries.over();
    // What is missing still is lost by the engine itself.
    else if (!this.#retries.again(this.watermark > asked.before)) this.#jump();
    this.#seek();
  }

  /** An answer stays away, or broke off. What is known is kept. */
  replayFailed(ticket: number, failure: ReplayFailure): void {
    const asked = this.#asked;
    if (asked?.ticket !== ticket) return;
    this.#dropAsked();
    this.#port.happened(failure);
    // Nothing said that a batch was lost, and nothing says so now.
    if (asked.isIdle && asked.answers === 0 && !this.#hasGap) return;
    this.#batches.stale = true;
    this.#pace.failed();
    if (this.#hasGap) this.#jump(true);
    this.#rebuild = false;
    this.#rebuildLater();
  }

  /** The connection is lost; perhaps with its process, whose successor may go on with any number. */
  disconnected(): void {
    this.#keepCut();
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

  /** The stream is silent for long: asks whether its last batches were lost. What is known to be missing is asked for anyway. */
  checkIdle(): void {
    if (this.stale || this.isRecovering || this.#history.isNone) return;
    this.#doubt = true;
    this.#seek(true);
  }

  /** The engine started anew, as others noticed; its stream is expected to begin with batch 0. */
  restarted(): void {
    this.#reset();
    this.connected();
  }

  /**
   * Goes on behind a batch whose blocks are known from elsewhere: what the engine published since is asked for. Where it is not known
   * behind which, the engine's whole history is; until then any next batch will do.
   */
  resume({ sequence, time, stale, partial }: ResumePoint): void {
    this.#reset();
    this.#takesAnyNext = sequence === null;
    if (sequence !== null) this.#goOnBehind({ sequence, time });
    this.#batches.wereRestored(stale || sequence === null, partial);
    // The engine was not heard meanwhile: only an answer that holds the watermark's batch tells that the process is the same.
    if (sequence !== null) this.#cutAt = this.#batches.position;
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
    if (asked !== null && asked.answers === 0) this.#rebuild ||= asked.rebuild;
    this.#keepCut(asked);
  }

  /** Where the connection was lost stays open while the question about it is not answered. */
  #keepCut(asked = this.#asked): void {
    if (asked?.isCut && asked.answers === 0) this.#cutAt ??= asked.anchor;
  }

  #rebuildLater(): void {
    if (!this.#port.canAsk() || this.#rebuild) return;
    this.#pace.later(() => {
      this.#rebuild = true;
      this.#seek();
    });
  }

  /** Asks for what is missing, if it may now. `afterSilence`: nothing says that something is. */
  #seek(afterSilence = false): void {
    if (!this.#hasGap && !this.#doubt && !this.#rebuild) return;
    if (this.#asked !== null || this.#retries.isWaiting) return;
    if (!this.#mayAsk) {
      this.#doubt = false;
      if (this.#hasGap) this.#jump(true);
      return;
    }
    // The last known batch is asked for too: it tells whether the history reaches back, and whether it is that of this process.
    const anchor = this.#batches.position;
    const isCut = this.#cutAt !== null;
    // What was heard between the cut and now may be of two processes; what came from elsewhere may never have been right.
    const isDoubtful = isCut && this.#cutAt?.sequence !== anchor.sequence;
    const isWanted = this.#rebuild || isDoubtful || (this.restored && this.stale);
    const rebuild = isWanted && this.#pace.isDue;
    this.#rebuild = false;
    if (rebuild) this.#pace.began();
    else if (isWanted) {
      // A connection that flaps, or an engine that does not finish its answers.
      this.#batches.stale ||= isDoubtful;
      this.#rebuildLater();
    }
    this.#doubt = false;
    this.#cutAt = null;
    this.#ticket += 1;
    const isIdle = afterSilence && !isCut && !isWanted && !this.#hasGap;
    const ticket = this.#ticket;
    this.#asked = { ticket, anchor, isCut, isIdle, rebuild, before: this.watermark, answers: 0 };
    this.#port.happened('asked');
    this.#port.ask(ticket, rebuild ? 0 : Math.max(0, anchor.sequence));
  }

  /** Fits the stream to the first batch of an answer. */
  #beginAt(sequence: number, asked: AskedReplay): void {
    const { anchor, isCut, rebuild } = asked;
    if (!rebuild && sequence <= (isCut ? Math.max(0, anchor.sequence) : this.watermark + 1)) {
      if (this.watermark < 0) this.#batches.partial = false;
      return;
    }
    if (!rebuild) this.#port.happened('too_old');
    if (rebuild || this.watermark >= 0) this.#port.forget(rebuild ? 'rebuild' : 'too_old');
    this.#batches.forgotten(!rebuild || sequence > 0);
    asked.before = sequence - 1;
    this.#batches.skipTo(sequence - 1, false);
  }

  /** An answer without any batch. */
  #nothingHeld({ before, isIdle, rebuild }: AskedReplay): void {
    if (rebuild) {
      if (this.#epoch.highest >= 0) this.#rebuildLater();
    } else if (before >= 0) {
      // Not even the last known batch: a new process, or an engine that keeps no history. The next batch or answer tells which.
      if (isIdle) this.#history.wasEmpty(before);
      this.#port.happened('too_old');
      this.#port.forget('too_old');
      this.#batches.forgotten(true);
      this.#batches.rewind();
      this.#doubt = true;
    } else if (!this.#hasGap) {
      this.#retries.over();
    } else if (this.watermark < 0 && this.pending.count === 0) {
      // It has not published anything yet.
      this.#reset();
    } else if (!this.#retries.again(false)) {
      this.#batches.partial = true;
      this.#batches.skipTo(this.#batches.nextKnown(this.#epoch.highest + 1) - 1, true);
    }
  }

  /** Hands on what lies behind the first hole, which is lost; with `all` what lies behind every hole. */
  #jump(all = false): void {
    this.#retries.over();
    do this.#batches.jump(this.#epoch.highest + 1);
    while (all && this.#hasGap);
  }

  #goOnBehind(position: StreamPosition): void {
    this.#takesAnyNext = false;
    this.#epoch.resumed(position);
    this.#batches.resumeBehind(position);
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
    this.#retries.reset();
    this.#doubt = false;
    this.#rebuild = false;
    this.#cutAt = null;
    this.#pace.reset();
  }
}

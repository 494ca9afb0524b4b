// One request from arrival to release. It stands between the door's sink and the engine's, keeps the booking's life in step
// with the answer, and ends exactly once, whoever ends it: engine, client, lost worker or a door that fails.
import type { EngineExchange, EngineReport, EngineSink, ReportedHintOutcome } from '../engines/index.ts';
import type { RequestLifecycle } from '../host/index.ts';
import type { ReleaseReason } from '../observe/index.ts';
import { type ErrorCode, type KvHint, PointsmanError, type WorkerId } from '../plugin/index.ts';
import { countRefusal } from './admission.ts';
import { endBooking, endUnsentBooking } from './end-booking.ts';
import { lossOf } from './engine-loss.ts';
import type { ExchangeBooking } from './exchange-booking.ts';
import { FollowedLifecycle } from './followed-lifecycle.ts';
import { GuardedSink } from './guarded-sink.ts';
import type { RoadState } from './road-state.ts';
import { SentHints } from './sent-hints.ts';
import type { ResponseSink, RoadRequest, RoadTicket } from './types.ts';

/** Status that stands in the record for a request whose client went away; nobody is answered with it. */
const CLIENT_GONE = 499;

/** A request under way. */
export class Exchange implements RoadTicket, EngineSink {
  readonly requestId: string;
  readonly #state: RoadState;
  readonly #request: RoadRequest;
  readonly #sink: GuardedSink;
  /** Ms of the clock. */
  readonly arrivedAt: number;
  #over = false;
  #booking: ExchangeBooking | null = null;
  /** Told what becomes of the request; null = nobody classifies. */
  #lifecycle: FollowedLifecycle | null = null;
  #engine: EngineExchange | null = null;
  /** Lets go of what is waited for; null = nothing is. */
  #stopWaiting: (() => void) | null = null;
  #hints: SentHints | null = null;
  #predictedTokens: number | null = null;
  #status = 200;
  #headPassed = false;
  /** A pause that came before there was an engine to pause. */
  #paused = false;
  #generated = 0;
  /** Blocks of prompt and output so far, the last one perhaps partly filled. */
  #blocks = 0;
  /** Whether it got on since `takeProgress` was called last. */
  #gotOn = true;

  constructor(state: RoadState, request: RoadRequest, sink: ResponseSink) {
    this.requestId = request.requestId;
    this.#state = state;
    this.#request = request;
    this.#sink = new GuardedSink(sink, state.metrics);
    this.arrivedAt = state.clock.now();
  }

  /** Whether the request has ended. */
  get over(): boolean {
    return this.#over;
  }

  /** Worker it is booked on; null before booking. */
  get workerId(): WorkerId | null {
    return this.#booking?.workerId ?? null;
  }

  /** Number of its booking; null = it has none now. */
  get attempt(): number | null {
    return this.#booking?.attempt ?? null;
  }

  // --- what the road tells ---

  /** It is classified; the classifier hears what becomes of it. */
  follow(lifecycle: RequestLifecycle): void {
    this.#lifecycle = new FollowedLifecycle(lifecycle, this.#request.tokens.length);
  }

  /** Refused before booking. */
  refuse(error: PointsmanError): void {
    this.#over = true;
    countRefusal(this.#state.metrics, this.#request.partition.model, error);
    this.#lifecycle?.ended(null, error.code);
    this.#sink.failed(error, false);
  }

  /** A worker is booked: from here on the booking ends with the exchange. */
  booked(booking: ExchangeBooking): void {
    booking.hold?.retain();
    this.#booking = booking;
    this.#gotOn = true;
    this.#predictedTokens = booking.predictedTokens;
    this.#blocks = Math.ceil(this.#request.tokens.length / booking.blockSize);
    this.#state.exchanges.add(this);
    if (this.#isAside) this.#state.asides.count += 1;
  }

  /** The booking is given up before anything was dispatched, because its committed copy cannot be sent; another may follow. */
  giveUpBooking(): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    this.#leave();
    this.#booking = null;
    this.#predictedTokens = null;
    endUnsentBooking(this.#state, booking);
  }

  /** Tells the door where the request goes. */
  announce(rank: number): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    this.#lifecycle?.booked(booking.workerId, rank);
    if (!this.#sink.booked({ workerId: booking.workerId, rank }, booking.decision?.id ?? ''))
      this.#doorFailed();
  }

  /** It is held for hint policies, or for a worker; `stopWaiting` is called if the exchange ends before. */
  waitsFor(stopWaiting: () => void): void {
    this.#stopWaiting = stopWaiting;
  }

  /** They have answered, or it has come. */
  waitedFor(): void {
    this.#stopWaiting = null;
  }

  /** A hint envelope goes out with the request. */
  hinted(hint: KvHint, predictedTokens: number | null): void {
    this.#hints = new SentHints(hint, this.#booking?.decision ?? null, this.#state.metrics);
    this.#predictedTokens = predictedTokens;
    this.#state.hintOutcomes.sent(this.#hints);
  }

  /** The request goes to the engine next. */
  sending(): void {
    const { beliefs, clock } = this.#state;
    const booking = this.#booking;
    if (beliefs === null || booking === null || booking.hashes === null) return;
    beliefs.sent(booking.slot, booking.attempt, booking.hashes.local, booking.hashes.sequence, clock.now());
  }

  /** The request is with the engine. */
  dispatched(engine: EngineExchange): void {
    if (this.#over) engine.abort();
    else {
      this.#engine = engine;
      this.#lifecycle?.sent();
      if (!this.#sink.dispatched()) this.#doorFailed();
      if (this.#paused) engine.pause();
    }
  }

  /** The worker is lost: whatever it still sends does not count. */
  lose(error: PointsmanError): void {
    if (this.#over) return;
    this.#abortEngine();
    this.#fail(error, 'worker_gone');
  }

  /** It is given up for a reason outside of its engine, whatever it waits for. */
  cancel(error: PointsmanError): void {
    if (this.#over) return;
    this.#abortEngine();
    this.#fail(error, 'failed');
  }

  /** Whether it was booked, or anything came from the engine, since the last call. */
  takeProgress(): boolean {
    const gotOn = this.#gotOn;
    this.#gotOn = false;
    return gotOn;
  }

  /** Nothing has come from the engine for long: ends, unless the door says that somebody waits. False when it goes on. */
  expire(): boolean {
    if (this.#over || this.#sink.waits()) return false;
    this.#abortEngine();
    const message = 'the engine sent nothing for long, and nobody waits for the answer';
    this.#fail(new PointsmanError('PM_ROAD_EXPIRED', message), 'expired');
    return true;
  }

  // --- what the door tells ---

  abort(): void {
    if (this.#over) return;
    this.#abortEngine();
    this.#end('aborted', CLIENT_GONE, null);
  }

  pause(): void {
    this.#paused = true;
    this.#engine?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#engine?.resume();
  }

  // --- what the engine tells ---

  head(
    status: number,
    headers: Readonly<Record<string, string>>,
    outcomes: readonly ReportedHintOutcome[],
  ): void {
    if (this.#over) return;
    this.#status = status;
    this.#headPassed = true;
    this.#gotOn = true;
    this.#lifecycle?.responding(0);
    if (this.#booking !== null) this.#state.health?.answered(this.#booking.workerId);
    for (const { actionId, outcome, blocksDone, reason } of outcomes)
      this.#hints?.report(actionId, outcome, blocksDone, reason);
    if (!this.#sink.head(status, headers)) this.#doorFailed();
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return;
    this.#gotOn = true;
    if (!this.#sink.data(bytes)) this.#doorFailed();
  }

  tokens(count: number): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    const { scheduler } = this.#state;
    this.#gotOn = true;
    if (this.#generated === 0) this.#firstToken(booking);
    this.#generated += count;
    this.#lifecycle?.responding(count);
    const blocks = Math.ceil((this.#request.tokens.length + this.#generated) / booking.blockSize);
    if (blocks > this.#blocks) {
      scheduler.outputBlock(booking.attempt, this.#generated, this.#request.expectedOutputTokens);
      this.#state.beliefs?.generated(booking.attempt, blocks - this.#blocks);
      this.#blocks = blocks;
    }
    if (!this.#sink.tokens(count)) this.#doorFailed();
  }

  finished(report: EngineReport): void {
    if (this.#over) return;
    this.#end('finished', this.#status, report);
    this.#sink.finished(report);
  }

  failed(error: PointsmanError): void {
    if (this.#over) return;
    if (this.#booking !== null) {
      const loss = lossOf(error);
      if (loss === 'refused') this.#state.health?.connectionRefused(this.#booking.workerId);
      else if (loss === 'reset') this.#state.health?.streamReset(this.#booking.workerId);
      // Losing the worker may have ended this exchange with all others.
      if (this.#over) return;
    }
    this.#fail(error, 'failed');
  }

  // --- endings ---

  #firstToken(booking: ExchangeBooking): void {
    const { scheduler, clock, metrics } = this.#state;
    const now = clock.now();
    scheduler.prefillCompleted(booking.attempt);
    this.#state.beliefs?.computed(booking.attempt);
    booking.decision?.firstToken(now);
    // Of a prompt that is computed for another worker, the client has no token yet.
    if (this.#request.role === 'prefill') return;
    const labels = this.#state.labelsOf(this.#request.partition.model).model;
    metrics.observe('pointsman_time_to_first_token_seconds', (now - this.arrivedAt) / 1000, labels);
  }

  #fail(error: PointsmanError, reason: ReleaseReason): void {
    this.#end(reason, error.status, null, error.code);
    this.#sink.failed(error, this.#headPassed);
  }

  /** The door threw while taking the answer: there is nobody to answer any more. */
  #doorFailed(): void {
    if (this.#over) return;
    this.#abortEngine();
    this.#end('failed', 500, null, 'PM_INTERNAL');
  }

  #abortEngine(): void {
    const engine = this.#engine;
    this.#engine = null;
    try {
      engine?.abort();
    } catch {
      // A transport that cannot abort must not keep the booking.
    }
  }

  get #isAside(): boolean {
    return this.#request.leg?.aside === true;
  }

  /** It is no longer under way; true when it was. */
  #leave(): boolean {
    const { asides, exchanges } = this.#state;
    const left = exchanges.delete(this);
    if (left && this.#isAside) asides.count -= 1;
    return left;
  }

  /** Ends once: booking freed, hints closed, record completed, the classifier told. */
  #end(
    reason: ReleaseReason,
    status: number,
    report: EngineReport | null,
    code: ErrorCode | null = null,
  ): void {
    this.#over = true;
    this.#engine = null;
    if (this.#leave() && !this.#isAside) this.#state.pace.released(1, this.#state.clock.now());
    const stopWaiting = this.#stopWaiting;
    this.#stopWaiting = null;
    if (this.#booking === null) stopWaiting?.();
    else {
      endBooking(this.#state, this.#booking, {
        request: this.#request,
        reason,
        status,
        report,
        generated: this.#generated > 0,
        hints: this.#hints,
        predictedTokens: this.#predictedTokens,
        stopWaiting,
      });
    }
    // The last thing: a request of the same id may start from here.
    this.#lifecycle?.ended(report, code);
  }
}

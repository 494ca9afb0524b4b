// One request from arrival to release. It stands between the door's sink and the engine's, keeps the booking's life in step
// with the answer, and ends exactly once, whoever ends it: engine, client, lost worker or a door that fails.
import type { EngineExchange, EngineReport, ReportedHintOutcome } from '../engines/index.ts';
import type { Classification, RequestLifecycle } from '../host/index.ts';
import type { ReleaseReason } from '../observe/index.ts';
import type { ErrorCode, KvHint, PointsmanError, WorkerId } from '../plugin/index.ts';
import { countRefusal } from './admission.ts';
import { type CallerSink, promptTokensOf } from './caller-part.ts';
import { CLIENT_GONE, endBooking, endUnsentBooking, leaveRoad } from './end-booking.ts';
import { abortQuietly, noteLoss } from './engine-loss.ts';
import { type ExchangeBooking, mayGoElsewhere, noteSent } from './exchange-booking.ts';
import { FollowedLifecycle } from './followed-lifecycle.ts';
import { GuardedSink } from './guarded-sink.ts';
import { OutputProgress } from './output-progress.ts';
import type { QueueFacts } from './queue-walk.ts';
import { isAside } from './request-leg.ts';
import { expired } from './road-errors.ts';
import type { RoadState } from './road-state.ts';
import type { SentHints } from './sent-hints.ts';
import type { ResponseSink, RoadRequest, RoadTicket } from './types.ts';

/** A request under way. */
export class Exchange implements RoadTicket, CallerSink {
  readonly requestId: string;
  readonly #state: RoadState;
  #request: RoadRequest;
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
  readonly #output: OutputProgress;
  /** Whether it got on since `takeProgress` was called last. */
  #gotOn = true;
  /** What its classifier made of it; null = nobody classified it, or not yet. */
  classification: Classification | null = null;
  /** How it passed the queue, for another try; null = it has not, or there are none. */
  admitted: QueueFacts | null = null;
  /** Tries before this one. */
  readonly #earlierTries: number = 0;
  /** Bookings of the request so far, those of earlier tries included. */
  bookings = 0;

  /** @param earlier the try that failed, when this is another one. */
  constructor(state: RoadState, request: RoadRequest, sink: ResponseSink, earlier: Exchange | null = null) {
    this.requestId = request.requestId;
    this.#state = state;
    this.#request = request;
    this.#sink = new GuardedSink(sink, state.metrics);
    if (!isAside(request)) state.underWay += 1;
    this.#output = new OutputProgress(state, request);
    this.arrivedAt = earlier === null ? state.clock.now() : earlier.arrivedAt;
    if (earlier === null) return;
    this.#lifecycle = earlier.#lifecycle;
    this.classification = earlier.classification;
    this.admitted = earlier.admitted && { ...earlier.admitted, queuedSince: null };
    this.#earlierTries = earlier.#earlierTries + 1;
    this.bookings = earlier.bookings;
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

  /** It failed, and the other try that was to follow does not: its classifier is told that the client left. */
  forgo(): void {
    this.#lifecycle?.ended(null, null);
  }

  // --- what the road tells ---

  /** It is classified; the classifier hears what becomes of it. */
  follow(lifecycle: RequestLifecycle): void {
    this.#lifecycle = new FollowedLifecycle(lifecycle, promptTokensOf(this.#request));
  }

  /** It goes to a gate, or on from there, as a request of the same id and prompt. */
  goesOnAs(request: RoadRequest): void {
    this.#request = request;
  }

  /** Refused before booking. */
  refuse(error: PointsmanError): void {
    this.#close(false);
    countRefusal(this.#state.metrics, this.#request.partition.model, error);
    this.#lifecycle?.ended(null, error.code);
    this.#sink.failed(error, false);
  }

  /** A worker is booked: from here on the booking ends with the exchange. */
  booked(booking: ExchangeBooking): void {
    booking.hold?.retain();
    this.#booking = booking;
    this.bookings += 1;
    this.#gotOn = true;
    this.#predictedTokens = booking.predictedTokens;
    this.#output.booked(booking);
    this.#state.exchanges.add(this);
  }

  /** The booking is given up before anything was dispatched, because its committed copy cannot be sent; another may follow. */
  giveUpBooking(): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    this.#state.exchanges.delete(this);
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

  /** It waits for hint policies, for a worker or for its turn; `stopWaiting` is called if the exchange ends before. */
  waitsFor(stopWaiting: () => void): void {
    this.#stopWaiting = stopWaiting;
  }

  /** They have answered, or it has come. */
  waitedFor(): void {
    this.#stopWaiting = null;
  }

  /** A hint envelope goes out with the request. */
  hinted(hint: KvHint, policies: readonly string[], predictedTokens: number | null): void {
    this.#predictedTokens = predictedTokens;
    this.#hints = this.#state.hintOutcomes.sent(hint, policies, this.#booking);
  }

  /** The request goes to the engine next. */
  sending(): void {
    if (this.#booking !== null) noteSent(this.#state, this.#booking);
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
    this.#fail(expired(), 'expired');
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
    this.#hints?.reportAll(outcomes);
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
    this.#gotOn = true;
    this.#output.begin(booking, this.arrivedAt);
    this.#lifecycle?.responding(count);
    this.#output.tokens(booking, count);
    if (!this.#sink.tokens(count)) this.#doorFailed();
  }

  // --- what a caller tells that carries the request itself ---

  prefillCompleted(): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    this.#gotOn = true;
    this.#output.begin(booking, this.arrivedAt);
    this.#lifecycle?.responding(0);
  }

  outputBlock(weight: number | null): void {
    const booking = this.#booking;
    if (this.#over || booking === null) return;
    this.#gotOn = true;
    this.#output.block(booking, weight);
  }

  finished(report: EngineReport): void {
    if (this.#over) return;
    this.#end('finished', this.#status, report);
    this.#sink.finished(report);
  }

  failed(error: PointsmanError): void {
    if (this.#over) return;
    if (this.#booking !== null) {
      noteLoss(this.#state.health, this.#booking.workerId, error);
      // Losing the worker may have ended this exchange with all others.
      if (this.#over) return;
    }
    this.#fail(error, 'failed');
  }

  // --- endings ---

  #fail(error: PointsmanError, reason: ReleaseReason): void {
    const isRetried = mayGoElsewhere(this.#request, this.#booking) && this.#sink.retries(error);
    this.#end(reason, error.status, null, error.code, isRetried);
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
    abortQuietly(engine);
  }

  /** Ends it for whoever counts requests under way. */
  #close(goesOn: boolean): void {
    this.#over = true;
    leaveRoad(this.#state, this.#request, goesOn);
  }

  /** Ends once: booking freed, hints closed, record completed, the classifier told. */
  #end(
    reason: ReleaseReason,
    status: number,
    report: EngineReport | null,
    code: ErrorCode | null = null,
    goesOn = false,
  ): void {
    this.#close(goesOn);
    this.#engine = null;
    if (this.#state.exchanges.delete(this) && !isAside(this.#request))
      this.#state.pace.released(1, this.#state.clock.now());
    const stopWaiting = this.#stopWaiting;
    this.#stopWaiting = null;
    if (this.#booking === null) stopWaiting?.();
    else {
      endBooking(this.#state, this.#booking, {
        request: this.#request,
        reason,
        status,
        code,
        retries: this.#earlierTries,
        report,
        generated: this.#output.begun,
        outputTokens: this.#output.generated,
        hints: this.#hints,
        predictedTokens: this.#predictedTokens,
        stopWaiting,
      });
    }
    // The last thing: a request of the same id may start from here.
    if (!goesOn) this.#lifecycle?.ended(report, code);
  }
}

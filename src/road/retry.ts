// Second tries, a layer above the road of a single one: a request whose worker fails before the client got anything of the answer goes
// to another worker, as a booking of its own. It is classified once. Pinned requests are not sent elsewhere.

import type { QueueSettings } from '../config/index.ts';
import type { EngineReport } from '../engines/index.ts';
import type { Metrics } from '../observe/index.ts';
import {
  type Clock,
  type Partition,
  PointsmanError,
  type WorkerId,
  type WorkerRank,
} from '../plugin/index.ts';
import type { Choice, Projection, Waits } from './caller-part.ts';
import type { Exchange } from './exchange.ts';
import { isAside, isOneOfTwo } from './request-leg.ts';
import { type RetryReason, retryReasonOf } from './retriable.ts';
import { RetryBudget } from './retry-budget.ts';
import type { ChoosingRoad, LateHintOutcome, ResponseSink, RoadRequest, RoadTicket } from './types.ts';

/** How often requests are tried; read at each failure. */
export interface RetryLimits {
  /** Tries after the first; 0 = none, and then nothing of an answer is held back. */
  readonly retries: number;
  /** Retries per request in the long run, 0 to 1. */
  readonly ratio: number;
}

/** The road of a single try. */
export interface HopRoad extends ChoosingRoad {
  arrive(request: RoadRequest, sink: ResponseSink): Exchange;
  /** Another try of a request: it is not classified again, and not refused for the number of requests under way. */
  again(earlier: Exchange, request: RoadRequest, sink: ResponseSink): Exchange;
}

/** What the layer works with. */
export interface RetryPorts {
  readonly limits: () => RetryLimits;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** What becomes of a retry, or why there is none. */
type RetryOutcome = 'answered' | 'failed' | 'no_worker' | 'aborted' | 'exhausted' | 'no_budget';

/** Parts that all requests share. */
interface Retries extends RetryPorts {
  readonly hops: HopRoad;
  readonly budget: RetryBudget;
}

/** A road that tries again. */
export class RetryingRoad implements ChoosingRoad {
  readonly #hops: HopRoad;
  readonly #retries: Retries;

  constructor(hops: HopRoad, ports: RetryPorts) {
    this.#hops = hops;
    this.#retries = { ...ports, hops, budget: new RetryBudget(() => ports.limits().ratio) };
  }

  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket {
    const { limits } = this.#retries;
    // Whether a caller reaches the worker is not known here, and of two legs neither can be tried again alone.
    const isOnce = (request.caller ?? null) !== null || isOneOfTwo(request) || isAside(request);
    if (isOnce || limits().retries === 0 || request.constraints.pinnedWorker !== null)
      return this.#hops.arrive(request, sink);
    const tried = new TriedRequest(this.#retries, request, sink);
    tried.start();
    return tried;
  }

  choose(request: RoadRequest): Choice {
    return this.#hops.choose(request);
  }

  project(request: RoadRequest): Projection {
    return this.#hops.project(request);
  }

  waitingOf(partition: Partition): Waits {
    return this.#hops.waitingOf(partition);
  }

  workerGone(workerId: bigint): void {
    this.#hops.workerGone(workerId);
  }

  hintOutcome(event: LateHintOutcome): void {
    this.#hops.hintOutcome(event);
  }

  unsettled(): boolean {
    return this.#hops.unsettled();
  }

  expireBookings(): number {
    return this.#hops.expireBookings();
  }

  activeBookings(): number {
    return this.#hops.activeBookings();
  }

  setQueues(settings: QueueSettings): void {
    this.#hops.setQueues(settings);
  }

  close(): void {
    this.#hops.close();
  }
}

/** A request from its first try to its last: the sink of each, and the door's ticket. */
class TriedRequest implements RoadTicket, ResponseSink {
  readonly requestId: string;
  readonly #retries: Retries;
  readonly #request: RoadRequest;
  readonly #door: ResponseSink;
  #hop: Exchange | null = null;
  #over = false;
  #paused = false;
  #tries = 1;
  /** Whether the door was told of the try under way. */
  #announced = false;
  /** The answer's head, until something follows it. */
  #head: { readonly status: number; readonly headers: Readonly<Record<string, string>> } | null = null;
  /** Something of the answer went to the door: from here on it is this try's. */
  #answered = false;
  #headPassed = false;
  /** Workers that failed it. */
  #failedOn: readonly WorkerId[] = [];
  #error: PointsmanError | null = null;
  /** What the retry under way, or to come, was made for; null = it is the first try. */
  #reason: RetryReason | null = null;
  /** Whether the last failure is answered with another try. */
  #goesOn = false;
  #cancel: (() => void) | null = null;

  constructor(retries: Retries, request: RoadRequest, door: ResponseSink) {
    this.requestId = request.requestId;
    this.#retries = retries;
    this.#request = request;
    this.#door = door;
  }

  start(): void {
    this.#hop = this.#retries.hops.arrive(this.#request, this);
  }

  // --- what the door tells ---

  abort(): void {
    if (this.#over) return;
    this.#over = true;
    this.#settle('aborted');
    const cancel = this.#cancel;
    this.#cancel = null;
    if (cancel === null) this.#hop?.abort();
    else {
      cancel();
      this.#hop?.forgo();
    }
  }

  pause(): void {
    this.#paused = true;
    this.#hop?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#hop?.resume();
  }

  // --- what a try tells ---

  booked(chosen: WorkerRank, decisionId: string): void {
    this.#announced = true;
    if (this.#tries === 1) this.#retries.budget.sent();
    if (!this.#over) this.#door.booked(chosen, decisionId);
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#head = { status, headers };
  }

  data(bytes: Uint8Array): void {
    this.#answer();
    if (!this.#over) this.#door.data(bytes);
  }

  tokens(count: number): void {
    this.#answer();
    if (!this.#over) this.#door.tokens(count);
  }

  finished(report: EngineReport): void {
    this.#answer();
    if (this.#over) return;
    this.#over = true;
    this.#door.finished(report);
  }

  retries(error: PointsmanError): boolean {
    this.#goesOn = this.#mayGoOn(error);
    return this.#goesOn;
  }

  failed(error: PointsmanError): void {
    const goesOn = this.#goesOn;
    this.#goesOn = false;
    if (this.#over) {
      // The door left between the question and the end.
      if (goesOn) this.#hop?.forgo();
      return;
    }
    if (goesOn) {
      this.#error = error;
      this.#head = null;
      // Not at once: others must hear that a worker is lost before the next one is chosen.
      this.#cancel = this.#retries.clock.schedule(0, () => this.#again());
      return;
    }
    this.#over = true;
    // A retry that found no worker says less than what it was made for.
    const wasBooked = this.#announced || (this.#hop?.workerId ?? null) !== null;
    this.#settle(wasBooked ? 'failed' : 'no_worker');
    const last = wasBooked || this.#error === null ? error : this.#error;
    this.#door.failed(withTries(last, wasBooked ? this.#tries : this.#tries - 1), this.#headPassed);
  }

  waits(): boolean {
    return this.#door.waits?.() ?? false;
  }

  #again(): void {
    const earlier = this.#hop;
    this.#cancel = null;
    if (earlier === null) return;
    if (earlier.workerId !== null) this.#failedOn = [...this.#failedOn, earlier.workerId];
    const { constraints } = this.#request;
    const excludedWorkers = [...(constraints.excludedWorkers ?? []), ...this.#failedOn];
    const request = { ...this.#request, constraints: { ...constraints, excludedWorkers } };
    this.#announced = false;
    this.#tries += 1;
    this.#hop = null;
    const hop = this.#retries.hops.again(earlier, request, this);
    this.#hop = hop;
    // The door may have left while it was told where the request goes.
    if (this.#over) hop.abort();
    else if (this.#paused) hop.pause();
  }

  #mayGoOn(error: PointsmanError): boolean {
    const reason = this.#over || this.#answered ? null : retryReasonOf(error);
    if (reason === null) return false;
    const { limits, budget } = this.#retries;
    this.#settle('failed');
    this.#reason = reason;
    if (this.#tries > limits().retries) return this.#stays('exhausted');
    return budget.take() || this.#stays('no_budget');
  }

  #stays(outcome: RetryOutcome): false {
    this.#settle(outcome);
    return false;
  }

  /** Something of the answer is there: what was held back goes first. */
  #answer(): void {
    const head = this.#head;
    if (this.#answered || this.#over) return;
    this.#answered = true;
    this.#settle('answered');
    if (head === null) return;
    this.#headPassed = true;
    this.#door.head(head.status, head.headers);
  }

  /** Counts what became of a retry; once for each. */
  #settle(outcome: RetryOutcome): void {
    const reason = this.#reason;
    this.#reason = null;
    if (reason === null) return;
    const { model } = this.#request.partition;
    this.#retries.metrics.count('pointsman_retries_total', { model, reason, outcome });
  }
}

function withTries(error: PointsmanError, tries: number): PointsmanError {
  if (tries < 2) return error;
  const { code, message, cause, details } = error;
  return new PointsmanError(code, message, { cause, details: { ...details, tries } });
}

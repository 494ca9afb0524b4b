// One client request under way: its answer is written here and nowhere else. Bytes are relayed as they come, at the speed the
// client reads; a client that goes away frees the booking once; an engine that goes away ends the answer with an error event.
import type { ServerResponse } from 'node:http';
import type { EngineReport } from '../engines/index.ts';
import { type Clock, PointsmanError, type WorkerRank } from '../plugin/index.ts';
import type { ResponseSink, RoadTicket } from '../road/index.ts';
import { errorAnswer, errorEvent, publicError } from './openai-error.ts';

/** A client that reads nothing for this long, in ms, loses its answer: its booking must not be held for ever. */
const STALLED_CLIENT_MS = 60_000;
/** What the metrics call a client that left before the head (nginx's convention). */
const CLIENT_CLOSED_REQUEST = 499;

/** What a call needs. */
export interface GenerateCallOptions {
  readonly requestId: string;
  readonly response: ServerResponse;
  readonly clock: Clock;
  readonly overloadStatus: number;
  /** Told once, when nothing more happens: the status for metrics and log. */
  readonly over: (status: number, error: PointsmanError | null) => void;
}

/** The answer to one request. */
export class GenerateCall implements ResponseSink {
  readonly requestId: string;
  /** Tell the caller which decision was taken; set for trusted callers who asked. */
  explain = false;
  readonly #response: ServerResponse;
  readonly #options: GenerateCallOptions;
  readonly #extraHeaders: Record<string, string> = {};
  #ticket: RoadTicket | null = null;
  #over = false;
  #stream = false;
  #cancelStall: (() => void) | null = null;

  constructor(options: GenerateCallOptions) {
    this.requestId = options.requestId;
    this.#response = options.response;
    this.#options = options;
    this.#response.on('close', () => this.#closed());
    this.#response.on('drain', () => this.#drained());
    // A socket error is followed by close, which does the work.
    this.#response.on('error', () => {});
  }

  /** Whether the answer is complete, failed, or nobody waits for it any more. */
  get isOver(): boolean {
    return this.#over;
  }

  /** The road took the request. Refusals may have come before this call. */
  attach(ticket: RoadTicket): void {
    if (this.#over) return;
    this.#ticket = ticket;
  }

  booked(chosen: WorkerRank, decisionId: string): void {
    this.#extraHeaders['x-pointsman-worker'] = `${chosen.workerId}:${chosen.rank}`;
    if (this.explain) this.#extraHeaders['x-pointsman-decision'] = decisionId;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#over) return;
    this.#stream = (headers['content-type'] ?? '').startsWith('text/event-stream');
    this.#response.writeHead(status, { ...headers, ...this.#ownHeaders() });
    // Otherwise the head waits for the first byte of the body, which may be long in coming.
    if (this.#stream) this.#response.flushHeaders();
  }

  data(bytes: Uint8Array): void {
    if (this.#over || this.#response.write(bytes)) return;
    this.#ticket?.pause();
    this.#cancelStall ??= this.#options.clock.schedule(STALLED_CLIENT_MS, () => {
      this.stop(new PointsmanError('PM_CLIENT_STALLED', 'the client stopped reading its answer'));
    });
  }

  tokens(): void {}

  finished(_report: EngineReport): void {
    if (this.#over) return;
    const status = this.#response.statusCode;
    this.#response.end();
    this.#finish(status, null);
  }

  failed(error: PointsmanError): void {
    this.fail(error);
  }

  /** Ends the answer with an error: an error answer when no head went out, else an event or a cut connection. */
  fail(thrown: unknown): void {
    if (this.#over) return;
    const error = publicError(thrown);
    let { status } = error;
    if (!this.#response.headersSent) {
      const answer = errorAnswer(error, this.#options.overloadStatus);
      status = answer.status;
      // Bytes of this request may still be on their way; the connection cannot carry another one behind them.
      const unread = !this.#response.req.complete;
      this.#response.writeHead(status, {
        ...answer.headers,
        ...this.#ownHeaders(),
        'content-length': String(Buffer.byteLength(answer.body)),
        ...(unread ? { connection: 'close' } : {}),
      });
      this.#response.end(answer.body);
      if (unread) this.#response.req.resume();
    } else if (this.#stream) {
      this.#response.end(errorEvent(error));
    } else {
      // The promised length will not come: only a broken connection tells the client.
      this.#response.destroy();
    }
    this.#finish(status, error);
  }

  /** Ends it from the router's side: the engine is told to stop, the client gets the error. */
  stop(error: PointsmanError): void {
    if (this.#over) return;
    this.#ticket?.abort();
    this.fail(error);
    // A client that does not read would keep the connection for ever.
    if (error.code === 'PM_CLIENT_STALLED') this.#response.destroy();
  }

  #ownHeaders(): Record<string, string> {
    return { 'x-request-id': this.requestId, ...this.#extraHeaders };
  }

  #drained(): void {
    this.#cancelStall?.();
    this.#cancelStall = null;
    if (!this.#over) this.#ticket?.resume();
  }

  /** The connection is closed. Before the end of the answer that means that the client went away. */
  #closed(): void {
    this.#cancelStall?.();
    this.#cancelStall = null;
    if (this.#over) return;
    this.#ticket?.abort();
    this.#finish(this.#response.headersSent ? this.#response.statusCode : CLIENT_CLOSED_REQUEST, null);
  }

  #finish(status: number, error: PointsmanError | null): void {
    this.#over = true;
    this.#ticket = null;
    this.#cancelStall?.();
    this.#cancelStall = null;
    this.#options.over(status, error);
  }
}

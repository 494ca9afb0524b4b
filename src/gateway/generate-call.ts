// One client request under way: its answer is written here and nowhere else. Bytes are relayed as they come, at the speed the
// client reads; a client that goes away frees the booking once; an engine that goes away ends the answer with an error event.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { EngineReport } from '../engines/index.ts';
import { type Clock, PointsmanError, type WorkerRank } from '../plugin/index.ts';
import type { ResponseSink, RoadTicket } from '../road/index.ts';
import { errorAnswer, errorEvent, publicError } from './openai-error.ts';

/** A client that reads nothing for this long, in ms, loses its answer: its booking must not be held for ever. */
const STALLED_CLIENT_MS = 60_000;
/** A client that was answered before its body was complete gets this long to notice before it is cut off, in ms. */
const UNREAD_BODY_MS = 2_000;
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
  readonly #socket: Socket;
  readonly #options: GenerateCallOptions;
  readonly #extraHeaders: Record<string, string> = {};
  #ticket: RoadTicket | null = null;
  #over = false;
  #stream = false;
  #cancelStall: (() => void) | null = null;
  /** Head of an answer that is no stream. It goes out with the first byte: until then an error can still take its place. */
  #heldHead: { readonly status: number; readonly headers: Readonly<Record<string, string>> } | null = null;
  readonly #onSocketClose = (): void => this.#closed();

  constructor(options: GenerateCallOptions) {
    this.requestId = options.requestId;
    this.#response = options.response;
    this.#options = options;
    this.#socket = options.response.req.socket;
    // The response itself hears nothing of it while it waits behind another one on the same connection (pipelining).
    this.#socket.once('close', this.#onSocketClose);
    this.#response.on('drain', () => this.#drained());
    // A socket error is followed by close, which does the work.
    this.#response.on('error', () => {});
  }

  /** Whether the answer is complete, failed, or nobody waits for it any more. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Whether its request arrived whole on this connection. */
  isAnswering(socket: Socket): boolean {
    return this.#socket === socket && this.#response.req.complete;
  }

  /** The road took the request. Refusals may have come before this call, or an end that had no ticket to abort. */
  attach(ticket: RoadTicket): void {
    if (this.#over) ticket.abort();
    else this.#ticket = ticket;
  }

  booked(chosen: WorkerRank, decisionId: string): void {
    this.#extraHeaders['x-pointsman-worker'] = `${chosen.workerId}:${chosen.rank}`;
    if (this.explain) this.#extraHeaders['x-pointsman-decision'] = decisionId;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#over) return;
    this.#stream = (headers['content-type'] ?? '').startsWith('text/event-stream');
    this.#heldHead = { status, headers };
    if (!this.#stream) return;
    this.#sendHead();
    // Otherwise the head waits for the first byte of the body, which may be long in coming.
    this.#response.flushHeaders();
  }

  data(bytes: Uint8Array): void {
    if (this.#over) return;
    this.#sendHead();
    if (this.#response.write(bytes)) return;
    this.#ticket?.pause();
    this.#cancelStall ??= this.#options.clock.schedule(STALLED_CLIENT_MS, () => {
      this.stop(new PointsmanError('PM_CLIENT_STALLED', 'the client stopped reading its answer'));
    });
  }

  tokens(): void {}

  finished(_report: EngineReport): void {
    if (this.#over) return;
    this.#sendHead();
    const status = this.#response.statusCode;
    this.#response.end();
    this.#watchLastBytes();
    this.#finish(status, null);
  }

  failed(error: PointsmanError): void {
    this.fail(error);
  }

  waits(): boolean {
    return !this.#over && !this.#socket.destroyed;
  }

  /** Ends the answer with an error: an error answer when no head went out, else an event or a cut connection. */
  fail(thrown: unknown): void {
    if (this.#over) return;
    const error = publicError(thrown);
    let { status } = error;
    if (!this.#response.headersSent) {
      const answer = errorAnswer(error, this.#options.overloadStatus);
      status = answer.status;
      this.#response.writeHead(status, {
        ...answer.headers,
        ...this.#ownHeaders(),
        'content-length': String(Buffer.byteLength(answer.body)),
      });
      this.#response.end(answer.body);
      this.#discardRest();
    } else if (this.#stream) {
      this.#response.end(errorEvent(error));
      this.#watchLastBytes();
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

  #sendHead(): void {
    const head = this.#heldHead;
    if (head === null) return;
    this.#heldHead = null;
    this.#response.writeHead(head.status, { ...head.headers, ...this.#ownHeaders() });
  }

  /** The answer is complete, but its last bytes may wait here for a client that never reads them. */
  #watchLastBytes(): void {
    if (this.#response.writableFinished || this.#response.socket === null) return;
    if (this.#socket.writableLength === 0) return;
    const cancel = this.#options.clock.schedule(STALLED_CLIENT_MS, () => this.#response.destroy());
    this.#response.once('close', cancel);
  }

  /**
   * The rest of a body that was answered early is read and dropped for a while: closing at once resets the connection, and with
   * it may go the answer that the client has not read yet.
   */
  #discardRest(): void {
    const { req } = this.#response;
    if (req.complete) return;
    req.resume();
    const cancel = this.#options.clock.schedule(UNREAD_BODY_MS, () => {
      if (!req.complete) this.#socket.destroy();
    });
    this.#socket.once('close', cancel);
    req.once('end', () => {
      this.#socket.off('close', cancel);
      cancel();
    });
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
    this.#heldHead = null;
    this.#socket.off('close', this.#onSocketClose);
    this.#cancelStall?.();
    this.#cancelStall = null;
    this.#options.over(status, error);
  }
}

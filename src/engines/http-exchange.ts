// One request to one engine over HTTP: undici's handler on one side, the road's sink on the other. Exactly one of finished
// and failed reaches the sink, nothing after an abort, and nothing before dispatch has returned.
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Worker } from '../fleet/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import type { AnswerReader, EngineDialect } from './dialect.ts';
import { engineError, MAX_ERROR_BYTES } from './engine-error.ts';
import type { ConnectionFault } from './http-transport.ts';
import { flattenHeaders, relayedHeaders } from './response-headers.ts';
import type { EngineExchange, EngineRequest, EngineSink } from './types.ts';

/** The state of one dispatched request. */
export class HttpExchange implements EngineExchange, Dispatcher.DispatchHandler {
  readonly #request: EngineRequest;
  readonly #sink: EngineSink;
  readonly #fault: (worker: Worker, kind: ConnectionFault) => void;
  #dialect: EngineDialect | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  #reader: AnswerReader | null = null;
  /** Status of an error answer whose body is being gathered. */
  #errorStatus: number | null = null;
  #errorHeaders: Readonly<Record<string, string>> = {};
  #errorBody: Buffer[] = [];
  #errorBytes = 0;
  #open = false;
  #over = false;
  #paused = false;
  #deferred: (() => void) | null = null;

  constructor(
    request: EngineRequest,
    sink: EngineSink,
    fault: (worker: Worker, kind: ConnectionFault) => void,
  ) {
    this.#request = request;
    this.#sink = sink;
    this.#fault = fault;
  }

  readWith(dialect: EngineDialect): void {
    this.#dialect = dialect;
  }

  /** Dispatch threw before anything was sent. */
  failedToStart(thrown: unknown): void {
    this.#end(() =>
      this.#sink.failed(asPointsmanError(thrown, 'PM_ENGINE_REQUEST', 'the request cannot be sent')),
    );
  }

  /** Dispatch is about to return: from the next tick on the sink may be called. */
  opened(): void {
    queueMicrotask(() => {
      this.#open = true;
      this.#deferred?.();
      this.#deferred = null;
    });
  }

  abort(): void {
    this.#deferred = null;
    if (this.#over) return;
    this.#over = true;
    this.#controller?.abort(new PointsmanError('PM_ENGINE_LOST', 'the request was aborted'));
  }

  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(new PointsmanError('PM_ENGINE_LOST', 'the request was aborted'));
    else if (this.#paused) controller.pause();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    incoming: IncomingHttpHeaders,
  ): void {
    if (this.#over || status < 200 || this.#dialect === null) return;
    const headers = flattenHeaders(incoming);
    // Neither a redirect nor "not modified" answers a POST; following one would leave the worker that was chosen.
    if (status >= 300) {
      this.#errorStatus = status;
      this.#errorHeaders = headers;
      // Only a refusal has words that the client gets to see; a failing engine may never finish its own.
      if (status < 400 || status >= 500) this.#failWithStatus(controller);
      return;
    }
    const dialect = this.#dialect;
    // What is taken out of the answer of one leg of a handoff makes it shorter than it says.
    const request = this.#request;
    const anyLength =
      request.stream || (request.handoff ?? null) !== null || dialect.rewrites?.(request) === true;
    this.#reader = dialect.read(this.#request, {
      relay: (bytes) => {
        if (!this.#over) this.#sink.data(bytes);
      },
      tokens: (count) => {
        if (!this.#over) this.#sink.tokens(count);
      },
    });
    this.#sink.head(
      status,
      relayedHeaders(headers, dialect.privateHeaders, anyLength),
      dialect.outcomes(headers, request),
    );
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#over) return;
    if (this.#errorStatus === null) {
      this.#reader?.data(chunk);
      return;
    }
    this.#errorBody.push(chunk.subarray(0, MAX_ERROR_BYTES - this.#errorBytes));
    this.#errorBytes += chunk.length;
    if (this.#errorBytes >= MAX_ERROR_BYTES) this.#failWithStatus(controller);
  }

  /** Fails with the error answer so far; `unread` ends a connection that may have more to say than anyone wants to hear. */
  #failWithStatus(unread: Dispatcher.DispatchController | null): void {
    if (this.#over || this.#errorStatus === null) return;
    const explain = (message: string): string | null =>
      this.#dialect?.explain?.(message, this.#request) ?? null;
    const error = engineError(this.#errorStatus, this.#errorHeaders, Buffer.concat(this.#errorBody), explain);
    this.#end(() => this.#sink.failed(error));
    unread?.abort(error);
  }

  onResponseEnd(): void {
    if (this.#over) return;
    if (this.#errorStatus !== null) {
      this.#failWithStatus(null);
      return;
    }
    const report = this.#reader?.end();
    // The last bytes may have made the client's side abort.
    if (report !== undefined && !this.#over) this.#end(() => this.#sink.finished(report));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#over) return;
    const worker = this.#request.worker;
    // Without a controller the request never reached a connection.
    const kind: ConnectionFault = this.#controller === null ? 'refused' : 'reset';
    this.#reader?.lost();
    if (this.#over) return;
    this.#end(() => {
      this.#sink.failed(connectionError(worker, kind, error));
      this.#fault(worker, kind);
    });
  }

  #end(tell: () => void): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#open) tell();
    else this.#deferred = tell;
  }
}

function connectionError(worker: Worker, kind: ConnectionFault, error: Error): PointsmanError {
  const details = { worker_id: String(worker.spec.id), reason: errorReason(error) };
  return kind === 'refused'
    ? new PointsmanError('PM_ENGINE_UNREACHABLE', `worker ${worker.spec.id} cannot be reached`, {
        cause: error,
        details,
      })
    : new PointsmanError(
        'PM_ENGINE_LOST',
        `worker ${worker.spec.id} closed the connection before its answer was complete`,
        {
          cause: error,
          details,
        },
      );
}

/** The system's or undici's error code, for example ECONNREFUSED; never an address. */
function errorReason(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

function asPointsmanError(thrown: unknown, code: 'PM_ENGINE_REQUEST', sentence: string): PointsmanError {
  if (thrown instanceof PointsmanError) return thrown;
  return new PointsmanError(code, `${sentence}: ${errorText(thrown)}`, { cause: thrown });
}

// The HTTP side of the selection service: paths, who may call, caps, metrics.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { bearsToken, isLoopback } from '../../config/index.ts';
import type { BlockHasher } from '../../kv/index.ts';
import type { ScrapableMetrics } from '../../observe/index.ts';
import {
  type Clock,
  errorText,
  exactJsonStringify,
  type Logger,
  PointsmanError,
} from '../../plugin/index.ts';
import { answerDump } from '../dump-answer.ts';
import { type DoorErrors, guardLocal, listenAt, readJson, send, stopServer } from '../http-door.ts';
import { findRoute, type Route } from './route-table.ts';
import type { SelectionRoutes } from './selection-routes.ts';
import type { StateRoutes } from './state-routes.ts';
import { type WireAnswer, wireError } from './wire-answer.ts';

const NAME = 'the selection service';
const ERRORS: DoorErrors = {
  request: 'PM_SELECTOR_REQUEST',
  tooLarge: 'PM_SELECTOR_TOO_LARGE',
  host: 'PM_SELECTOR_HOST',
};
/** Headers of agents alone may have 32 KiB. */
const MAX_HEADER_BYTES = 65_536;
const MAX_CONNECTIONS = 4096;
/** Each holds a copy of an index while it is read. */
const MAX_DUMPS = 4;

/** What the server answers from. */
export interface SelectionServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  /** Null = none: then only this machine is served. */
  readonly token: string | null;
  readonly selection: SelectionRoutes;
  readonly state: StateRoutes;
  readonly hasher: BlockHasher;
  readonly metrics: ScrapableMetrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A listening server. */
export interface SelectionServer {
  /** `http://host:port`, with the real port. */
  readonly url: string;
  /** Answers who waits for a turn (PM_SHUTTING_DOWN), lets other answers finish, within 5 s, and frees the port. */
  close(): Promise<void>;
}

/** Starts listening. @throws PM_LISTEN when the address cannot be had. */
export async function listenSelection(options: SelectionServerOptions): Promise<SelectionServer> {
  const { clock, host, port } = options;
  const running = new Set<Promise<void>>();
  const door = new SelectionHttp(options);
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    const answered = door.answer(request, response).finally(() => running.delete(answered));
    running.add(answered);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const url = await listenAt(server, { name: NAME, host, port });
  return {
    url,
    close() {
      door.stopWaiting();
      return stopServer(server, running, clock);
    },
  };
}

class SelectionHttp {
  readonly #options: SelectionServerOptions;
  readonly #isLocal: boolean;
  #dumps = 0;
  /** Of calls under way; each ends what its call waits for. */
  readonly #calls = new Set<AbortController>();
  #stopping = false;

  constructor(options: SelectionServerOptions) {
    this.#options = options;
    this.#isLocal = isLoopback(options.host);
  }

  /** Whoever waits for a turn is answered now, and nobody waits from here on. */
  stopWaiting(): void {
    this.#stopping = true;
    for (const call of this.#calls) call.abort(stopping());
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { clock, metrics } = this.#options;
    const startedAt = clock.now();
    const [path = '/', search = ''] = (request.url ?? '/').split('?', 2);
    const { method = 'GET' } = request;
    const found = findRoute(method, path);
    const endpoint = found?.endpoint ?? 'other';
    try {
      this.#guard(request);
      if (found === null) throw unknownPath(method, path);
      if (found.route === null) {
        response.setHeader('allow', found.methods.join(', '));
        throw new PointsmanError(
          'PM_SELECTOR_METHOD',
          `${found.endpoint} takes ${found.methods.join(' and ')}, not ${method.slice(0, 16)}`,
        );
      }
      await this.#run(found.route, found.parameter, new URLSearchParams(search), request, response);
    } catch (thrown) {
      this.#fail(response, thrown);
    }
    const { statusCode } = response;
    metrics.count('pointsman_selector_requests_total', {
      endpoint,
      method: found?.route == null ? 'other' : method,
    });
    if (statusCode >= 400)
      metrics.count('pointsman_selector_errors_total', { endpoint, status: String(statusCode) });
    const seconds = (clock.now() - startedAt) / 1000;
    metrics.observe('pointsman_selector_request_duration_seconds', seconds, { endpoint });
  }

  async #run(
    route: Route,
    parameter: string,
    query: URLSearchParams,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { metrics, selection, state } = this.#options;
    if (route.kind === 'text') return send(response, 200, 'text/plain', '');
    if (route.kind === 'metrics') return send(response, 200, metrics.contentType, await metrics.text());
    if (route.kind === 'dump') return this.#dump(response);
    if (route.kind === 'read') {
      const { status, value } = route.run(state, query);
      return send(response, status, 'application/json', exactJsonStringify(value));
    }
    const client = new AbortController();
    const left = (): void => client.abort();
    response.once('close', left);
    this.#calls.add(client);
    try {
      // Not in a local: while the call waits, nobody needs its body.
      const answered = (route.hasBody ? readJson(request, ERRORS) : Promise.resolve({})).then((body) => {
        if (this.#stopping) client.abort(stopping());
        return route.run({ selection, state }, parameter, { request, body, signal: client.signal });
      });
      deliver(response, await answered);
    } finally {
      this.#calls.delete(client);
      response.off('close', left);
    }
  }

  async #dump(response: ServerResponse): Promise<void> {
    const { clock, hasher, state } = this.#options;
    if (this.#dumps >= MAX_DUMPS) {
      throw new PointsmanError(
        'PM_SELECTOR_FULL',
        `${MAX_DUMPS} dumps are being read, which is the most at once; ask again later`,
      );
    }
    this.#dumps += 1;
    try {
      await answerDump(response, state.dumpSources(), hasher, clock);
    } finally {
      this.#dumps -= 1;
    }
  }

  #guard(request: IncomingMessage): void {
    const { token } = this.#options;
    if (token === null) {
      if (this.#isLocal) guardLocal(request, NAME, ERRORS);
    } else if (!bearsToken(request, token)) {
      throw new PointsmanError(
        'PM_SELECTOR_UNAUTHORIZED',
        'the selection service needs the header authorization: Bearer TOKEN',
      );
    }
  }

  #fail(response: ServerResponse, thrown: unknown): void {
    const known = thrown instanceof PointsmanError;
    if (!known)
      this.#options.log.error('a request to the selection service failed', { error: errorText(thrown) });
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const { headers, status, value } = wireError(
      known
        ? thrown
        : new PointsmanError('PM_INTERNAL', 'the selection service could not answer; the log says why'),
    );
    send(response, status, 'application/json', exactJsonStringify(value), headers);
  }
}

/** Sends an answer; a client that is gone before it has all of it did not get it. */
function deliver(response: ServerResponse, { status, undelivered, value }: WireAnswer): void {
  if (response.destroyed || response.closed) {
    undelivered?.();
    return;
  }
  if (undelivered !== undefined) {
    response.once('close', () => {
      if (!response.writableFinished) undelivered();
    });
  }
  send(response, status, 'application/json', exactJsonStringify(value));
}

function stopping(): PointsmanError {
  return new PointsmanError('PM_SHUTTING_DOWN', 'the selection service stopped before the turn came');
}

function unknownPath(method: string, path: string): PointsmanError {
  return new PointsmanError(
    'PM_SELECTOR_UNKNOWN',
    `the selection service has no ${method.slice(0, 16)} ${path.slice(0, 80)}`,
  );
}

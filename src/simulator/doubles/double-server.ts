// The HTTP shell that the protocol doubles share: routing by method and path, bodies read up to a cap, requests recorded byte by byte,
// and failures told in the words of the server that is played.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { nestsDeeperThan, parseExactJson } from '../../config/index.ts';
import { readBody } from '../wire/request-body.ts';

/** Connections of the router's pool rest between requests; a server that drops them first causes resets. */
const KEEP_ALIVE_MS = 75_000;
/** Requests remembered, and the bytes of their bodies. */
const MAX_RECORDED = 4096;
const MAX_RECORDED_BYTES = 64 * 1024 * 1024;
const MAX_DEPTH = 128;

/** A request as it came. */
export interface DoubleRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Answers one request. It may throw a {@link DoubleRefusal}. */
export type DoubleHandler = (request: DoubleRequest, response: ServerResponse) => void | Promise<void>;

/** A refusal in the server's own words: status and JSON body are sent as they are. */
export class DoubleRefusal extends Error {
  readonly status: number;
  readonly answer: unknown;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, answer: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(`refused with status ${status}`);
    this.name = 'DoubleRefusal';
    this.status = status;
    this.answer = answer;
    this.headers = headers;
  }
}

/** What went wrong before any handler ran, or in one. */
export type DoubleFailure =
  | { readonly kind: 'no_route'; readonly path: string }
  | { readonly kind: 'wrong_method'; readonly path: string; readonly allowed: readonly string[] }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'not_json' }
  | { readonly kind: 'thrown'; readonly thrown: unknown };

/** What a double's server consists of. */
export interface DoubleServerOptions {
  /** By `METHOD /path`. */
  readonly routes: Readonly<Record<string, DoubleHandler>>;
  /** Called before every route; throws a {@link DoubleRefusal} for a request that may not come in. */
  readonly admit?: (request: DoubleRequest) => void;
  /** How the played server tells a failure. */
  readonly refusalOf: (failure: DoubleFailure) => DoubleRefusal;
  readonly maxBodyBytes: number;
}

/** A server that is not listening yet. */
export interface DoubleServer {
  readonly server: Server;
  /** Requests so far, the oldest first; the last 4,096, and of those at most 64 MiB. */
  requests(): readonly DoubleRequest[];
}

/** Builds the server. */
export function createDoubleServer(options: DoubleServerOptions): DoubleServer {
  const recorded: DoubleRequest[] = [];
  let bytes = 0;
  const record = (request: DoubleRequest): void => {
    recorded.push(request);
    bytes += request.body.length;
    while (recorded.length > MAX_RECORDED || (bytes > MAX_RECORDED_BYTES && recorded.length > 1)) {
      bytes -= recorded.shift()?.body.length ?? 0;
    }
  };
  const server = createServer((incoming, response) => {
    void answer(options, record, incoming, response);
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  return { server, requests: () => [...recorded] };
}

async function answer(
  { admit, maxBodyBytes, refusalOf, routes }: DoubleServerOptions,
  record: (request: DoubleRequest) => void,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const method = incoming.method ?? 'GET';
  const [path = '/', query = ''] = (incoming.url ?? '/').split('?', 2);
  try {
    const body = await readBody(incoming, maxBodyBytes);
    if (body === null) throw refusalOf({ kind: 'too_large' });
    const request = { method, path, query: new URLSearchParams(query), headers: flat(incoming), body };
    record(request);
    admit?.(request);
    const handler = Object.hasOwn(routes, `${method} ${path}`) ? routes[`${method} ${path}`] : undefined;
    if (handler === undefined) {
      const allowed = Object.keys(routes).flatMap((route) => {
        const [verb = '', at] = route.split(' ');
        return at === path ? [verb] : [];
      });
      throw refusalOf(
        allowed.length === 0 ? { kind: 'no_route', path } : { kind: 'wrong_method', path, allowed },
      );
    }
    await handler(request, response);
  } catch (thrown) {
    const refusal = thrown instanceof DoubleRefusal ? thrown : refusalOf({ kind: 'thrown', thrown });
    // A body that is not read to its end leaves the connection unusable.
    const close = incoming.complete ? null : { connection: 'close' };
    answerJson(response, refusal.status, refusal.answer, { ...refusal.headers, ...close });
  }
}

function flat({ headers }: IncomingMessage): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) all[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return all;
}

/** The body as JSON with exact integers; undefined = it is none, or nests deeper than 128 levels. */
export function jsonBody({ body }: DoubleRequest): unknown {
  const text = body.toString('utf8');
  if (nestsDeeperThan(text, MAX_DEPTH)) return undefined;
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}

/** Sends a JSON answer; does nothing when the client is gone or an answer has begun. */
export function answerJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  answerText(response, status, 'application/json', JSON.stringify(value), headers);
}

/** Sends an answer of any type; does nothing when the client is gone or an answer has begun. */
export function answerText(
  response: ServerResponse,
  status: number,
  type: string,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const bytes = Buffer.from(text);
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers });
  response.end(bytes);
}

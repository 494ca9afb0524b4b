// What the HTTP sides of all services share: bodies under caps, who may call without a login, listening and stopping.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isLoopback, nestsDeeperThan, parseExactJson } from '../config/index.ts';
import { type Clock, type ErrorCode, errorText, PointsmanError } from '../plugin/index.ts';

const MAX_BODY_BYTES = 8 * 1024 * 1024;
/** No request needs more, and parsing millions of levels takes seconds. */
const MAX_BODY_DEPTH = 32;
/** Running answers get so long when a server stops. */
const STOP_MS = 5_000;

/** A service's own error codes. */
export interface DoorErrors {
  readonly request: ErrorCode;
  readonly tooLarge: ErrorCode;
  readonly host: ErrorCode;
}

/** Where a service listens. */
export interface DoorAddress {
  /** As errors call it. */
  readonly name: string;
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
}

/** Without a login, a server on this machine answers only those who name this machine, and no page of another site. */
export function guardLocal({ headers, method }: IncomingMessage, name: string, errors: DoorErrors): void {
  const host = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?$/i.exec(headers.host ?? '');
  const { origin } = headers;
  const isOwn = origin === undefined || (URL.canParse(origin) && new URL(origin).host === headers.host);
  if (host !== null && isLoopback((host[1] ?? host[2] ?? '').toLowerCase()) && (isOwn || method === 'GET'))
    return;
  throw new PointsmanError(
    errors.host,
    `on a loopback address ${name} answers only requests whose Host is a loopback name or address, and changes from no page of another site; --host 0.0.0.0 serves other machines`,
  );
}

/** The body as exact JSON; an empty one is an empty object. @throws errors of the door */
export async function readJson(request: IncomingMessage, errors: DoorErrors): Promise<unknown> {
  const bytes = await readBody(request, errors);
  if (bytes.length === 0) return {};
  const text = bytes.toString('utf8');
  if (nestsDeeperThan(text, MAX_BODY_DEPTH)) {
    throw new PointsmanError(errors.request, `the body nests deeper than ${MAX_BODY_DEPTH} levels`);
  }
  try {
    return parseExactJson(text);
  } catch {
    throw new PointsmanError(errors.request, 'the body is not JSON');
  }
}

function readBody(request: IncomingMessage, errors: DoorErrors): Promise<Buffer> {
  const tooLarge = (): PointsmanError =>
    new PointsmanError(errors.tooLarge, `the body is larger than ${MAX_BODY_BYTES} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    request.on('data', (part: Buffer) => {
      size += part.length;
      if (size > MAX_BODY_BYTES) reject(tooLarge());
      else parts.push(part);
    });
    request.on('end', () => resolve(Buffer.concat(parts)));
    // What broke off may look whole.
    const brokeOff = (): void => reject(new PointsmanError(errors.request, 'the body broke off'));
    request.on('close', brokeOff);
    request.on('error', brokeOff);
  });
}

/** Answers a request. */
export function send(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    // A refused request may still be sending its body; this connection is not worth waiting for.
    ...(status >= 400 ? { connection: 'close' } : {}),
    ...headers,
  });
  response.end(body);
}

/** Starts listening; returns `http://host:port`, with the real port. @throws PM_LISTEN when the address cannot be had. */
export async function listenAt(server: Server, { host, name, port }: DoorAddress): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const why = cause.code === 'EADDRINUSE' ? 'another process uses that port' : errorText(cause);
      reject(new PointsmanError('PM_LISTEN', `${name} cannot listen on ${host}:${port}: ${why}`, { cause }));
    });
    server.listen(port, host, () => resolve());
  });
  const bound = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound.port}`;
}

/** Lets running answers finish, within 5 s, and frees the port. */
export async function stopServer(
  server: Server,
  running: ReadonlySet<Promise<void>>,
  clock: Clock,
): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // Who sends half a request, or reads nothing, must not keep the program alive.
  const cancel = clock.schedule(STOP_MS, () => server.closeAllConnections());
  await Promise.all(running);
  cancel();
  server.closeAllConnections();
  await closed;
}

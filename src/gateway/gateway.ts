// The HTTP server of the gateway: routes, limits of connections and headers, start and graceful stop.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import findMyWay from 'find-my-way';
import { type Readiness, readyAnswer } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { BrokenRequests } from './broken-requests.ts';
import { callerRules, NO_ADAPTERS } from './callers.ts';
import type { GatewayDeps, GatewayParts } from './gateway-deps.ts';
import { generate } from './generate.ts';
import { closeServer, listen } from './listening.ts';
import { publicError } from './openai-error.ts';
import { RunningCalls } from './running-calls.ts';
import { describeModel, listModels, sendError, sendJson } from './small-answers.ts';
import { SpeculativePrefills } from './speculative-prefills.ts';

/** A running gateway. */
export interface Gateway {
  /** Binds and answers the address in use (port 0 = any). @throws PointsmanError PM_LISTEN */
  listen(host: string, port: number): Promise<{ host: string; port: number }>;
  /** Requests being answered now. */
  activeRequests(): number;
  /** What its `/ready` says: the router's readiness, and that it is stopping once it is. */
  readiness(): Readiness;
  /**
   * Stops gracefully: `/ready` answers 503 and new requests are refused at once; running ones get `drainMs`, then end with an
   * error. Resolves when the port is closed. Further calls return the same promise.
   */
  stop(drainMs: number): Promise<void>;
}

/** Time for a client to send its headers, and its whole request, in ms. */
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 60_000;
/** How often Node looks for requests that are late, in ms. */
const LATE_CHECK_MS = 1_000;
/** Longer than the idle time of common load balancers (60 s), so that they close first, in ms. */
const KEEP_ALIVE_MS = 65_000;

/** Creates the gateway; it does not listen yet. */
export function createGateway(deps: GatewayDeps): Gateway {
  const rules = callerRules(deps.config);
  // A wrong trust network or key digest shows at start.
  rules();
  const calls = new RunningCalls(deps.clock);
  deps.metrics.gauge('pointsman_requests_active', () => calls.size);
  const limit = (): number => deps.config().limits.speculativePrefills;
  const speculative = new SpeculativePrefills({ ...deps, limit });
  const routes = createRoutes({ ...deps, speculative }, rules, calls);
  const server = createServer(
    {
      maxHeaderSize: deps.config().limits.headerBytes,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: LATE_CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    (req, res) => {
      // A connection error while the body is read is followed by close, which does the work.
      req.on('error', () => {});
      routes.lookup(req, res);
    },
  );
  // Read by the parser of each new connection.
  server.prependListener('connection', () => {
    Object.assign(server, { maxHeaderSize: deps.config().limits.headerBytes });
  });
  // One listener per request under way, and pipelined ones may be many.
  server.on('connection', (socket) => socket.setMaxListeners(0));
  const broken = new BrokenRequests(calls, deps.clock);
  // The server listens on TCP: what it hands out is a socket.
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => broken.answer(error, socket as Socket));
  let stopping: Promise<void> | null = null;
  return {
    listen: (host, port) => listen(server, host, port),
    activeRequests: () => calls.size,
    readiness: () => readinessOf(deps, calls),
    stop(drainMs) {
      speculative.stop();
      stopping ??= stop(server, calls, deps.clock, drainMs);
      return stopping;
    },
  };
}

function readinessOf(deps: GatewayDeps, calls: RunningCalls): Readiness {
  const { reasons, warnings } = deps.readiness();
  return { reasons: calls.draining ? ['the router is stopping', ...reasons] : reasons, warnings };
}

type Handler = (
  req: IncomingMessage,
  res: ServerResponse,
  params: Readonly<Record<string, string | undefined>>,
) => void;

function createRoutes(
  deps: GatewayParts,
  rules: ReturnType<typeof callerRules>,
  calls: RunningCalls,
): findMyWay.Instance<findMyWay.HTTPVersion.V1> {
  const started = deps.clock.now() / 1000;
  const overloadStatus = (): number => rules().config.limits.overloadStatus;
  const routes = findMyWay({
    ignoreTrailingSlash: true,
    maxParamLength: 1024,
    defaultRoute: (req, res) => sendError(res, noRoute(routes, req), overloadStatus()),
    onBadUrl: (_path, _req, res) => sendError(res, notFound(), overloadStatus()),
  });
  const get = (path: string, handler: Handler): void => {
    routes.on(['GET', 'HEAD'], path, (req, res, params) => {
      try {
        handler(req, res, params);
      } catch (thrown) {
        sendError(res, publicError(thrown), overloadStatus());
      }
    });
  };
  for (const [path, api] of [
    ['/v1/chat/completions', 'chat'],
    ['/v1/completions', 'completions'],
  ] as const) {
    // Errors become answers inside; the promise never rejects.
    routes.on('POST', path, (req, res) => void generate(api, req, res, deps, rules(), calls));
  }
  const adapters = (): ReadonlyMap<string, readonly string[]> => deps.adapters?.all() ?? NO_ADAPTERS;
  get('/v1/models', (req, res) => {
    const client = rules().authenticate(req.headers.authorization);
    sendJson(res, 200, listModels(rules(), adapters(), client, started));
  });
  // Names of models may hold slashes.
  get('/v1/models/*', (req, res, params) => {
    const client = rules().authenticate(req.headers.authorization);
    sendJson(res, 200, describeModel(rules(), adapters(), client, started, params['*'] ?? ''));
  });
  get('/health', (_req, res) => sendJson(res, 200, { status: 'healthy' }));
  get('/live', (_req, res) => {
    sendJson(res, calls.draining ? 503 : 200, { status: calls.draining ? 'shutting_down' : 'live' });
  });
  get('/ready', (_req, res) => {
    const { status, body } = readyAnswer(readinessOf(deps, calls));
    sendJson(res, status, body);
  });
  return routes;
}

function noRoute(routes: findMyWay.Instance<findMyWay.HTTPVersion.V1>, req: IncomingMessage): PointsmanError {
  const path = (req.url ?? '/').split('?')[0] ?? '/';
  // A path that cannot be decoded is "found" under every method.
  if (!isDecodable(path)) return notFound();
  for (const [method, allow] of [
    ['GET', 'GET, HEAD'],
    ['POST', 'POST'],
  ] as const) {
    if (method !== req.method && routes.find(method, path) !== null) {
      return new PointsmanError('PM_REQUEST_METHOD', `this path answers ${method} only`, {
        details: { allow },
      });
    }
  }
  return notFound();
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

function notFound(): PointsmanError {
  return new PointsmanError(
    'PM_REQUEST_NOT_FOUND',
    'there is no such path here; metrics and administration have their own port',
  );
}

async function stop(server: Server, calls: RunningCalls, clock: Clock, drainMs: number): Promise<void> {
  calls.draining = true;
  const cancel = clock.schedule(drainMs, () =>
    calls.stopAll(
      new PointsmanError('PM_SHUTTING_DOWN', 'the router stopped before the answer was complete'),
    ),
  );
  await calls.empty();
  cancel();
  await closeServer(server, clock);
}

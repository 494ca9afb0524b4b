// The admin HTTP server: routes, guard, caps. It reads what it was handed; what changes something is a POST.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import createRouter from 'find-my-way';
import { readThresholdChange } from '../config/index.ts';
import { readyAnswer } from '../observe/index.ts';
import { errorText, exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import { listDecisions, oneDecision } from './decision-queries.ts';
import { EventStreams } from './event-stream.ts';
import { guardOrigin, guardRequest } from './guard.ts';
import { badRequest, readJson } from './json-body.ts';
import { plainPage } from './plain-page.ts';
import type { AdminOptions, AdminServer } from './types.ts';

const MAX_HEADER_BYTES = 16_384;
const MAX_CONNECTIONS = 256;

/** One answer; null when the handler wrote it itself. */
interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  parts: { readonly query: URLSearchParams; readonly params: Readonly<Record<string, string | undefined>> },
) => Answer | null | Promise<Answer | null>;

/** Starts the admin API; resolves once it listens. Rejects with the system's error when the address is taken. */
export async function createAdminServer(options: AdminOptions): Promise<AdminServer> {
  const streams = options.events === undefined ? null : new EventStreams(options.events);
  const routes = new Map(Object.entries(adminRoutes(options, streams)));
  const actions = new Map(Object.entries(adminActions(options)));
  const router = createRouter<createRouter.HTTPVersion.V1>({
    ignoreTrailingSlash: true,
    maxParamLength: 200,
  });
  for (const path of routes.keys()) router.on('GET', path, () => {}, path);
  for (const path of actions.keys()) router.on('POST', path, () => {}, path);
  const running = new Set<Promise<void>>();

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const [path = '/', query = ''] = (request.url ?? '/').split('?', 2);
      if (path !== '/health') guardRequest(request, options.token);
      if (request.method === 'POST') guardOrigin(request);
      const isPost = request.method === 'POST';
      const reads = request.method === 'GET' || request.method === 'HEAD';
      const route = isPost || reads ? router.find(isPost ? 'POST' : 'GET', path) : null;
      const handler = route === null ? undefined : (isPost ? actions : routes).get(String(route.store));
      if (route === null || handler === undefined) throw notFound(request.method ?? '', path);
      send(
        response,
        await handler(request, response, { query: new URLSearchParams(query), params: route.params }),
      );
    } catch (thrown) {
      fail(response, thrown, options);
    }
  };
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    const answered = answer(request, response).finally(() => running.delete(answered));
    running.add(answered);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const { port } = server.address() as AddressInfo;
  const shownHost = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `http://${shownHost}:${port}`,
    port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      streams?.close();
      await Promise.all(running);
      server.closeAllConnections();
      await closed;
    },
  };
}

function adminRoutes(options: AdminOptions, streams: EventStreams | null): Record<string, Handler> {
  const routes: Record<string, Handler> = {
    '/health': () => json(200, { status: 'ok' }),
    '/ready': () => {
      const { status, body } = readyAnswer(options.ready());
      return json(status, body);
    },
    '/metrics': async () => {
      const type = options.metrics.contentType ?? 'text/plain; version=0.0.4; charset=utf-8';
      return { status: 200, type, body: await options.metrics.text() };
    },
    '/decisions': (_request, _response, { query }) => json(200, listDecisions(options.decisions, query)),
    '/decisions/:id': (_request, _response, { params }) =>
      json(200, oneDecision(options.decisions, params.id ?? '')),
    '/workers': () => json(200, options.workers()),
    '/plugins': () => json(200, options.plugins()),
    '/config': () => json(200, options.config()),
  };
  const { timingProfile } = options;
  if (timingProfile !== undefined) routes['/timing_profile'] = () => json(200, timingProfile());
  const { busyThresholds } = options;
  if (busyThresholds !== undefined) {
    routes['/busy_threshold'] = () => json(200, { thresholds: busyThresholds.list() });
  }
  if (streams !== null) {
    routes['/events'] = (request, response) => {
      if (request.method === 'HEAD') return { status: 200, type: 'text/event-stream', body: '' };
      streams.open(request, response);
      return null;
    };
  }
  const paths = Object.keys(routes).filter((path) => !path.includes(':'));
  routes['/'] = () => {
    return { status: 200, type: 'text/html; charset=utf-8', body: plainPage(options.addresses ?? {}, paths) };
  };
  return routes;
}

function adminActions({ reload, busyThresholds }: AdminOptions): Record<string, Handler> {
  const actions: Record<string, Handler> = {};
  if (reload !== undefined) {
    actions['/plugins/reload'] = async () => {
      const report = await reload();
      return json(report.result === 'failed' ? 409 : 200, report);
    };
  }
  if (busyThresholds !== undefined) {
    actions['/busy_threshold'] = async (request) => {
      const change = readThresholdChange(await readJson(request));
      if ('problems' in change) throw badRequest(change.problems.join('; '));
      const changed = busyThresholds.change(change);
      if (changed !== null) return json(200, changed);
      throw badRequest(
        `model: there is no model "${change.model}"; GET /busy_threshold lists those there are`,
      );
    };
  }
  return actions;
}

function json(status: number, value: unknown): Answer {
  return { status, type: 'application/json', body: exactJsonStringify(value) };
}

function send(response: ServerResponse, answer: Answer | null): void {
  if (answer === null) return;
  response.writeHead(answer.status, {
    'content-type': answer.type,
    'content-length': Buffer.byteLength(answer.body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(answer.type.startsWith('text/html') ? { 'content-security-policy': "default-src 'none'" } : {}),
    ...(answer.status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    // A refused request may still be sending its body; this connection is not worth waiting for.
    ...(answer.status >= 400 && answer.status !== 503 ? { connection: 'close' } : {}),
  });
  response.end(answer.body);
}

function notFound(method: string, path: string): PointsmanError {
  return new PointsmanError(
    'PM_ADMIN_NOT_FOUND',
    `the admin API has no ${method} ${path.slice(0, 80)}; GET / lists what it has`,
  );
}

function fail(response: ServerResponse, thrown: unknown, options: AdminOptions): void {
  const known = thrown instanceof PointsmanError;
  if (!known) options.log.error('an admin request failed', { error: errorText(thrown) });
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const error = known
    ? thrown
    : new PointsmanError('PM_ADMIN_FAILED', 'the admin API could not answer; the log says why');
  send(response, json(error.status, { error: { code: error.code, message: error.message } }));
}

// The HTTP side of the indexer: paths, caps, who may call, metrics.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isLoopback } from '../../config/index.ts';
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
import type { AccessLog } from './access-log.ts';
import type { IndexerRegistry } from './registry.ts';
import { postRoutes } from './routes.ts';

const NAME = 'the indexer';
const ERRORS: DoorErrors = {
  request: 'PM_INDEXER_REQUEST',
  tooLarge: 'PM_INDEXER_TOO_LARGE',
  host: 'PM_INDEXER_HOST',
};
const MAX_HEADER_BYTES = 16_384;
const MAX_CONNECTIONS = 1024;
/** Each holds a copy of an index while it is read. */
const MAX_DUMPS = 4;
const GETS = ['/health', '/metrics', '/workers', '/dump', '/peers'] as const;

/** What the server answers from. */
export interface IndexerServerOptions {
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly registry: IndexerRegistry;
  readonly hasher: BlockHasher;
  readonly metrics: ScrapableMetrics;
  readonly clock: Clock;
  readonly log: Logger;
  /** Mounts `/test/pause_listener` and `/test/resume_listener`. */
  readonly testEndpoints: boolean;
  /** Null = none. */
  readonly accessLog: AccessLog | null;
  /** Header with the caller's name for a request, in lower case. */
  readonly traceIdHeader: string;
}

/** A listening server. */
export interface IndexerServer {
  /** `http://host:port`, with the real port. */
  readonly url: string;
  /** Lets running answers finish, within 5 s, and frees the port. */
  close(): Promise<void>;
}

/** Starts listening. @throws PM_LISTEN when the address cannot be had. */
export async function listenIndexer(options: IndexerServerOptions): Promise<IndexerServer> {
  const { accessLog, clock, host, log, metrics, port, registry } = options;
  const dumps = { running: 0 };
  const posts = postRoutes(registry, () => accessLog?.reopen(), options.testEndpoints);
  const running = new Set<Promise<void>>();
  const isLocal = isLoopback(host);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [path = '/', search = ''] = (request.url ?? '/').split('?', 2);
    const { method = 'GET' } = request;
    const isKnown = posts.has(path) || GETS.some((known) => known === path);
    const endpoint = isKnown ? path : 'other';
    const startedAt = clock.now();
    const remote = request.socket.remoteAddress ?? '';
    try {
      if (isLocal) guardLocal(request, NAME, ERRORS);
      const route = method === 'POST' ? posts.get(path) : undefined;
      if (route !== undefined) {
        const { status, value } = await route(await readJson(request, ERRORS));
        send(response, status, 'application/json', exactJsonStringify(value));
      } else if (method === 'GET' && GETS.some((known) => known === path)) {
        await get(options, path, new URLSearchParams(search), response, dumps);
      } else {
        throw new PointsmanError('PM_INDEXER_UNKNOWN', `the indexer has no ${method} ${path.slice(0, 80)}`);
      }
    } catch (thrown) {
      fail(response, thrown, log);
    }
    const { statusCode } = response;
    metrics.count('pointsman_indexer_requests_total', { endpoint, method: isKnown ? method : 'other' });
    if (statusCode >= 400) {
      const statusClass = `${Math.floor(statusCode / 100)}xx`;
      metrics.count('pointsman_indexer_errors_total', { endpoint, status_class: statusClass });
    }
    const durationMs = clock.now() - startedAt;
    metrics.observe('pointsman_indexer_request_duration_seconds', durationMs / 1000, { endpoint });
    const traceId = request.headers[options.traceIdHeader];
    accessLog?.write({
      atMs: startedAt,
      remote,
      method,
      path,
      status: statusCode,
      durationMs,
      traceId: typeof traceId === 'string' ? traceId : null,
    });
  };
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    const answered = answer(request, response).finally(() => running.delete(answered));
    running.add(answered);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const url = await listenAt(server, { name: NAME, host, port });
  return { url, close: () => stopServer(server, running, clock) };
}

async function get(
  options: IndexerServerOptions,
  path: string,
  search: URLSearchParams,
  response: ServerResponse,
  dumps: { running: number },
): Promise<void> {
  const { metrics, registry } = options;
  switch (path) {
    case '/health':
      return send(response, 200, 'text/plain', '');
    case '/metrics':
      return send(response, 200, metrics.contentType, await metrics.text());
    case '/peers':
      return send(response, 200, 'application/json', exactJsonStringify(registry.peers));
    case '/workers': {
      const workers = registry.workers(search.get('model_name'), search.get('routing_group'));
      return send(response, 200, 'application/json', exactJsonStringify(workers));
    }
    default:
      break;
  }
  if (dumps.running >= MAX_DUMPS) {
    throw new PointsmanError(
      'PM_INDEXER_FULL',
      `${MAX_DUMPS} dumps are being read, which is the most at once; ask again later`,
    );
  }
  dumps.running += 1;
  try {
    await answerDump(response, registry.partitions(), options.hasher, options.clock);
  } finally {
    dumps.running -= 1;
  }
}

function fail(response: ServerResponse, thrown: unknown, log: Logger): void {
  const known = thrown instanceof PointsmanError;
  if (!known) log.error('a request to the indexer failed', { error: errorText(thrown) });
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const error = known
    ? thrown
    : new PointsmanError('PM_INTERNAL', 'the indexer could not answer; the log says why');
  send(
    response,
    error.status,
    'application/json',
    exactJsonStringify({ error: error.message, code: error.code }),
  );
}

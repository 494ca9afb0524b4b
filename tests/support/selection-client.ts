// A client of the selection service that knows only what is published: paths, JSON bodies and statuses.

import {
  type SelectionRouter,
  type SelectionRouterOptions,
  startSelectionRouter,
} from '../../src/cli/selection-router.ts';
import { parseConfig, parseExactJson, SELECTION_SERVICE_DEFAULTS } from '../../src/config/index.ts';
import { type Clock, exactJsonStringify, type Logger, ManualClock, NO_LOG } from '../../src/plugin/index.ts';

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** An answer; the value keeps every digit. */
export interface Answer {
  readonly status: number;
  readonly value: Json;
  readonly headers: Headers;
}

/** Asks a service. */
export async function ask(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : exactJsonStringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type') === 'application/json';
  return {
    status: response.status,
    value: (isJson ? parseExactJson(text) : { text }) as Json,
    headers: response.headers,
  };
}

/** A client of one service. */
export class SelectionClient {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  get(path: string): Promise<Answer> {
    return ask(this.url, 'GET', path);
  }

  post(path: string, body: unknown = {}, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    return ask(this.url, 'POST', path, body, headers);
  }

  patch(path: string, body: unknown): Promise<Answer> {
    return ask(this.url, 'PATCH', path, body);
  }

  delete(path: string): Promise<Answer> {
    return ask(this.url, 'DELETE', path);
  }

  /** Registers a worker that says all there is to say, without KV events. */
  worker(id: number | bigint, changes: Json = {}): Promise<Answer> {
    return this.post('/workers', workerRecord(id, changes));
  }
}

/** A complete record. Nobody listens at its addresses. */
export function workerRecord(id: number | bigint, changes: Json = {}): Json {
  return {
    worker_id: id,
    endpoint: `http://127.0.0.1:1/${id}`,
    kv_events_endpoint: `tcp://127.0.0.1:${20_000 + Number(BigInt(id) % 10_000n)}`,
    block_size: 4,
    ...changes,
  };
}

/** A service of this process in its own time, with a client. */
export interface LocalService {
  readonly service: SelectionRouter;
  readonly client: SelectionClient;
  readonly clock: ManualClock;
}

/** What a local service is started with. */
export interface LocalServiceOptions {
  /** router.yaml. */
  readonly yaml?: string;
  readonly cache?: Partial<typeof SELECTION_SERVICE_DEFAULTS>;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly register?: SelectionRouterOptions['register'];
}

/** Starts one on a free port; without KV events unless the configuration says otherwise. */
export async function localService(options: LocalServiceOptions = {}): Promise<LocalService> {
  const { config, source } = parseConfig(options.yaml ?? 'router: { use_kv_events: false }', 'router.yaml');
  const clock = new ManualClock(1_000_000);
  const service = await startSelectionRouter({
    config,
    source,
    settings: { ...SELECTION_SERVICE_DEFAULTS, ...options.cache, port: 0 },
    clock: options.clock ?? clock,
    log: options.log ?? NO_LOG,
    ...(options.register === undefined ? {} : { register: options.register }),
  });
  return { service, client: new SelectionClient(service.url), clock };
}

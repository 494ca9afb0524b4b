// The simulated engine's HTTP surface, shaped like vLLM's server plus the hint capability endpoint.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type Clock, PointsmanError } from '../../plugin/index.ts';
import type { TextTokenizer } from '../../tokens/index.ts';
import { handoffAnswer, readHandoff } from '../handoff-fields.ts';
import type { SimulatedEngineSettings } from '../types.ts';
import { CompletionAnswer } from './completion-answer.ts';
import {
  MAX_MODEL_LEN,
  readCompletionRequest,
  readTokenizeRequest,
  type SimApi,
} from './completion-request.ts';
import type { EngineDriver, RequestListener } from './engine-driver.ts';
import type { EngineMetrics } from './engine-metrics.ts';
import { send, sendError, sendJson } from './http-answers.ts';
import { readJsonBody } from './request-body.ts';

/** Requests waiting and running at most; more are refused with 503. */
const MAX_ACTIVE = 4096;

const MAX_REQUEST_ID = 256;

/** Connections of the router's pool rest between requests; an engine that drops them first causes resets. */
const KEEP_ALIVE_MS = 75_000;

/** What a server works with. */
export interface EngineServerOptions {
  readonly settings: SimulatedEngineSettings;
  readonly driver: EngineDriver;
  readonly tokenizer: TextTokenizer;
  readonly textOf: (tokenId: number) => string;
  readonly metrics: EngineMetrics;
  readonly clock: Clock;
  /** Answer of `GET /kv_hints/capabilities`. */
  readonly capabilities: () => unknown;
  /** Who it is to engines that take its KV. */
  readonly identity: () => { readonly engineId: string; readonly host: string; readonly port: number };
  /** Largest request body, bytes. */
  readonly maxBodyBytes: number;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** A server that is not listening yet. Requests under way are aborted in the engine when their client leaves. */
export function createEngineServer(options: EngineServerOptions): Server {
  const routes = routesOf(options);
  const server = createServer((request, response) => {
    void answer(routes, request, response);
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  return server;
}

async function answer(
  routes: ReadonlyMap<string, ReadonlyMap<string, Handler>>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? '/').split('?', 1)[0]!;
  const method = request.method ?? 'GET';
  try {
    const methods = routes.get(path);
    if (methods === undefined)
      throw new PointsmanError('PM_SIM_NOT_FOUND', `there is no ${path.slice(0, 100)} here`);
    const handler = methods.get(method);
    if (handler === undefined) {
      throw new PointsmanError(
        'PM_SIM_METHOD',
        `${path} takes ${[...methods.keys()].join(', ')}, not ${method}`,
      );
    }
    await handler(request, response);
  } catch (thrown) {
    // A body that is not read to its end leaves the connection unusable.
    sendError(response, thrown, request.complete ? {} : { connection: 'close' });
  }
}

function routesOf(options: EngineServerOptions): Map<string, Map<string, Handler>> {
  const { settings, driver, metrics, tokenizer, clock, maxBodyBytes } = options;
  const started = Math.floor(clock.now() / 1000);
  const get = (handler: Handler): Map<string, Handler> => new Map([['GET', handler]]);
  const post = (handler: Handler): Map<string, Handler> => new Map([['POST', handler]]);
  return new Map([
    ['/v1/completions', post((request, response) => complete(options, 'completions', request, response))],
    ['/v1/chat/completions', post((request, response) => complete(options, 'chat', request, response))],
    [
      '/tokenize',
      post(async (request, response) => {
        const body = await readJsonBody(request, maxBodyBytes);
        const tokens = Array.from(readTokenizeRequest(body, settings.model, tokenizer));
        sendJson(response, 200, {
          count: tokens.length,
          max_model_len: MAX_MODEL_LEN,
          tokens,
          token_strs: null,
        });
      }),
    ],
    [
      '/v1/models',
      get((_, response) => {
        const model = {
          id: settings.model,
          object: 'model',
          created: started,
          owned_by: 'pointsman-sim',
          root: settings.model,
          parent: null,
          max_model_len: MAX_MODEL_LEN,
        };
        sendJson(response, 200, { object: 'list', data: [model] });
      }),
    ],
    ['/health', get((_, response) => send(response, 200, 'text/plain', ''))],
    [
      '/metrics',
      get(async (_, response) => send(response, 200, metrics.contentType, await metrics.render())),
    ],
    ['/kv_hints/capabilities', get((_, response) => sendJson(response, 200, options.capabilities()))],
    ['/load', get((_, response) => sendJson(response, 200, { server_load: driver.active }))],
  ]);
}

async function complete(
  options: EngineServerOptions,
  api: SimApi,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { driver, settings, metrics } = options;
  const body = await readJsonBody(incoming, options.maxBodyBytes);
  const request = readCompletionRequest(body, api, settings.model, options.tokenizer);
  if (driver.active >= MAX_ACTIVE) {
    throw new PointsmanError('PM_SIM_BUSY', `this engine already has ${MAX_ACTIVE} requests`);
  }
  if (response.destroyed) return;
  const requestId = requestIdOf(incoming);
  const answering = new CompletionAnswer({
    response,
    request,
    id: `${api === 'chat' ? 'chatcmpl' : 'cmpl'}-${requestId}`,
    requestId,
    model: settings.model,
    created: Math.floor(options.clock.now() / 1000),
    textOf: options.textOf,
    handoffAnswer(held) {
      const { engineId, ...address } = options.identity();
      return handoffAnswer(held, engineId, address, request.tokens.length);
    },
  });
  const handoff = readHandoff(request.handoff, {
    role: settings.role,
    requestId,
    promptBlocks: Math.ceil(request.tokens.length / settings.blockSize),
    endpointOf: (host, port) => `tcp://${host}:${port}`,
  });
  let over = false;
  const listener: RequestListener = {
    admitted(cachedTokens, outcomes) {
      metrics.admitted(request.tokens.length, cachedTokens, outcomes);
      answering.admitted(cachedTokens, outcomes);
    },
    token(tokenId) {
      metrics.generated(1);
      answering.token(tokenId);
    },
    finished(result) {
      over = true;
      if (!result.rejected && result.failure === undefined) metrics.finished();
      answering.finished(result);
    },
  };
  const engineId = freeId(driver, requestId);
  // Once it is over, the id may already belong to another request.
  response.on('close', () => {
    if (!over) driver.abort(engineId);
  });
  const { cacheSalt, tokens, maxTokens: outputTokens, sessionId, hint } = request;
  driver.submit({ id: engineId, tokens, outputTokens, sessionId, cacheSalt, hint, handoff }, listener);
}

/** The caller's request id, since the synthetic answer depends on it; a new one when there is none. */
function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  if (typeof given === 'string' && given !== '' && given.length <= MAX_REQUEST_ID) return given;
  return randomUUID().replaceAll('-', '');
}

/** The id itself unless a request of that id is under way. */
function freeId(driver: EngineDriver, id: string): string {
  if (!driver.has(id)) return id;
  let copy = 2;
  while (driver.has(`${id}#${copy}`)) copy += 1;
  return `${id}#${copy}`;
}

// The endpoints of vLLM's server that a router meets.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../plugin/index.ts';
import type { TextTokenizer } from '../../tokens/index.ts';
import { handoffAnswer, readHandoff } from '../handoff-fields.ts';
import type { SimulatedHandoff, SimulatedHintOutcome } from '../types.ts';
import type { DoubleFaults } from './double-faults.ts';
import type { DoubleRank } from './double-rank.ts';
import {
  answerJson,
  answerText,
  type DoubleHandler,
  DoubleRefusal,
  type DoubleRequest,
} from './double-server.ts';
import { namespaceOf } from './planted-events.ts';
import { VllmAnswer } from './vllm-answer.ts';
import type { DoubleHints } from './vllm-double.ts';
import { refused } from './vllm-errors.ts';
import { type RankCounts, vllmMetrics } from './vllm-metrics.ts';
import {
  chatTokens,
  checkModel,
  type JsonObject,
  promptTokens,
  readObject,
  readVllmRequest,
  type VllmApi,
  type VllmRequest,
} from './vllm-request.ts';
import type { VllmServe } from './vllm-serve.ts';

/** What the endpoints work with. */
export interface VllmRoutesOptions {
  readonly serve: VllmServe;
  readonly hints: DoubleHints;
  readonly faults: DoubleFaults;
  readonly tokenizer: TextTokenizer;
  readonly clock: Clock;
  /** Names this run of the engine to those that take its KV. */
  readonly engineId: string;
  /** Filled before the first request. */
  readonly ranks: readonly DoubleRank[];
  readonly counts: readonly RankCounts[];
  readonly textOf: (tokenId: number) => string;
  readonly onOutcomes: (outcomes: readonly SimulatedHintOutcome[]) => void;
}

/** What the double calls itself. */
const VERSION = '0.20.0';
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The routes of a double. */
export function vllmRoutes(options: VllmRoutesOptions): Readonly<Record<string, DoubleHandler>> {
  const { counts, faults, ranks, serve, tokenizer } = options;
  const created = Math.floor(options.clock.now() / 1000);
  const guarded =
    (handler: DoubleHandler): DoubleHandler =>
    (request, response) => {
      const { apiKey } = serve;
      if (apiKey !== null && request.headers.authorization !== `Bearer ${apiKey}`)
        throw new DoubleRefusal(401, { error: 'Unauthorized' });
      return handler(request, response);
    };
  return {
    'GET /health': (_, response) => answerText(response, 200, 'text/plain', ''),
    'GET /ping': (_, response) => answerText(response, 200, 'text/plain', ''),
    'GET /version': (_, response) => answerJson(response, 200, { version: VERSION }),
    'GET /load': (_, response) => {
      const active = ranks.reduce((sum, { driver }) => sum + driver.active, 0);
      answerJson(response, 200, { server_load: serve.loadTracking ? active : 0 });
    },
    'GET /metrics': (_, response) => {
      const page = vllmMetrics({
        serve,
        blockSize: faults.announcedBlockSize ?? serve.blockSize,
        prefixCaching: serve.prefixCaching && faults.prefixCachingOff !== true,
        ranks: ranks.map(({ driver }, rank) => ({ stats: driver.stats(), counts: counts[rank]! })),
      });
      answerText(response, 200, METRICS_TYPE, page);
    },
    'GET /v1/models': guarded((_, response) => {
      const data = [...serve.models, ...serve.adapters].map((id, at) => ({
        ...{ id, object: 'model', created, owned_by: 'vllm', root: serve.models[0] },
        parent: at < serve.models.length ? null : serve.models[0],
        max_model_len: serve.maxModelLen,
        permission: [],
      }));
      answerJson(response, 200, { object: 'list', data });
    }),
    'POST /tokenize': (request, response) => {
      const body = readObject(request);
      checkModel(body, serve);
      const ids = Array.from(tokensOf(body, body.messages === undefined ? 'completions' : 'chat', tokenizer));
      const strings = body.return_token_strs === true ? ids.map((id) => tokenizer.decode([id])) : null;
      answerJson(response, 200, {
        ...{ count: ids.length, max_model_len: serve.maxModelLen, tokens: ids, token_strs: strings },
      });
    },
    'POST /detokenize': (request, response) => {
      const { tokens } = readObject(request);
      if (!Array.isArray(tokens) || !tokens.every((id): id is number => typeof id === 'number'))
        throw refused('Input should be a valid list', 'tokens');
      answerJson(response, 200, { prompt: tokenizer.decode(tokens) });
    },
    'POST /v1/chat/completions/render': guarded((request, response) => {
      answerJson(response, 200, rendered(options, request, 'chat'));
    }),
    'POST /v1/completions/render': guarded((request, response) => {
      answerJson(response, 200, [rendered(options, request, 'completions')]);
    }),
    'POST /v1/chat/completions': guarded((request, response) => complete(options, 'chat', request, response)),
    'POST /v1/completions': guarded((request, response) =>
      complete(options, 'completions', request, response),
    ),
  };
}

function tokensOf(body: JsonObject, api: VllmApi, tokenizer: TextTokenizer): Uint32Array {
  return api === 'chat' ? chatTokens(body, tokenizer) : promptTokens(body, tokenizer);
}

function rendered({ serve, tokenizer }: VllmRoutesOptions, request: DoubleRequest, api: VllmApi): object {
  const read = readVllmRequest(readObject(request), api, serve, tokenizer);
  return {
    request_id: `${api === 'chat' ? 'chatcmpl' : 'cmpl'}-${requestIdOf(request)}`,
    token_ids: Array.from(read.tokens),
    features: null,
    sampling_params: { n: read.n, max_tokens: read.maxTokens },
    model: read.model,
    stream: read.stream,
    priority: read.priority,
    cache_salt: read.cacheSalt,
    kv_transfer_params: read.kvTransferParams,
  };
}

function complete(
  options: VllmRoutesOptions,
  api: VllmApi,
  incoming: DoubleRequest,
  response: ServerResponse,
): void {
  const { clock, counts, engineId, faults, onOutcomes, serve, tokenizer } = options;
  const request = readVllmRequest(readObject(incoming), api, serve, tokenizer);
  const at = rankOf(options, incoming);
  const rank = options.ranks[at]!;
  const count = counts[at]!;
  const requestId = requestIdOf(incoming);
  const hint = hintOf(options.hints, request);
  const answer = new VllmAnswer({
    ...{ response, request, requestId, textOf: options.textOf, tellsCached: serve.promptTokensDetails },
    created: Math.floor(clock.now() / 1000),
    handoffAnswer: (held) => handoffAnswer(held, engineId, addressOf(rank.control), request.tokens.length),
  });
  let over = false;
  // Ids are the client's to choose; inside the engine each is another one.
  const id = `${requestId}-${randomUUID()}`;
  response.on('close', () => {
    if (!over) rank.driver.abort(id);
  });
  rank.driver.submit(
    {
      id,
      tokens: request.tokens,
      outputTokens: request.maxTokens,
      sessionId: request.sessionId,
      hint,
      handoff: handoffOf(options, request, requestId),
      // What nobody else can have is never found again.
      cacheSalt: serve.prefixCaching && faults.prefixCachingOff !== true ? scopeOf(options, request) : id,
    },
    {
      admitted(cachedTokens, outcomes) {
        count.queries += request.tokens.length;
        count.hits += cachedTokens;
        count.promptTokens += request.tokens.length;
        if (hint !== null) onOutcomes(outcomes);
        answer.admitted(cachedTokens);
      },
      token(tokenId) {
        count.generationTokens += 1;
        answer.token(tokenId);
      },
      finished(result) {
        over = true;
        if (!result.rejected && result.failure === undefined) count.finished += 1;
        answer.finished(result);
      },
    },
  );
}

/** What keeps the blocks of a request from those of others: its adapter and its salt. */
function scopeOf({ faults, serve }: VllmRoutesOptions, { cacheSalt, model }: VllmRequest): string | null {
  const adapter = serve.adapters.includes(model) ? model : null;
  return namespaceOf(adapter, faults.saltIgnored === true ? null : cacheSalt);
}

/** The rank that a request names, else the one with the least to do, by the measure of vLLM's own balancer. */
function rankOf({ ranks }: VllmRoutesOptions, { headers }: DoubleRequest): number {
  const named = headers['x-data-parallel-rank'];
  if (named !== undefined) {
    const rank = /^\d{1,9}$/.test(named) ? Number(named) : -1;
    if (rank >= 0 && rank < ranks.length) return rank;
    throw refused(`data_parallel_rank ${named.slice(0, 20)} is out of range [0, ${ranks.length}).`);
  }
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  ranks.forEach(({ driver }, rank) => {
    const { running, waiting } = driver.stats();
    const score = waiting * 4 + running;
    if (score < least) [best, least] = [rank, score];
  });
  return best;
}

/** What the tier makes of a request's hint; null = it has none for it, or there is no tier. */
function hintOf(hints: DoubleHints, { kvTransferParams: params }: VllmRequest): unknown {
  if (hints === 'envelope') return params?.kv_hint ?? null;
  if (hints === 'none' || (params?.router_hint ?? null) === null) return null;
  const copy = {
    action_id: 'a1',
    action_type: 'kv.fetch',
    action_version: '1.0',
    payload: params?.router_hint,
  };
  return { protocol_version: '0.1', message_id: '', actions: [copy] };
}

function handoffOf(
  { serve }: VllmRoutesOptions,
  { kvTransferParams, tokens }: VllmRequest,
  requestId: string,
): SimulatedHandoff | null {
  // Without a connector nobody reads them.
  if (serve.connector === null) return null;
  const none = { bootstrapHost: null, bootstrapPort: null, bootstrapRoom: null, prefillRank: null };
  return readHandoff(
    { ...none, kvTransferParams },
    {
      role: 'aggregated',
      requestId,
      promptBlocks: Math.ceil(tokens.length / serve.blockSize),
      endpointOf: (host, port) => `tcp://${host}:${port}`,
    },
  );
}

function requestIdOf({ headers }: DoubleRequest): string {
  const given = headers['x-request-id'];
  return given !== undefined && given !== '' && given.length <= 256
    ? given
    : randomUUID().replaceAll('-', '');
}

function addressOf(endpoint: string): { readonly host: string; readonly port: number } {
  const { hostname: host, port } = new URL(endpoint);
  return { host, port: Number(port) };
}

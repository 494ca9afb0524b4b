// A protocol double of SGLang's HTTP server, around machines of the simulator core: its endpoints, its refusals, its KV events, one rank
// per port. What it does not play is named in docs/engines/sglang.md.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { encodeSglangBatch } from '../../../events/index.ts';
import type { BlockHasher } from '../../../kv/index.ts';
import { type Clock, PointsmanError } from '../../../plugin/index.ts';
import { loadTextTokenizer, TINY_TOKENIZER, TINY_WORDS } from '../../../tokens/index.ts';
import { readHandoff } from '../../handoff-fields.ts';
import type { SimulatedEngineSettings } from '../../types.ts';
import { drain, listen } from '../../wire/listening.ts';
import { type DoubleFaults, NO_DOUBLE_FAULTS } from '../double-faults.ts';
import { type DoubleRank, startDoubleRank } from '../double-rank.ts';
import {
  answerJson,
  createDoubleServer,
  type DoubleFailure,
  type DoubleHandler,
  DoubleRefusal,
  type DoubleRequest,
  jsonBody,
} from '../double-server.ts';
import { SglangAnswer } from './sglang-answer.ts';
import type { HintField } from './sglang-hint.ts';
import { readSglangRequest, readTokenize, refusal, type SglangApi } from './sglang-request.ts';
import { answerMetrics, eventPlace, loadsOf, serverInfo } from './sglang-state.ts';

/** How a double is started; the flags of the server that it plays. */
export interface SglangDoubleOptions {
  /** `blockSize` = --page-size. */
  readonly settings: SimulatedEngineSettings;
  readonly hasher: BlockHasher;
  readonly clock: Clock;
  /** HTTP port; 0 = any free one. */
  readonly port?: number;
  /** --dp-size; default 1. */
  readonly ranks?: number;
  /** --kv-events-config; null (default) = no events. `base` = port of rank 0, `replayBase` = that of its replay; null = no replay. */
  readonly events?: {
    readonly topic: string;
    readonly base: number;
    readonly replayBase: number | null;
  } | null;
  /** --incremental-streaming-output. */
  readonly incremental?: boolean;
  /** --enable-metrics; without it `/metrics` is not there. */
  readonly metrics?: boolean;
  /** --enable-cache-report. */
  readonly reportsCache?: boolean;
  /** --context-length; default 131,072. */
  readonly contextLength?: number;
  /** Default `kv_hints`; null = the build has no field for hints. */
  readonly hintField?: HintField | null;
  readonly priorities?: boolean;
  readonly refusesPriorities?: boolean;
  /** A release from before `/server_info` was so named. */
  readonly olderNames?: boolean;
  /** Time until a closed connection ends a whole answer, ms; default 4,000. That of a stream is seen at once. */
  readonly noticesAfterMs?: number;
  readonly faults?: DoubleFaults;
  readonly maxBodyBytes?: number;
  readonly warn?: (problem: string) => void;
}

/** A running double. */
export interface SglangDouble {
  readonly url: string;
  /** Where peers ask each rank for KV. */
  readonly control: readonly string[];
  /** Where each rank publishes its KV events; none without --kv-events-config. */
  readonly kvEvents: readonly { readonly address: string; readonly replay: string | null }[];
  /** Requests so far, byte by byte. */
  requests(): readonly DoubleRequest[];
  /** Sessions that were closed, in order. */
  closedSessions(): readonly string[];
  /** Requests under way in all ranks. */
  active(): number;
  close(): Promise<void>;
}

const DEFAULT_BODY_BYTES = 32 * 1024 * 1024;
const CONTEXT_LENGTH = 131_072;
const EVENT_HISTORY = 10_000;
const NOTICES_AFTER_MS = 4_000;

/** Starts a double on loopback. @throws PointsmanError PM_SIM_SETTINGS, PM_SIM_START */
export async function startSglangDouble(options: SglangDoubleOptions): Promise<SglangDouble> {
  const { clock, faults = NO_DOUBLE_FAULTS, hasher, settings, warn = () => undefined } = options;
  const ranks: DoubleRank[] = [];
  const closeRanks = (): void => {
    for (const rank of ranks.splice(0)) rank.close();
  };
  const { events = null } = options;
  try {
    for (let rank = 0; rank < (options.ranks ?? 1); rank += 1) {
      ranks.push(
        await startDoubleRank({
          settings,
          rank,
          engineId: randomUUID(),
          events: events && {
            topic: events.topic,
            live: eventPlace(events.base, rank),
            replayAt: events.replayBase === null ? null : eventPlace(events.replayBase, rank).address,
            replayFrames: 3,
            history: EVENT_HISTORY,
            encode: encodeSglangBatch,
          },
          faults,
          hasher,
          clock,
          warn,
        }),
      );
    }
    // The radix cache of each rank says at its birth that it is empty.
    for (const rank of ranks) rank.clear();
    const served = new Served(options, ranks);
    const { server, requests } = createDoubleServer({
      routes: served.routes(),
      refusalOf,
      maxBodyBytes: options.maxBodyBytes ?? DEFAULT_BODY_BYTES,
    });
    await listen(server, options.port ?? 0);
    const bound = server.address();
    return {
      url: `http://127.0.0.1:${typeof bound === 'object' && bound !== null ? bound.port : 0}`,
      control: ranks.map(({ control }) => control),
      kvEvents: ranks.flatMap(({ events: published }) =>
        published === null ? [] : [{ address: published.endpoint, replay: published.replayEndpoint }],
      ),
      requests,
      closedSessions: () => served.closed,
      active: () => ranks.reduce((sum, { driver }) => sum + driver.active, 0),
      async close() {
        await drain(server, clock, 0);
        closeRanks();
      },
    };
  } catch (error) {
    closeRanks();
    throw error;
  }
}

/** The endpoints over the ranks. */
class Served {
  readonly closed: string[] = [];
  readonly #options: SglangDoubleOptions;
  readonly #ranks: readonly DoubleRank[];
  readonly #textTokens = loadTextTokenizer(TINY_TOKENIZER.tokenizer, TINY_TOKENIZER.template);
  readonly #words: readonly string[];
  readonly #running = new Map<string, { readonly abort: () => void }>();
  #next = 0;

  constructor(options: SglangDoubleOptions, ranks: readonly DoubleRank[]) {
    this.#options = options;
    this.#ranks = ranks;
    this.#words = Array.from({ length: TINY_WORDS }, (_, id) => this.#textTokens.decode([id]));
  }

  routes(): Readonly<Record<string, DoubleHandler>> {
    const { metrics = false, olderNames = false, settings } = this.#options;
    const info: DoubleHandler = (_, response) =>
      answerJson(response, 200, serverInfo(this.#options, this.#ranks));
    const flush: DoubleHandler = (_, response) => this.#flush(response);
    return {
      'POST /generate': (request, response) => this.#generate('generate', request, response),
      'POST /v1/completions': (request, response) => this.#generate('completions', request, response),
      'POST /v1/chat/completions': (request, response) => this.#generate('chat', request, response),
      ...(olderNames ? {} : { 'GET /server_info': info }),
      'GET /get_server_info': info,
      ...(metrics
        ? { 'GET /metrics': (_, response) => answerMetrics(response, this.#options, this.#ranks) }
        : {}),
      'GET /v1/loads': (_, response) => answerJson(response, 200, loadsOf(this.#options, this.#ranks)),
      'GET /v1/models': (_, response) =>
        answerJson(response, 200, {
          object: 'list',
          data: [
            { id: settings.model, object: 'model', created: 0, owned_by: 'sglang', root: settings.model },
          ],
        }),
      'GET /health': (_, response) => {
        response.end();
      },
      'GET /flush_cache': flush,
      'POST /flush_cache': flush,
      'POST /tokenize': (request, response) => {
        const tokens = [...readTokenize(jsonBody(request), this.#textTokens)];
        const { contextLength = CONTEXT_LENGTH } = this.#options;
        answerJson(response, 200, { tokens, count: tokens.length, max_model_len: contextLength });
      },
      'POST /abort_request': (request, response) => {
        const body = fieldsOf(request);
        const all = body.abort_all === true;
        for (const [rid, { abort }] of [...this.#running]) if (all || rid === body.rid) abort();
        response.end();
      },
      'POST /close_session': (request, response) => {
        const { session_id: session } = fieldsOf(request);
        if (typeof session !== 'string') throw refusal('completions', 'session_id must be a string');
        this.closed.push(session);
        response.end();
      },
    };
  }

  #generate(api: SglangApi, incoming: DoubleRequest, response: ServerResponse): void {
    const { clock, contextLength = CONTEXT_LENGTH, settings } = this.#options;
    const words = this.#words;
    const request = readSglangRequest(api, jsonBody(incoming), incoming.headers['x-data-parallel-rank'], {
      tokenizer: this.#textTokens,
      ranks: this.#ranks.length,
      contextLength,
      hintField: this.#options.hintField === undefined ? 'kv_hints' : this.#options.hintField,
      priorities: this.#options.priorities ?? false,
      refusesPriorities: this.#options.refusesPriorities ?? false,
    });
    const rid = request.rid ?? randomUUID().replaceAll('-', '');
    if (this.#running.has(rid)) throw refusal(api, `Duplicate request ID detected: ${rid}`);
    const handoff = readHandoff(request.handoff, {
      role: settings.role,
      requestId: rid,
      promptBlocks: Math.ceil(request.tokens.length / settings.blockSize),
      endpointOf: (host, port) => `tcp://${host}:${port}`,
    });
    const driver = this.#rank(request.rank).driver;
    let cancelNotice: () => void = () => undefined;
    const over = (): void => {
      cancelNotice();
      this.#running.delete(rid);
    };
    const answer = new SglangAnswer({
      response,
      request,
      rid,
      model: settings.model,
      created: Math.floor(clock.now() / 1000),
      textOf: (tokenId) => words[tokenId] ?? '',
      incremental: this.#options.incremental ?? false,
      reportsCache: this.#options.reportsCache ?? false,
      over,
    });
    this.#running.set(rid, {
      abort() {
        driver.abort(rid);
        answer.aborted();
      },
    });
    response.on('close', () => {
      if (response.writableFinished || !driver.has(rid)) return;
      const end = (): void => {
        driver.abort(rid);
        over();
      };
      if (request.stream) end();
      else cancelNotice = clock.schedule(this.#options.noticesAfterMs ?? NOTICES_AFTER_MS, end);
    });
    const { hint, maxTokens: outputTokens, sessionId, tokens } = request;
    const { faults = NO_DOUBLE_FAULTS } = this.#options;
    const salt = faults.saltIgnored === true ? null : request.cacheSalt;
    // What nobody else can have is never found again.
    const cacheSalt = faults.prefixCachingOff === true ? rid : salt;
    driver.submit({ id: rid, tokens, outputTokens, sessionId, hint, handoff, cacheSalt }, answer);
  }

  #rank(pinned: number | null): DoubleRank {
    const at = pinned ?? this.#next % this.#ranks.length;
    if (pinned === null) this.#next += 1;
    const rank = this.#ranks[at];
    if (rank === undefined) throw new PointsmanError('PM_SIM_START', `there is no rank ${at}`);
    return rank;
  }

  #flush(response: ServerResponse): void {
    if (this.#running.size > 0) {
      throw new DoubleRefusal(400, 'Flush cache failed: there are pending or running requests.');
    }
    for (const rank of this.#ranks) rank.clear();
    response.end('Cache flushed.\n');
  }
}

function fieldsOf(request: DoubleRequest): Readonly<Record<string, unknown>> {
  const body = jsonBody(request);
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw refusal('completions', 'the body must be a JSON object');
  }
  return { ...body };
}

/** FastAPI's own words, and SGLang's where a handler threw. */
function refusalOf(failure: DoubleFailure): DoubleRefusal {
  switch (failure.kind) {
    case 'no_route':
      return new DoubleRefusal(404, { detail: 'Not Found' });
    case 'wrong_method':
      return new DoubleRefusal(405, { detail: 'Method Not Allowed' }, { allow: failure.allowed.join(', ') });
    case 'too_large':
      return new DoubleRefusal(413, { detail: 'Request Entity Too Large' });
    case 'not_json':
      return new DoubleRefusal(400, { detail: 'JSON decode error' });
    case 'thrown': {
      const { thrown } = failure;
      const known = thrown instanceof PointsmanError && thrown.status < 500;
      return new DoubleRefusal(known ? thrown.status : 500, {
        error: { message: known ? thrown.message : 'Internal Server Error' },
      });
    }
  }
}

// Writes a request for SGLang's HTTP server: the OpenAI endpoints, with token ids for completions, and `/generate` for what only it
// takes. Field meanings: SGLang's request models and its native API (docs/engines/sglang.md has them with their reasons).
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import { type EngineCall, mustNameRank, type SideCall } from '../dialect.ts';
import { joinIds } from '../join-ids.ts';
import { withUsage } from '../stream-usage.ts';
import type { EngineRequest } from '../types.ts';
import { fitsGenerate, generateFields } from './generate-body.ts';
import { closesSession, lowerHint, settingsOf } from './hints.ts';

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';
const GENERATE = '/generate';

/** Members that only the router may write. */
const ROUTERS_OWN: readonly string[] = [
  'request_id',
  'rid',
  'kv_hints',
  'kv_router_hint',
  'kv_transfer_params',
  'routed_dp_rank',
  'data_parallel_rank',
  'disagg_prefill_dp_rank',
  'bootstrap_host',
  'bootstrap_port',
  'bootstrap_room',
  'bootstrap_pair_key',
];

/**
 * Whether a request goes to `/generate`: a completion with exact ids whose hint its OpenAI endpoints have no field for, and that asks
 * for nothing that `/generate` has no word for.
 */
export function usesGenerate(request: EngineRequest): boolean {
  const { api, body, servedAs, tokens } = request;
  if (api !== 'completions' || tokens === null || tokens.length === 0 || body === null) return false;
  // `model:adapter` names an adapter, and only where there is a model to name.
  if (servedAs.includes(':')) return false;
  return !settingsOf(request).openaiHints && lowerHint(request).field !== null && fitsGenerate(body);
}

/** Whether the field of a request's hint goes along with it. */
export function carriesHint(request: EngineRequest): boolean {
  return settingsOf(request).openaiHints || usesGenerate(request);
}

/**
 * The call for one request.
 * @throws PointsmanError PM_ENGINE_REQUEST when there is no body, when it nests too deep, or for a handoff of vLLM's.
 */
export function writeCall(request: EngineRequest): EngineCall {
  const { api, body, tokens } = request;
  if (body === null) {
    throw new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP');
  }
  const generates = usesGenerate(request);
  const asIds = api === 'completions' && tokens !== null && tokens.length > 0;
  const fields = generates
    ? generateFields(body, request.maxOutputTokens)
    : openaiFields(request, body, asIds);
  fields.stream = request.stream;
  addRouting(fields, request);
  const text = stringify(fields);
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: request.stream ? 'text/event-stream' : 'application/json',
    'x-request-id': request.requestId,
  };
  if (mustNameRank(request.worker)) headers['x-data-parallel-rank'] = String(request.rank);
  return {
    path: generates ? GENERATE : api === 'chat' ? CHAT : COMPLETIONS,
    headers,
    // Not as a member of the others: a long prompt costs no array of boxed numbers.
    body:
      asIds && tokens !== null
        ? `{"${generates ? 'input_ids' : 'prompt'}":[${joinIds(tokens)}],${text.slice(1)}`
        : text,
  };
}

/** Ends a session at the engine, once its last answer is out; null = it goes on, or the worker is not told. */
export function closeCall(request: EngineRequest): SideCall | null {
  const sessionId = engineSession(request);
  if (sessionId === null || !closesSession(request)) return null;
  return { name: 'close_session', ...sideCall('/close_session', { session_id: sessionId }) };
}

/** Ends a request that is under way: for a whole answer SGLang notices a closed connection only every few seconds. */
export function abortCall(request: EngineRequest): SideCall {
  return { name: 'abort', ...sideCall('/abort_request', { rid: request.requestId }) };
}

function sideCall(path: string, body: object): EngineCall {
  return {
    path,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(body),
  };
}

function openaiFields(
  request: EngineRequest,
  body: Readonly<Record<string, unknown>>,
  asIds: boolean,
): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...body, model: request.servedAs };
  for (const name of ROUTERS_OWN) delete fields[name];
  if (request.stream) fields.stream_options = withUsage(body.stream_options);
  else delete fields.stream_options;
  if (asIds) delete fields.prompt;
  // Ids that were sent need not be told, and of a stream of chat the server refuses to tell them.
  if (request.asksPromptTokenIds === true && request.api === 'chat' && !request.stream)
    fields.return_prompt_token_ids = true;
  // Otherwise SGLang generates 16 tokens, whatever the router counted with.
  if (request.api === 'completions' && typeof fields.max_tokens !== 'number') {
    fields.max_tokens = request.maxOutputTokens;
  }
  return fields;
}

/** What the router says of a request, under the same names at every endpoint. */
function addRouting(fields: Record<string, unknown>, request: EngineRequest): void {
  const { handoff = null, worker } = request;
  const settings = settingsOf(request);
  // The name by which it can be aborted.
  fields.rid = request.requestId;
  const session = engineSession(request);
  // SGLang refuses both at once; whoever drives its sessions by hand goes on doing so.
  if (session !== null && (fields.session_params ?? null) === null) fields.session_id = session;
  const priority = request.priority ?? 0;
  // None goes along that says nothing: servers with --abort-on-priority-when-disabled refuse any.
  if (priority !== 0) fields.priority = settings.lowPriorityFirst ? -priority : priority;
  if (mustNameRank(worker)) fields[settings.rankField] = request.rank;
  if (handoff?.shape === 'vllm') {
    const sentence = `worker ${worker.spec.id} has dialect sglang, which hands KV over in a room (handoff kind bootstrap), not by kv_transfer_params`;
    throw new PointsmanError('PM_ENGINE_REQUEST', sentence);
  }
  if (handoff !== null) {
    fields.bootstrap_host = handoff.host;
    fields.bootstrap_port = handoff.port;
    fields.bootstrap_room = handoff.room;
    if (handoff.prefillRank !== null) fields.disagg_prefill_dp_rank = handoff.prefillRank;
  }
  const { field } = lowerHint(request);
  if (field !== null && carriesHint(request)) fields[field.name] = field.value;
}

/** Sessions of different tenants are different ones at the engine too, so that none can close another's. */
function engineSession({ session }: EngineRequest): string | null {
  if (session === null) return null;
  return session.namespace === undefined ? session.sessionId : `${session.namespace}:${session.sessionId}`;
}

function stringify(fields: Readonly<Record<string, unknown>>): string {
  try {
    return exactJsonStringify(fields);
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown;
    throw new PointsmanError('PM_ENGINE_REQUEST', 'the request body nests deeper than 256 levels', {
      cause: thrown,
    });
  }
}

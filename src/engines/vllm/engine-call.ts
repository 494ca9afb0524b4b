// Writes a request for vLLM's OpenAI server. Field meanings: its completion and chat protocol; `kv_transfer_params` carries what its KV
// connector is told, a handoff and hints among it, with bare 64-bit integers.
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import { type EngineCall, mustNameRank } from '../dialect.ts';
import { withUsage } from '../stream-usage.ts';
import type { EngineRequest } from '../types.ts';
import { lowerHint } from './hints.ts';

/**
 * The call for one request. Completions carry the prompt as token ids when they are exact, so that the engine sees the very tokens
 * that were hashed; chat stays messages, as no chat endpoint of vLLM takes ids.
 * @param more further members of the body, of engines that are shaped like vLLM.
 * @throws PointsmanError PM_ENGINE_REQUEST when there is no body or it nests too deep.
 */
export function writeCall(request: EngineRequest, more: Readonly<Record<string, unknown>> = {}): EngineCall {
  const { body, tokens, api } = request;
  if (body === null) {
    throw new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP');
  }
  const fields: Record<string, unknown> = { ...body, model: request.servedAs, stream: request.stream };
  if (request.stream) fields.stream_options = withUsage(body.stream_options);
  else delete fields.stream_options;
  // The header names the request; a name of the client's own could collide with another request inside the engine.
  delete fields.request_id;
  if (request.session !== null) fields.session_id = request.session.sessionId;
  // vLLM takes the lower number first; none goes along that says nothing, as servers without priorities refuse any other than 0.
  if ((request.priority ?? 0) !== 0) fields.priority = -(request.priority ?? 0);
  if (request.asksPromptTokenIds === true) fields.return_token_ids = true;
  const params = transferParams(request);
  if (params !== null) fields.kv_transfer_params = params;
  Object.assign(fields, more);
  const asTokens = api === 'completions' && tokens !== null;
  if (asTokens) delete fields.prompt;
  if (api === 'completions' && typeof fields.max_tokens !== 'number')
    fields.max_tokens = request.maxOutputTokens;
  const text = stringify(fields);
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: request.stream ? 'text/event-stream' : 'application/json',
    'x-request-id': request.requestId,
  };
  if (mustNameRank(request.worker)) headers['x-data-parallel-rank'] = String(request.rank);
  return {
    path: api === 'chat' ? '/v1/chat/completions' : '/v1/completions',
    headers,
    // Joined by the typed array itself: a long prompt costs no array of boxed numbers.
    body: asTokens ? `{"prompt":[${tokens.join(',')}],${text.slice(1)}` : text,
  };
}

/** Hint and handoff share one field. */
function transferParams(request: EngineRequest): Readonly<Record<string, unknown>> | null {
  const { handoff = null } = request;
  const params = handoff?.shape === 'vllm' ? handoff.params : null;
  const { member } = lowerHint(request);
  if (params === null && member === null) return null;
  return { ...params, ...(member === null ? null : { [member.name]: member.value }) };
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

// Writes a request for a vLLM-shaped engine. Field meanings: vLLM's OpenAI server (completion and chat protocol); hints ride
// in `kv_transfer_params.kv_hint` with bare 64-bit integers.
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import { type EngineCall, mustNameRank } from '../dialect.ts';
import { joinIds } from '../join-ids.ts';
import type { EngineRequest } from '../types.ts';

/**
 * The call for one request. Completions carry the prompt as token ids when they are exact, so that the engine sees the very
 * tokens that were hashed. A stream is always asked for its usage; the reader withholds it from clients who did not ask.
 * @throws PointsmanError PM_ENGINE_REQUEST when there is no body or it nests too deep.
 */
export function writeCall(request: EngineRequest): EngineCall {
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
  addTransferFields(fields, request);
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
    // Not as a member of the others: a long prompt costs no array of boxed numbers.
    body: asTokens ? `{"prompt":[${joinIds(tokens)}],${text.slice(1)}` : text,
  };
}

/** Whether the client itself asked for the usage chunk of its stream. */
export function askedForUsage(body: Readonly<Record<string, unknown>> | null): boolean {
  const options = body?.stream_options;
  return (
    typeof options === 'object' &&
    options !== null &&
    'include_usage' in options &&
    options.include_usage === true
  );
}

/** Hint and handoff share one field of vLLM's; SGLang's handoff has fields of its own. */
function addTransferFields(fields: Record<string, unknown>, { handoff = null, hint }: EngineRequest): void {
  const params = handoff?.shape === 'vllm' ? handoff.params : null;
  if (params !== null || hint !== null) {
    fields.kv_transfer_params = { ...params, ...(hint === null ? null : { kv_hint: hint }) };
  }
  if (handoff?.shape !== 'sglang') return;
  fields.bootstrap_host = handoff.host;
  fields.bootstrap_port = handoff.port;
  fields.bootstrap_room = handoff.room;
  if (handoff.prefillRank !== null) fields.disagg_prefill_dp_rank = handoff.prefillRank;
}

function withUsage(asked: unknown): Record<string, unknown> {
  const options: Record<string, unknown> =
    typeof asked === 'object' && asked !== null && !Array.isArray(asked) ? { ...asked } : {};
  // Without include_usage the other option had no effect; switching usage on must not wake it.
  if (options.include_usage !== true) delete options.continuous_usage_stats;
  options.include_usage = true;
  return options;
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

// Writes a request for llama.cpp's server. Its OpenAI endpoints read the fields of its own `/completion` as well, so that a completion
// carries token ids and both name the slot (tools/server of llama.cpp).
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import { type EngineCall, mustNameRank } from '../dialect.ts';
import { withUsage } from '../stream-usage.ts';
import type { EngineRequest, ReportedHintOutcome } from '../types.ts';

/**
 * Fields that pin a request or reach into a slot, and those that undo what was booked for it: another name of `max_tokens` that goes before
 * it, and of `n`. The router's to say, whatever a client sends.
 */
const ROUTERS_OWN = [
  'n_predict',
  'n_cmpl',
  'id_slot',
  'cache_prompt',
  'n_cache_reuse',
  'request_id',
  'kv_transfer_params',
  'kv_hints',
];

/**
 * The call for one request. A server of several ranks is told the slot; one of a single rank chooses among its slots itself. Sessions,
 * priorities and hints have no words there.
 * @throws PointsmanError PM_ENGINE_REQUEST when there is no body or it nests too deep.
 */
export function writeCall(request: EngineRequest): EngineCall {
  const { api, body, tokens } = request;
  if (body === null) {
    throw new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP');
  }
  const fields: Record<string, unknown> = { ...body, model: request.servedAs, stream: request.stream };
  for (const field of ROUTERS_OWN) delete fields[field];
  if (request.stream) fields.stream_options = withUsage(body.stream_options);
  else delete fields.stream_options;
  fields.cache_prompt = true;
  if (mustNameRank(request.worker)) fields.id_slot = request.rank;
  const asTokens = api === 'completions' && tokens !== null;
  if (asTokens) delete fields.prompt;
  // It would go on until the context is full.
  if (api === 'completions' && typeof fields.max_tokens !== 'number')
    fields.max_tokens = request.maxOutputTokens;
  const text = stringify(fields);
  return {
    path: api === 'chat' ? '/v1/chat/completions' : '/v1/completions',
    headers: {
      'content-type': 'application/json',
      accept: request.stream ? 'text/event-stream' : 'application/json',
    },
    body: asTokens ? `{"prompt":[${tokens.join(',')}],${text.slice(1)}` : text,
  };
}

/** What becomes of hints: nothing. */
export function hintsLeftOut({ hint }: Pick<EngineRequest, 'hint'>): readonly ReportedHintOutcome[] {
  return (hint?.actions ?? []).map(({ action_id: actionId }) => ({
    ...{ actionId, outcome: 'rejected' as const, reason: 'not_in_dialect' },
    ...{ blocksAsked: null, blocksDone: null, bytes: null },
  }));
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

// Writes a request for `trtllm-serve`. Its request models refuse members they do not know, so that nothing is added here that every
// release has not: no session, no priority, no name of the request (docs/engines/trtllm.md).
import { exactJsonStringify, PointsmanError } from '../../plugin/index.ts';
import { type EngineCall, mustNameRank } from '../dialect.ts';
import { joinIds } from '../join-ids.ts';
import { withUsage } from '../stream-usage.ts';
import type { EngineRequest, ReportedHintOutcome } from '../types.ts';
import { type RetentionConfig, retentionOf } from './retention.ts';

/** Members that only the router may write, and those of other engines that it may have written. */
const ROUTERS_OWN: readonly string[] = [
  'request_id',
  'rid',
  'session_id',
  'kv_transfer_params',
  'kv_hints',
  'kv_cache_retention_config',
  'disaggregated_params',
  'conversation_params',
  'priority',
];

/**
 * The call for one request.
 * @throws PointsmanError PM_ENGINE_REQUEST when there is no body, when it nests too deep, for a handoff, and for a worker with ranks.
 */
export function writeCall(request: EngineRequest): EngineCall {
  const { api, body, handoff = null, tokens, worker } = request;
  const refuse = (sentence: string): PointsmanError =>
    new PointsmanError('PM_ENGINE_REQUEST', `worker ${worker.spec.id} has dialect trtllm, ${sentence}`);
  if (body === null) {
    throw new PointsmanError('PM_ENGINE_REQUEST', 'a request without a body cannot be sent over HTTP');
  }
  if (handoff !== null) {
    throw refuse('whose context and generation servers are not joined here; give it the role aggregated');
  }
  if (mustNameRank(worker)) {
    throw refuse(
      'whose server takes no rank with a request; leave ranks out and give each server its own url',
    );
  }
  const fields: Record<string, unknown> = { ...body, model: request.servedAs, stream: request.stream };
  for (const name of ROUTERS_OWN) delete fields[name];
  // It refuses stream options for a whole answer.
  if (request.stream) fields.stream_options = withUsage(body.stream_options);
  else delete fields.stream_options;
  const asIds = api === 'completions' && tokens !== null && tokens.length > 0;
  if (asIds) delete fields.prompt;
  if (api === 'completions' && typeof fields.max_tokens !== 'number')
    fields.max_tokens = request.maxOutputTokens;
  const { config } = retentionIn(request);
  if (config !== null) fields.kv_cache_retention_config = config;
  const text = stringify(fields);
  return {
    path: api === 'chat' ? '/v1/chat/completions' : '/v1/completions',
    headers: {
      'content-type': 'application/json',
      accept: request.stream ? 'text/event-stream' : 'application/json',
      'x-request-id': request.requestId,
    },
    // Not as a member of the others: a long prompt costs no array of boxed numbers.
    body: asIds && tokens !== null ? `{"prompt":[${joinIds(tokens)}],${text.slice(1)}` : text,
  };
}

/** What of a hint was not sent: TensorRT-LLM has one retention for a request, and words for nothing else. */
export function loweringOutcomes(request: EngineRequest): readonly ReportedHintOutcome[] {
  const { actionId } = retentionIn(request);
  return (request.hint?.actions ?? [])
    .filter(({ action_id: id }) => id !== actionId)
    .map(({ action_id: id }) => ({
      actionId: id,
      outcome: 'rejected',
      reason: 'not_in_dialect',
      blocksAsked: null,
      blocksDone: null,
      bytes: null,
    }));
}

/** The first action that asks for a retention. */
function retentionIn({ hint }: EngineRequest): {
  readonly config: RetentionConfig | null;
  readonly actionId: string | null;
} {
  for (const action of hint?.actions ?? []) {
    const config = retentionOf(action);
    if (config !== null) return { config, actionId: action.action_id };
  }
  return { config: null, actionId: null };
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

// A request as it goes to an engine.
import type { EngineRequest } from '../engines/index.ts';
import type { Worker } from '../fleet/index.ts';
import type { KvHint } from '../plugin/index.ts';
import type { RequestLeg } from './request-leg.ts';
import type { RoadRequest } from './types.ts';

/**
 * For a booked rank; `hint` null = none goes along.
 * @param asksIds whether the engine is asked for the prompt token ids that it sees.
 * @throws what the request's leg throws.
 */
export function engineRequest(
  request: RoadRequest,
  worker: Worker,
  rank: number,
  hint: KvHint | null,
  asksIds: boolean,
): EngineRequest {
  const { leg } = request;
  const whole: EngineRequest = {
    requestId: request.requestId,
    partition: request.partition,
    role: request.role,
    worker,
    rank,
    servedAs: request.servedAs,
    api: request.api,
    body: request.body,
    stream: request.stream,
    tokens: request.tokensSource === 'estimate' ? null : request.tokens,
    maxOutputTokens: request.maxOutputTokens,
    session: request.session,
    priority: request.enginePriority ?? null,
    hint,
    ...(asksIds && { asksPromptTokenIds: true }),
  };
  return leg === undefined ? whole : { ...whole, ...handedOver(leg, worker, rank) };
}

function handedOver(
  { handoff, prefilledCachedTokens }: RequestLeg,
  worker: Worker,
  rank: number,
): Pick<EngineRequest, 'handoff' | 'prefilledCachedTokens'> {
  return { handoff: handoff(worker, rank), ...(prefilledCachedTokens !== null && { prefilledCachedTokens }) };
}

// What becomes of a hint on its way to SGLang: an envelope or a bare payload in one field of the body, and the end of a session as a
// call of its own. What no field can carry is said to be refused, so that nobody takes it for sent.
import type { SglangSettings } from '../../config/index.ts';
import type { KvHint, KvHintAction } from '../../plugin/index.ts';
import type { EngineRequest, ReportedHintOutcome } from '../types.ts';

/** A new release without flags. */
export const DEFAULT_SGLANG: SglangSettings = {
  closeSession: false,
  openaiHints: false,
  rankField: 'routed_dp_rank',
  lowPriorityFirst: false,
};

/** The settings of the worker that a request goes to. */
export function settingsOf(request: Pick<EngineRequest, 'worker'>): SglangSettings {
  return request.worker.spec.sglang ?? DEFAULT_SGLANG;
}

/** A hint in SGLang's words. */
export interface LoweredHint {
  /** Member of the body, by name; null = no action is left for it. */
  readonly field: { readonly name: string; readonly value: unknown } | null;
  /** Actions that are done by closing the session. */
  readonly closing: readonly KvHintAction[];
  /** Actions that no field of this worker's can carry. */
  readonly refused: readonly KvHintAction[];
}

const NOTHING: LoweredHint = { field: null, closing: [], refused: [] };

/** The hint of a request in the words of its worker. */
export function lowerHint(request: EngineRequest): LoweredHint {
  const { hint } = request;
  if (hint === null) return NOTHING;
  const closes = settingsOf(request).closeSession && request.session?.sessionFinal === true;
  const closing = closes ? hint.actions.filter(endsSession) : [];
  const rest = hint.actions.filter((action) => !closing.includes(action));
  if (request.worker.spec.hintForm !== 'legacy') {
    const envelope: KvHint = { ...hint, actions: rest };
    return { field: rest.length === 0 ? null : { name: 'kv_hints', value: envelope }, closing, refused: [] };
  }
  // Builds with the older field know one thing only: where the blocks are, and which.
  const fetch = rest.find(isFetch);
  return {
    field: fetch === undefined ? null : { name: 'kv_router_hint', value: fetch.payload },
    closing,
    refused: rest.filter((action) => action !== fetch),
  };
}

/** Whether the session of a request ends at the engine with it. */
export function closesSession(request: EngineRequest): boolean {
  return lowerHint(request).closing.length > 0;
}

/**
 * What is known of a request's actions before the engine says anything. The outcome of a fetch shows in `cached_tokens` alone.
 * @param carried whether the field of the hint went along.
 */
export function loweringOutcomes(request: EngineRequest, carried: boolean): readonly ReportedHintOutcome[] {
  if (request.hint === null) return [];
  const { closing, field, refused } = lowerHint(request);
  const sent = (action: KvHintAction): boolean =>
    field !== null && !closing.includes(action) && !refused.includes(action);
  const outcomes: ReportedHintOutcome[] = [];
  for (const action of request.hint.actions) {
    if (closing.includes(action)) outcomes.push(outcomeOf(action, 'deferred', 'close_session'));
    else if (refused.includes(action)) outcomes.push(outcomeOf(action, 'rejected', 'not_in_dialect'));
    else if (sent(action) && !carried) outcomes.push(outcomeOf(action, 'rejected', 'not_at_endpoint'));
  }
  return outcomes;
}

/** A session is closed when its blocks are given up at the end of its last request. */
function endsSession(action: KvHintAction): boolean {
  return action.action_type === 'kv.evict' && action.payload.execute_at === 'request_completion';
}

function isFetch(action: KvHintAction): boolean {
  return action.action_type === 'kv.fetch' && action.action_version === '1.0';
}

function outcomeOf(
  action: KvHintAction,
  outcome: 'deferred' | 'rejected',
  reason: string,
): ReportedHintOutcome {
  return {
    actionId: action.action_id,
    outcome,
    reason,
    blocksAsked: null,
    blocksDone: null,
    bytes: null,
  };
}

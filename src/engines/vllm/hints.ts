// A KV hint on its way to vLLM: one member of `kv_transfer_params`, which the KV connector of the engine reads, or nobody.
import type { KvHintAction } from '../../plugin/index.ts';
import type { EngineRequest, ReportedHintOutcome } from '../types.ts';

/** A hint in vLLM's words. */
export interface LoweredHint {
  /** Member of `kv_transfer_params`; null = there is nothing to say. */
  readonly member: { readonly name: 'kv_hint' | 'router_hint'; readonly value: unknown } | null;
  /** Actions that the form of this worker's hints has no words for. */
  readonly left: readonly KvHintAction[];
}

const NOTHING: LoweredHint = { member: null, left: [] };

/** The hint of a request as its worker takes it: the envelope as it is, or where the blocks of its one copy are and which. */
export function lowerHint({ hint, worker }: Pick<EngineRequest, 'hint' | 'worker'>): LoweredHint {
  if (hint === null) return NOTHING;
  if (worker.spec.hintForm !== 'legacy') return { member: { name: 'kv_hint', value: hint }, left: [] };
  const fetch = hint.actions.find(({ action_type }) => action_type === 'kv.fetch');
  return {
    member: fetch === undefined ? null : { name: 'router_hint', value: fetch.payload },
    left: hint.actions.filter((action) => action !== fetch),
  };
}

/** What is known of a request's actions without any word of the engine: those that were not sent. */
export function loweringOutcomes(
  request: Pick<EngineRequest, 'hint' | 'worker'>,
): readonly ReportedHintOutcome[] {
  return lowerHint(request).left.map(({ action_id: actionId }) => ({
    actionId,
    outcome: 'rejected',
    reason: 'not_in_dialect',
    blocksAsked: null,
    blocksDone: null,
    bytes: null,
  }));
}

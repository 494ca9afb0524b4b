// What a record tells of the time before a booking: what a classifier made of the request, and how it waited.
import type { DecisionInput } from './decision-input.ts';
import type { DecisionRecord } from './decision-record.ts';

/** The classification as it is recorded. */
export function classificationRecord(
  classification: NonNullable<DecisionInput['classification']> | null,
): DecisionRecord['classification'] {
  if (classification === null) return null;
  const { classifier, asked, waitedMs, overrides } = classification;
  const { policyClass, dueAt, schedulingCostTokens, workerTarget } = overrides;
  return {
    classifier,
    result: asked ? 'classified' : 'skipped',
    waited_ms: waitedMs,
    overrides: {
      ...(policyClass === undefined ? {} : { policy_class: policyClass }),
      ...(dueAt === undefined ? {} : { due_at_ms: dueAt }),
      ...(schedulingCostTokens === undefined ? {} : { scheduling_cost_tokens: schedulingCostTokens }),
      ...(workerTarget === undefined
        ? {}
        : {
            worker_target: workerTarget && { worker_id: workerTarget.workerId, dp_rank: workerTarget.rank },
          }),
    },
  };
}

/** What it waited for last is told; the wait is that for both. */
export function queueRecord({
  policyClass,
  queuedMs = null,
  turn = null,
}: DecisionInput): DecisionRecord['queue'] {
  const turnMs = turn?.waitedMs ?? null;
  return {
    class: policyClass,
    waited_ms: Math.max(queuedMs ?? 0, turnMs ?? 0),
    outcome: turnMs !== null ? 'queued' : queuedMs === null ? 'direct' : 'held',
    ...(turn !== null && { cost_tokens: turn.costTokens, bucket: turn.bucket }),
  };
}

// Weights that a caller sets for one request. They count where a role runs the default cost as it comes: one that was configured by
// name keeps its parameters, as plugins do.
import type { DefaultChoice } from './default-choice.ts';
import type { PlacementRequest } from './types.ts';

const DEFAULT_COST = 'dynamo-default-cost-fn';

/** The choice by a request's own weights; null = it has none, or its role's policy takes none. */
export function overriddenChoice(
  usual: DefaultChoice | null,
  { affinityTarget, constraints, costOverride, runtime }: PlacementRequest,
): DefaultChoice | null {
  if (usual === null || (costOverride ?? null) === null) return null;
  const { instance, type } = runtime.policy;
  // A pin and an affinity leave nothing to weigh, and the policy knows what they mean.
  if (constraints.pinnedWorker !== null || (affinityTarget ?? null) !== null) return null;
  return type === DEFAULT_COST && instance === null ? usual.weighing(costOverride ?? {}) : null;
}

// Asks a role's policy to choose; when it is broken rather than refusing, the default cost decides over the same candidates.
import { isRefusal, type RoleRuntime, type SelectionFacts, type SelectionPick } from '../host/index.ts';
import type { Metrics } from '../observe/index.ts';
import { errorText, PointsmanError } from '../plugin/index.ts';
import { overriddenChoice } from './cost-override.ts';
import type { SchedulerOptions } from './scheduler-options.ts';
import { inRange } from './selection-facts.ts';
import type { PlacementRequest, PlacementTable } from './types.ts';

/** The choice of one scheduler; what it says of itself is about its last one. */
export class PolicyChoice {
  fallback: SchedulerOptions['fallback'];
  readonly #metrics: Metrics;
  /** Code of the error for which the default cost decided; null = the policy chose. */
  fellBackOn: string | null = null;
  /** Weights of the default cost, when it decided. */
  costWeights: Readonly<Record<string, number>> | null = null;

  constructor(fallback: SchedulerOptions['fallback'], metrics: Metrics) {
    this.fallback = fallback;
    this.#metrics = metrics;
  }

  /** Nobody was asked, as the place was known. */
  passedOver(): void {
    this.fellBackOn = null;
    this.costWeights = null;
  }

  /** Chooses among at least one candidate. @throws PointsmanError of the policy, or PM_SELECTION_FAILED */
  choose(
    runtime: RoleRuntime,
    table: PlacementTable,
    facts: SelectionFacts,
    request: PlacementRequest,
  ): SelectionPick {
    this.fellBackOn = null;
    this.costWeights = runtime.costWeights;
    const overridden = overriddenChoice(this.fallback, request);
    if (overridden !== null) {
      this.costWeights = overridden.weights;
      return inRange(overridden.select(table, facts, request.role), table.count);
    }
    try {
      return inRange(runtime.select(table, facts), table.count);
    } catch (thrown) {
      if (thrown instanceof PointsmanError && isRefusal(thrown.code)) throw thrown;
      const code = thrown instanceof PointsmanError ? thrown.code : 'PM_PLUGIN_THREW';
      if (code === 'PM_SELECTION_TRIPPED' && runtime.refusesWhenTripped) throw thrown;
      this.#metrics.count('pointsman_selection_fallbacks_total', { policy: runtime.policy.type, code });
      this.fellBackOn = code;
      return this.#chooseByDefault(table, facts, request, thrown);
    }
  }

  #chooseByDefault(
    table: PlacementTable,
    facts: SelectionFacts,
    request: PlacementRequest,
    policyError: unknown,
  ): SelectionPick {
    try {
      const { fallback } = this;
      if (fallback === null) throw policyError;
      this.costWeights = fallback.weights;
      return inRange(fallback.select(table, facts, request.role), table.count);
    } catch (thrown) {
      throw new PointsmanError(
        'PM_SELECTION_FAILED',
        `no worker could be chosen: worker selection policy ${request.runtime.policy.type} failed (${errorText(policyError)})${
          thrown === policyError ? '' : ` and the default cost as well (${errorText(thrown)})`
        }`,
        { cause: policyError, details: { policy: request.runtime.policy.type } },
      );
    }
  }
}

// What property checks have in common.

/** A property that did not hold. */
export interface PropertyFault<P extends string = string> {
  readonly property: P;
  /** What happened, for which input. */
  readonly message: string;
}

/** Time a callback may take before the router counts it as an overrun (`containment.soft_budget`), ms. */
const BUDGET_MS = 1;
const WARM_UP = 50;
const CALLS = 101;

/** Says so when the median of many calls is over the budget; a single slow one says more about the machine than about the policy. */
export function overBudget(call: () => unknown): string | null {
  for (let index = 0; index < WARM_UP; index += 1) call();
  const times = Array.from({ length: CALLS }, () => {
    const startedAt = performance.now();
    call();
    return performance.now() - startedAt;
  });
  const median = times.sort((a, b) => a - b)[CALLS >> 1] ?? 0;
  return median <= BUDGET_MS ? null : `a call takes ${median.toFixed(2)} ms, the budget is ${BUDGET_MS} ms`;
}

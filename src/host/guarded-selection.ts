// Calls a plugin's worker selection under its guard: skipped while tripped, timed as a whole, failures told from refusals.
import { PointsmanError } from '../plugin/index.ts';
import type { PluginGuard } from './plugin-guard.ts';
import { isRefusal, type PolicySite, policyTripped } from './selection-errors.ts';
import type { RoleRuntime } from './types.ts';

/** `select` with a guard around it. Throws PM_SELECTION_TRIPPED instead of calling while the guard's breaker is open. */
export function guardedSelection(
  select: RoleRuntime['select'],
  guard: PluginGuard,
  site: PolicySite,
): RoleRuntime['select'] {
  return (table, facts) => {
    if (!guard.admits()) throw policyTripped(site);
    const startedAt = guard.begin();
    let failed = true;
    try {
      const pick = select(table, facts);
      failed = false;
      return pick;
    } catch (thrown) {
      // That nobody is left is an answer, not a failure.
      failed = !(thrown instanceof PointsmanError && isRefusal(thrown.code));
      throw thrown;
    } finally {
      guard.end(startedAt, failed);
    }
  };
}

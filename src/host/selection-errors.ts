// Errors of the selection pipeline, one builder each, so that their texts stand in one place.
import { PointsmanError } from '../plugin/index.ts';

/** Which policy of which role an error is about. */
export interface PolicySite {
  readonly policy: string;
  readonly role: string;
}

const REFUSALS: ReadonlySet<string> = new Set([
  'PM_SELECTION_ALL_FILTERED',
  'PM_SELECTION_NO_ENDPOINTS',
  'PM_SELECTION_PIN_REQUIRED',
]);

/** Whether a code says that nobody is left or that the request must name a worker, rather than that the policy is broken. */
export function isRefusal(code: string): boolean {
  return REFUSALS.has(code);
}

/** Nobody can take the request. */
export function noEndpoints(site: PolicySite, why: string): PointsmanError {
  return new PointsmanError('PM_SELECTION_NO_ENDPOINTS', `no worker for role ${site.role}: ${why}`, {
    details: { ...site },
  });
}

/** The filters left nobody. */
export function allFiltered(site: PolicySite, eligible: number): PointsmanError {
  return new PointsmanError(
    'PM_SELECTION_ALL_FILTERED',
    `the filters of worker-selection policy ${site.policy} dropped all ${eligible} eligible workers of role ${site.role}`,
    { details: { ...site, eligible } },
  );
}

/** The policy is skipped. */
export function policyTripped(site: PolicySite): PointsmanError {
  return new PointsmanError(
    'PM_SELECTION_TRIPPED',
    `worker-selection policy ${site.policy} of role ${site.role} failed or overran too often and is skipped for a while; send the request again later`,
    { details: { ...site } },
  );
}

/** A callback threw; what it threw is the cause, not the text, as it may carry what clients must not see. */
export function componentThrew(site: PolicySite, component: string, thrown: unknown): PointsmanError {
  return new PointsmanError(
    'PM_PLUGIN_THREW',
    `${component} of worker-selection policy ${site.policy} threw for role ${site.role}`,
    { cause: thrown, details: { ...site, component } },
  );
}

/** A callback answered something its contract does not allow. */
export function componentBroke(
  site: PolicySite,
  component: string,
  rule: string,
  got: unknown,
): PointsmanError {
  return new PointsmanError(
    'PM_PLUGIN_INVALID',
    `${component} of worker-selection policy ${site.policy} ${rule}, got ${describeValue(got)}`,
    { details: { ...site, component } },
  );
}

/** A callback gave an array away that it was shown, which empties it. */
export function detachedArray(site: PolicySite, component: string): PointsmanError {
  return new PointsmanError(
    'PM_PLUGIN_INVALID',
    `${component} of worker-selection policy ${site.policy} must not transfer an array it is shown; send a copy of it`,
    { details: { ...site, component } },
  );
}

/** A cost or a sum is missing or not finite. */
export function nonFiniteCost(
  site: PolicySite,
  component: string,
  value: number,
  row: number,
): PointsmanError {
  const what = Number.isNaN(value)
    ? `left row ${row} without a number`
    : `made the cost of row ${row} ${value}`;
  return new PointsmanError(
    'PM_SELECTION_NON_FINITE_COST',
    `${component} of worker-selection policy ${site.policy} ${what}; every cost and every sum must be finite`,
    { details: { ...site, component, row } },
  );
}

/** The picker's answer is not a row. */
export function invalidPick(site: PolicySite, candidates: number, got: unknown): PointsmanError {
  return new PointsmanError(
    'PM_SELECTION_INVALID_PICK',
    `the picker of worker-selection policy ${site.policy} must answer a row from 0 to ${candidates - 1}, got ${describeValue(got)}`,
    { details: { ...site, component: 'picker', candidates } },
  );
}

/** A pick commits a copy that nobody could make. */
export function commitWithoutSource(site: PolicySite, row: number, why: string): PointsmanError {
  return new PointsmanError(
    'PM_COMMIT_WITHOUT_SOURCE',
    `the picker of worker-selection policy ${site.policy} committed a KV copy to row ${row}, ${why}`,
    { details: { ...site, component: 'picker', row } },
  );
}

/** A short description of any value for messages; never its contents beyond a number or boolean. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'bigint')
    return BigInt.asIntN(66, value) === value ? String(value) : 'a longer bigint';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value instanceof Promise) return 'a promise';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** Takes the rejection of a promise that nobody will await. */
export function absorbPromise(value: unknown): void {
  if (value instanceof Promise) value.catch(() => undefined);
}

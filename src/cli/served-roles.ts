// Which workers of a model get its requests, and whether they can answer them: whole requests go to aggregated workers; where a model
// has decode workers, or prefill workers alone, each request goes to one of either kind.
import type { Worker } from '../fleet/index.ts';
import type { Role } from '../plugin/index.ts';

const WHOLE: readonly Role[] = ['aggregated'];
const DIVIDED: readonly Role[] = ['prefill', 'decode'];

/** Roles that a model's requests are sent to. @param workers of any model. */
export function servedRoles(model: string, workers: readonly Worker[]): readonly Role[] {
  const has = (role: Role): boolean => workers.some(({ spec }) => spec.model === model && spec.role === role);
  return has('decode') || (has('prefill') && !has('aggregated')) ? DIVIDED : WHOLE;
}

/** Those of the workers that get requests. */
export function servingOf(workers: readonly Worker[]): readonly Worker[] {
  const roles = new Map<string, readonly Role[]>();
  return workers.filter(({ spec: { model, role } }) => {
    const served = roles.get(model) ?? servedRoles(model, workers);
    roles.set(model, served);
    return served.includes(role);
  });
}

/**
 * Roles of a model that nobody ready has, though its requests need one; empty = it is served.
 * @param ready ready workers that get requests, of any model.
 * @param decodeFallback whether decode workers compute prompts where no prefill worker is ready.
 */
export function missingRoles(
  model: string,
  workers: readonly Worker[],
  ready: readonly Worker[],
  decodeFallback: boolean,
): readonly Role[] {
  return servedRoles(model, workers)
    .filter((role) => role !== 'prefill' || !decodeFallback)
    .filter((role) => !ready.some(({ spec }) => spec.model === model && spec.role === role));
}

/** Why a worker gets no requests; null = it does. */
export function unservedReason(
  { spec: { id, model, role } }: Worker,
  workers: readonly Worker[],
): string | null {
  if (servedRoles(model, workers).includes(role)) return null;
  const why =
    role === 'aggregated'
      ? `its model ${model} has decode workers, and they serve each request with a prefill worker`
      : role === 'prefill'
        ? `its model ${model} has no decode worker, and aggregated workers serve it`
        : 'this version sends it no requests';
  return `worker ${id} has role ${role}: ${why}`;
}

// What is said of a policy type that the catalog does not have.
import { didYouMean, nameList } from '../config/index.ts';
import type { PolicyCatalog } from './catalog.ts';

/**
 * Which plugin may define the type, or which types of its kind there are.
 * @param near names that may be meant; default those of its kind
 */
export function insteadOf(
  type: string,
  { missing }: Pick<PolicyCatalog, 'missing'>,
  known: readonly string[],
  near: readonly string[] = known,
): string {
  // Where a plugin did not load, that is the one mistake, and this is what follows from it.
  if (missing.length > 0) return `${missing.join(' or ')}, which may define it, did not load`;
  return `known: ${nameList(known)}${didYouMean(type, near)}`;
}

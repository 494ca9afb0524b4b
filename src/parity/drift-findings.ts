// What the audit of a rank's predictions comes to, with its likely cause.
import { driftCause } from './drift-cause.ts';
import { type Finding, findingOf } from './finding.ts';
import type { FindingCode } from './finding-table.ts';
import type { PredictionAudit } from './prediction-audit.ts';
import type { RankFacts } from './rank-findings.ts';

/**
 * At most one finding.
 * @param estimated whether the rank's cache is estimated.
 * @param before what else was found of the rank.
 */
export function driftFindings(
  { evidence, feed, subject, verdicts }: RankFacts,
  audit: PredictionAudit,
  estimated: boolean,
  before: readonly Finding[],
): Finding[] {
  const drift = audit.drift();
  if (drift === null) return [];
  if (drift.kind === 'never_hits' && estimated && feed === null)
    return [findingOf('prefix_caching_off', subject)];
  const has = (code: FindingCode): boolean => before.some((finding) => finding.code === code);
  const problem = driftCause(drift, {
    lostEvents: feed?.stale === true || (feed?.missedBatches ?? 0) > 0,
    partial: feed?.partial === true,
    disagrees: has('template') || has('hash_chain') || has('block_size'),
    hybrid: evidence.otherGroups.size > 0,
    estimated,
    ignoresSalt: verdicts.of('salt') > 0,
  });
  const code = drift.kind === 'under_predicted' ? 'under_predicted' : 'over_predicted';
  return [findingOf(code, subject, { found: drift.requests, expected: drift.of, problem })];
}

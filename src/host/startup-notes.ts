// What a start says in words of policies that do not do what somebody may expect of them.
import type { Logger } from '../plugin/index.ts';
import type { PolicyCatalog } from './catalog.ts';
import type { RoleResolution } from './plugin-host.ts';

/** Logs it, at most one line per role and theme. */
export function logStartupNotes(
  resolution: readonly RoleResolution[],
  catalog: PolicyCatalog,
  log: Logger,
): void {
  for (const { role, mode, dormantHints } of resolution) {
    if (dormantHints.length === 0) continue;
    const hints = dormantHints.join(', ');
    log.info('default hints do not run: the router mode books off the KV path', { role, mode, hints });
  }
  for (const { role, needs } of resolution) {
    const wanted = [needs.lineage ? 'session-lineage' : '', needs.residency ? 'residency' : ''];
    const inputs = wanted.filter(Boolean).join(', ');
    if (inputs === '') continue;
    log.warn('declared inputs are switched off in this version: policies get null for them', {
      role,
      inputs,
    });
  }
  for (const entry of catalog.hints.values()) {
    for (const host of entry.defaultHosts) {
      if (host === 'any-worker-selection' || catalog.selections.has(host.workerSelection)) continue;
      const { workerSelection } = host;
      log.info('a hint policy names a default host that is not loaded', {
        hint: entry.type,
        workerSelection,
      });
    }
  }
}

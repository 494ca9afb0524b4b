// What a start says in words of policies that do not do what somebody may expect of them.
import type { Logger } from '../plugin/index.ts';
import type { PolicyCatalog } from './catalog.ts';
import type { RoleResolution } from './plugin-host.ts';
import type { KeepingRouter } from './role-provisions.ts';

/** Logs it, at most one line per role and theme. */
export function logStartupNotes(
  resolution: readonly RoleResolution[],
  catalog: PolicyCatalog,
  router: KeepingRouter,
  log: Logger,
): void {
  for (const { role, mode, dormantHints } of resolution) {
    if (dormantHints.length === 0) continue;
    const hints = dormantHints.join(', ');
    log.info('default hints do not run: the router mode books off the KV path', { role, mode, hints });
  }
  const by = router.useKvEvents ? 'router.enable_session_prefix_index: false' : 'router.use_kv_events: false';
  for (const { role, provisions } of resolution) {
    const { lineage, residency } = provisions;
    const off = [
      lineage === 'disabled' ? 'session-lineage' : '',
      residency === 'disabled' ? 'residency' : '',
    ];
    const inputs = off.filter(Boolean).join(', ');
    if (inputs === '') continue;
    log.warn('declared inputs are switched off: policies get null for them', { role, inputs, by });
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

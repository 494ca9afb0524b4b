// What a start says in words of policies that do not do what somebody may expect of them.
import type { Logger, Role } from '../plugin/index.ts';
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
  for (const { role, inputs, by } of switchedOffInputs(resolution, router))
    log.warn('declared inputs are switched off: policies get null for them', { role, inputs, by });
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

/** Inputs of a role that are switched off. */
export interface SwitchedOff {
  readonly role: Role;
  /** Their names, with commas between. */
  readonly inputs: string;
  /** The setting. */
  readonly by: string;
}

/** What policies declare and the configuration switches off, by role. */
export function switchedOffInputs(
  resolution: readonly Pick<RoleResolution, 'role' | 'provisions'>[],
  router: KeepingRouter,
): SwitchedOff[] {
  const by = router.useKvEvents ? 'router.enable_session_prefix_index: false' : 'router.use_kv_events: false';
  return resolution.flatMap(({ role, provisions: { lineage, residency } }) => {
    const off = [
      lineage === 'disabled' ? 'session-lineage' : '',
      residency === 'disabled' ? 'residency' : '',
    ];
    const inputs = off.filter(Boolean).join(', ');
    return inputs === '' ? [] : [{ role, inputs, by }];
  });
}

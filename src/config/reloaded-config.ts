// What a running router takes from a configuration that was read again: keys that only a start can change keep their value, and each
// that differs is named.
import { isDeepStrictEqual } from 'node:util';
import type { ModelConfig } from './fleet-types.ts';
import type { ConfigPath, ConfigProblem, RouterConfig } from './types.ts';

/** A configuration to run with from now on. */
export interface ReloadedConfig {
  readonly config: RouterConfig;
  /** One per key that waits for the next start. */
  readonly warnings: readonly ConfigProblem[];
}

/** What {@link reloadedConfig} keeps of the running configuration. */
export function reloadedConfig(running: RouterConfig, read: RouterConfig): ReloadedConfig {
  const warnings: ConfigProblem[] = [];
  const waits = (path: ConfigPath, before: unknown, after: unknown, what = 'it'): void => {
    if (isDeepStrictEqual(before, after)) return;
    const message = `changed, but ${what} takes effect only at the next start; the running value stays`;
    warnings.push({ severity: 'warning', code: 'PM_CONFIG_RESTART', path, anchor: 'key', message });
  };
  waits(['listen', 'host'], running.listen.host, read.listen.host);
  waits(['listen', 'port'], running.listen.port, read.listen.port);
  waits(['admin', 'host'], running.admin.host, read.admin.host);
  waits(['admin', 'port'], running.admin.port, read.admin.port);
  waits(['admin', 'token'], running.admin.token, read.admin.token);
  waits(['limits', 'index_bytes'], running.limits.indexBytes, read.limits.indexBytes);
  waits(['limits', 'lineage_bytes'], running.limits.lineageBytes, read.limits.lineageBytes);
  waits(['limits', 'lineage_sessions'], running.limits.lineageSessions, read.limits.lineageSessions);
  waits(['limits', 'lineage_ttl'], running.limits.lineageTtlMs, read.limits.lineageTtlMs);
  waits(['limits', 'decision_bytes'], running.limits.decisionBytes, read.limits.decisionBytes);
  waits(['router', 'use_kv_events'], running.router.useKvEvents, read.router.useKvEvents);
  const { prefillLoadModel, useKvEvents } = running.router;
  waits(['router', 'router_prefill_load_model'], prefillLoadModel, read.router.prefillLoadModel);
  waits(['snapshot'], running.snapshot, read.snapshot);
  waits(['services', 'selection'], running.services.selection, read.services.selection);
  waits(['services', 'indexer'], running.services.indexer, read.services.indexer);
  for (const name of new Set([...running.models.keys(), ...read.models.keys()])) {
    waits(['models', name], atStart(running.models.get(name)), atStart(read.models.get(name)), 'a model');
  }
  const workers = read.workers.filter((worker) => {
    if (running.models.has(worker.model)) return true;
    const message = `is not added: its model ${worker.model} is known only after the next start`;
    const problem = { code: 'PM_CONFIG_RESTART', path: worker.path, anchor: 'value', message } as const;
    warnings.push({ ...problem, severity: 'warning' });
    return false;
  });
  const models = new Map(
    [...running.models].map(([name, model]): [string, ModelConfig] => {
      const { busyThresholds = null, policyClasses, queueProfile } = read.models.get(name) ?? model;
      return [
        name,
        {
          ...model,
          busyThresholds,
          policyClasses: policyClasses ?? null,
          queueProfile: queueProfile ?? null,
        },
      ];
    }),
  );
  const { indexBytes, lineageBytes, lineageSessions, lineageTtlMs, decisionBytes } = running.limits;
  const keptLimits = { indexBytes, lineageBytes, lineageSessions, lineageTtlMs, decisionBytes };
  const config = {
    ...read,
    listen: running.listen,
    admin: running.admin,
    limits: { ...read.limits, ...keptLimits },
    models,
    snapshot: running.snapshot,
    services: running.services,
    workers,
    router: { ...read.router, useKvEvents, prefillLoadModel },
  };
  return { config, warnings };
}

/** What of a model only a start can change. */
function atStart(model: ModelConfig | undefined): ModelConfig | null {
  if (model === undefined) return null;
  return { ...model, busyThresholds: null, policyClasses: null, queueProfile: null };
}

// The selection service over a router's own parts: inside `serve`, and alone.
import { queueSettingsOf, type RouterConfig } from '../config/index.ts';
import { type RunningSelection, type StartSelectionOptions, startSelection } from '../services/index.ts';
import type { ComposedRouter } from './compose-router.ts';

/** Starts the service. @throws PM_LISTEN */
export function selectionOf(
  core: Pick<ComposedRouter, 'fleet' | 'blockSizes' | 'hasher' | 'road' | 'scheduler' | 'index' | 'events'>,
  settings: NonNullable<RouterConfig['services']['selection']>,
  config: RouterConfig,
  parts: Pick<StartSelectionOptions, 'clock' | 'metrics' | 'log' | 'warnings'>,
): Promise<RunningSelection> {
  const { cacheMaxBytes, cacheMaxEntries, cacheTtlMs, host, port, token } = settings;
  const { models, root, threshold } = queueSettingsOf(config);
  return startSelection({
    host,
    port,
    token,
    pending: { ttlMs: cacheTtlMs, maxEntries: cacheMaxEntries, maxBytes: cacheMaxBytes },
    demands: (model) => ({
      kvEvents: core.events !== null,
      queueing: root !== null || threshold !== null || models.has(model),
    }),
    core,
    ...parts,
  });
}

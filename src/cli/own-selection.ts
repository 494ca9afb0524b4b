// The selection service over a router's own parts: inside `serve`, and alone.
import type { RouterConfig } from '../config/index.ts';
import { type RunningSelection, type StartSelectionOptions, startSelection } from '../services/index.ts';
import type { ComposedRouter } from './compose-router.ts';

/** Starts the service. @throws PM_LISTEN */
export function selectionOf(
  core: Pick<ComposedRouter, 'fleet' | 'blockSizes' | 'hasher' | 'road' | 'scheduler' | 'index' | 'events'>,
  settings: NonNullable<RouterConfig['services']['selection']>,
  parts: Pick<StartSelectionOptions, 'clock' | 'metrics' | 'log'>,
): Promise<RunningSelection> {
  const { cacheMaxBytes, cacheMaxEntries, cacheTtlMs, host, port, token } = settings;
  return startSelection({
    host,
    port,
    token,
    pending: { ttlMs: cacheTtlMs, maxEntries: cacheMaxEntries, maxBytes: cacheMaxBytes },
    // Requests are booked or refused at once, so nobody asks how busy a worker would be.
    demands: () => ({ kvEvents: core.events !== null, queueing: false }),
    core,
    ...parts,
  });
}

// The selection service as it runs where nothing else is said.
import type { RouterConfig } from './types.ts';

/** Its defaults. */
export const SELECTION_SERVICE_DEFAULTS: NonNullable<RouterConfig['services']['selection']> = {
  host: '127.0.0.1',
  port: 8092,
  token: null,
  cacheTtlMs: 120_000,
  cacheMaxEntries: 4096,
  cacheMaxBytes: 268_435_456,
};

// The configuration as `/config` shows it: secrets replaced by a word, maps as plain objects.
import type { RouterConfig } from './types.ts';

const HIDDEN = '(hidden)';

/** A copy that may be shown to anyone who may call the admin API; write it with exactJsonStringify. */
export function configForDisplay(config: RouterConfig): Readonly<Record<string, unknown>> {
  const { selection } = config.services;
  return {
    ...config,
    admin: { ...config.admin, token: config.admin.token === null ? null : HIDDEN },
    services: {
      ...config.services,
      selection: selection && { ...selection, token: selection.token === null ? null : HIDDEN },
    },
    auth: config.auth && { apiKeys: config.auth.apiKeys.map((key) => ({ ...key, sha256: HIDDEN })) },
    models: Object.fromEntries(config.models),
  };
}

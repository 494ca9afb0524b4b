// Everything about callers that follows from the configuration, built once per configuration and not per request.
import type { ModelConfig, RouterConfig } from '../config/index.ts';
import { type ApiKeyCheck, apiKeyCheck } from './api-keys.ts';
import { type NetworkCheck, networkCheck } from './networks.ts';

/** Checks and look-ups for one configuration. */
export interface CallerRules {
  readonly config: RouterConfig;
  readonly authenticate: ApiKeyCheck;
  readonly trustsRouting: NetworkCheck;
  readonly trustsHints: NetworkCheck;
  /** By name and alias. */
  readonly models: ReadonlyMap<string, ModelConfig>;
}

/** A reader of the rules in force; rebuilds them when the configuration was replaced. */
export function callerRules(current: () => RouterConfig): () => CallerRules {
  let rules: CallerRules | null = null;
  return () => {
    const config = current();
    if (rules?.config !== config) rules = build(config);
    return rules;
  };
}

function build(config: RouterConfig): CallerRules {
  const models = new Map<string, ModelConfig>();
  for (const model of config.models.values()) for (const alias of model.aliases) models.set(alias, model);
  for (const model of config.models.values()) models.set(model.name, model);
  return {
    config,
    authenticate: apiKeyCheck(config.auth),
    trustsRouting: networkCheck(config.router.trustRoutingFieldsFrom),
    trustsHints: networkCheck(config.router.trustIncomingHintsFrom),
    models,
  };
}

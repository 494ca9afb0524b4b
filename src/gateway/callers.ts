// Everything about callers that follows from the configuration, built once per configuration and not per request.
import type { ModelConfig, RouterConfig } from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { type ApiClient, type ApiKeyCheck, apiKeyCheck } from './api-keys.ts';
import { type NetworkCheck, networkCheck } from './networks.ts';

/** Characters of an unknown model's name that are repeated to the client. */
const MAX_SHOWN = 200;

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

/** Whether a client's key allows a model; without keys everything is allowed. */
export function mayUse(client: ApiClient | null, model: ModelConfig): boolean {
  return client === null || client.models === null || client.models.has(model.name);
}

/**
 * The model a client names, by name or alias.
 * @throws PointsmanError PM_MODEL_NOT_FOUND, also for one the client may not use: its key shall not tell what else there is.
 */
function usableModel(rules: CallerRules, client: ApiClient | null, name: string): ModelConfig {
  const model = rules.models.get(name);
  if (model !== undefined && mayUse(client, model)) return model;
  throw new PointsmanError(
    'PM_MODEL_NOT_FOUND',
    `there is no model "${name.slice(0, MAX_SHOWN)}"; GET /v1/models lists those there are`,
    { details: { param: 'model' } },
  );
}

/** No LoRA adapter is known. */
export const NO_ADAPTERS: ReadonlyMap<string, readonly string[]> = new Map();

/** What a request's `model` stands for. */
export interface NamedModel {
  readonly model: ModelConfig;
  /** The LoRA adapter that it names; null = the model itself. */
  readonly adapter: string | null;
}

/**
 * The model or LoRA adapter a client names; names and aliases of models come first. Who may use a model may use its adapters.
 * @param adapters models by adapter.
 * @throws PointsmanError PM_MODEL_NOT_FOUND, also for an adapter of several models that the client may use.
 */
export function namedModel(
  rules: CallerRules,
  adapters: ReadonlyMap<string, readonly string[]>,
  client: ApiClient | null,
  name: string,
): NamedModel {
  const owners = rules.models.has(name) ? [] : adapterOwners(rules, client, adapters.get(name) ?? []);
  const [model, other] = owners;
  if (model === undefined) return { model: usableModel(rules, client, name), adapter: null };
  if (other === undefined) return { model, adapter: name };
  throw new PointsmanError(
    'PM_MODEL_NOT_FOUND',
    `"${name.slice(0, MAX_SHOWN)}" is an adapter of several models (${owners.map((owner) => owner.name).join(', ')}); give each a name of its own`,
    { details: { param: 'model' } },
  );
}

/** Configured models among these names that a client may use. */
export function adapterOwners(
  rules: CallerRules,
  client: ApiClient | null,
  names: readonly string[],
): readonly ModelConfig[] {
  return names.flatMap((name) => {
    const model = rules.config.models.get(name);
    return model !== undefined && mayUse(client, model) ? [model] : [];
  });
}

function build(config: RouterConfig): CallerRules {
  const models = new Map<string, ModelConfig>();
  for (const model of config.models.values()) for (const alias of model.aliases) models.set(alias, model);
  for (const model of config.models.values()) models.set(model.name, model);
  return {
    config,
    authenticate: apiKeyCheck(withModelNames(config.auth, models)),
    trustsRouting: networkCheck(config.router.trustRoutingFieldsFrom),
    trustsHints: networkCheck(config.router.trustIncomingHintsFrom),
    models,
  };
}

/** Keys may name models by alias; requests are held against the models' own names. */
function withModelNames(
  auth: RouterConfig['auth'],
  models: ReadonlyMap<string, ModelConfig>,
): RouterConfig['auth'] {
  if (auth === null) return null;
  const own = (name: string): string => models.get(name)?.name ?? name;
  return { apiKeys: auth.apiKeys.map((key) => ({ ...key, models: key.models?.map(own) ?? null })) };
}

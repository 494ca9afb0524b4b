// What `serve` runs with: a configuration file, or the embedded default with simulated workers, and what the command line and
// the environment say over it.
import {
  applyOverrides,
  type ConfigProblem,
  type ConfigSource,
  defaultConfig,
  type LoadedConfig,
  loadConfig,
  loadPolicyFile,
  type ModelConfig,
  overridesFromEnv,
  type RouterConfig,
  type WorkerConfig,
} from '../config/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { SimulatorAddress } from '../simulator/index.ts';
import { TINY_TOKENIZER } from '../tokens/index.ts';

/** Options of the command line, as far as they change the configuration. */
export interface ServeConfigOptions {
  readonly config?: string;
  readonly routerPolicyConfig?: string;
  readonly port?: number;
  readonly adminPort?: number;
  readonly simWorkers?: number;
  readonly routerMode?: string;
  readonly routerPrefillPolicy?: string;
  readonly routerDecodePolicy?: string;
}

/** A configuration to serve. */
export interface ServeConfig {
  readonly config: RouterConfig;
  readonly source: ConfigSource;
  readonly warnings: readonly ConfigProblem[];
  /** Simulated workers to start; their model is not in `config` yet. */
  readonly simWorkers: number;
  /** Absolute paths of the files it was read from. */
  readonly files: readonly string[];
  /** `router_policy_config` as written. */
  readonly namedPolicyFile: string | null;
}

/** Simulated workers when nothing is configured. */
const DEFAULT_SIM_WORKERS = 4;
/** Model that simulated workers serve, as clients name it. */
const SIM_MODEL = 'tiny';

/**
 * Reads the configuration.
 * @throws ConfigError for a file that cannot be used, PointsmanError PM_CONFIG_UNREADABLE, PM_USAGE for options that do not fit.
 */
export function readServeConfig(
  options: ServeConfigOptions,
  env: Readonly<Record<string, string | undefined>>,
): ServeConfig {
  return withOverrides(load(options, env), options, env);
}

/**
 * Reads the configuration of a running router again. Which policy file belongs to it is settled at the start.
 * @param started what the router was started with
 * @throws as {@link readServeConfig}
 */
export function rereadServeConfig(
  started: ServeConfig,
  options: ServeConfigOptions,
  env: Readonly<Record<string, string | undefined>>,
): ServeConfig {
  const loaded = load(options, env);
  if (loaded.namedPolicyFile === started.namedPolicyFile) return withOverrides(loaded, options, env);
  const [file = ''] = loaded.files;
  const [, policyFile = null] = started.files;
  const kept = loadConfig(file, undefined, { policyFile });
  const message = 'changed, but it takes effect only at the next start; the running value stays';
  const waits: ConfigProblem = {
    severity: 'warning',
    code: 'PM_CONFIG_RESTART',
    path: ['router_policy_config'],
    anchor: 'key',
    message,
  };
  return withOverrides({ ...kept, warnings: [...kept.warnings, waits] }, options, env);
}

function withOverrides(
  loaded: LoadedConfig,
  options: ServeConfigOptions,
  env: Readonly<Record<string, string | undefined>>,
): ServeConfig {
  const overridden = applyOverrides(loaded.config, {
    ...overridesFromEnv(env),
    ...(options.routerMode === undefined ? {} : { routerMode: options.routerMode }),
    ...(options.routerPrefillPolicy === undefined ? {} : { prefillPolicy: options.routerPrefillPolicy }),
    ...(options.routerDecodePolicy === undefined ? {} : { decodePolicy: options.routerDecodePolicy }),
  });
  const { listen, admin } = overridden;
  return {
    config: {
      ...overridden,
      listen: { ...listen, port: options.port ?? listen.port },
      admin: { ...admin, port: options.adminPort ?? admin.port },
    },
    source: loaded.source,
    warnings: loaded.warnings,
    simWorkers: simWorkersOf(options, env, overridden),
    files: loaded.files,
    namedPolicyFile: loaded.namedPolicyFile,
  };
}

/** The configuration with simulated workers and their model in it. */
export function withSimulatedWorkers(
  config: RouterConfig,
  engines: readonly SimulatorAddress[],
): RouterConfig {
  const [first] = engines;
  if (first === undefined) return config;
  const model: ModelConfig = {
    name: SIM_MODEL,
    servedAs: first.model,
    aliases: [],
    blockSize: first.block_size,
    tokens: { source: 'local', ...TINY_TOKENIZER },
    routingGroup: 'default',
  };
  const workers = engines.map((engine, index): WorkerConfig => {
    return {
      // Ids people can read; the stable hash of a url with a random port would be neither.
      id: BigInt(index + 1),
      model: SIM_MODEL,
      url: engine.url,
      dialect: 'sim',
      role: 'aggregated',
      ranks: { first: 0, count: 1 },
      kvEvents: { '0': { connect: engine.kv_events, replay: engine.kv_events_replay, topic: '' } },
      maxNumBatchedTokens: null,
      totalKvBlocks: null,
      taints: [],
      topology: {},
      device: null,
      adapters: [],
      capabilities: 'ask',
      path: ['workers', index],
    };
  });
  return { ...config, models: new Map([[SIM_MODEL, model]]), workers };
}

function load(options: ServeConfigOptions, env: Readonly<Record<string, string | undefined>>): LoadedConfig {
  return loadFiles(
    options.config ?? (env.POINTSMAN_CONFIG || undefined),
    options.routerPolicyConfig ?? policyFileFromEnv(env),
  );
}

/** The policy file that the environment names. */
export function policyFileFromEnv(env: Readonly<Record<string, string | undefined>>): string | undefined {
  return env.DYN_ROUTER_POLICY_CONFIG || undefined;
}

/** A configuration, a policy file, both, or neither. */
export function loadFiles(file: string | undefined, policyFile: string | undefined): LoadedConfig {
  if (file === undefined) return policyFile === undefined ? defaultConfig() : loadPolicyFile(policyFile);
  return loadConfig(file, undefined, policyFile === undefined ? {} : { policyFile });
}

function simWorkersOf(
  options: ServeConfigOptions,
  env: Readonly<Record<string, string | undefined>>,
  config: RouterConfig,
): number {
  const configured = config.models.size > 0 || config.workers.length > 0;
  if (options.simWorkers !== undefined) {
    if (!configured) return options.simWorkers;
    throw new PointsmanError(
      'PM_USAGE',
      '--sim-workers brings its own model and workers, but the configuration has some; leave one of the two out',
    );
  }
  const nothingGiven =
    options.config === undefined &&
    options.routerPolicyConfig === undefined &&
    !env.POINTSMAN_CONFIG &&
    policyFileFromEnv(env) === undefined;
  return nothingGiven ? DEFAULT_SIM_WORKERS : 0;
}

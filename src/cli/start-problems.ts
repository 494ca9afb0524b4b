// What a start refuses although the file is well formed: parts that configuration can name and this version does not have,
// advertisements that make no sense, workers that no fleet takes, tokenizers that do not load. As problems with positions, so
// that `serve` and `check` say the same.
import {
  type ConfigProblem,
  queueSettingsOf,
  type RouterConfig,
  thresholdsOf,
  type WorkerConfig,
} from '../config/index.ts';
import { requireDialect } from '../engines/index.ts';
import { Fleet, parseCapabilities, workerSpecOf } from '../fleet/index.ts';
import { type RoleResolution, switchedOffInputs } from '../host/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import type { Metrics } from '../observe/index.ts';
import { type Clock, PointsmanError } from '../plugin/index.ts';
import { createTokenSource, type EngineTokenizer, NO_ENGINES, type TokenSource } from '../tokens/index.ts';
import { renderStyleOf } from './engine-tokenizer.ts';

/** Problems of workers: dialects, advertisements that stand in the file, ids and ranks that no fleet takes together. */
export function workerProblems(config: RouterConfig): ConfigProblem[] {
  const fleet = new Fleet();
  const hasher = createBlockHasher();
  return config.workers.flatMap((worker) => {
    const { capabilities, dialect, path } = worker;
    let advertised: Parameters<typeof requireDialect>[1];
    return [
      problemOf(() => {
        advertised = typeof capabilities === 'string' ? capabilities : parseCapabilities(capabilities);
      }, [...path, 'capabilities']),
      problemOf(() => requireDialect(dialect, advertised), [...path, 'dialect']),
      problemOf(() => void fleet.add(workerSpecOf(worker, hasher)), path),
    ].filter((problem) => problem !== null);
  });
}

/** Role sections that decide about no worker: valid, since workers may join, but worth a word. */
export function idleRoleWarnings(config: RouterConfig): ConfigProblem[] {
  if (config.workers.length === 0) return [];
  const served = new Set<string>(config.workers.map((worker) => worker.role));
  return Object.entries(config.workerSelection)
    .filter(([role, entry]) => !served.has(role) && entry.path[0] !== 'kv_hint_policy')
    .map(([role, entry]) => ({
      severity: 'warning',
      code: 'PM_CONFIG_NO_EFFECT',
      path: entry.path,
      anchor: 'key',
      message: `no worker has role ${role}, so this section decides nothing`,
    }));
}

/** Inputs that policies declare and the configuration switches off; a start says the same in its log. */
export function switchedOffWarnings(config: RouterConfig, roles: readonly RoleResolution[]): ConfigProblem[] {
  return switchedOffInputs(roles, config.router).map(({ role, inputs, by }) => ({
    severity: 'warning',
    code: 'PM_CONFIG_CONFLICT',
    path: config.workerSelection[role]?.path ?? ['router'],
    anchor: 'key',
    message: `policies of role ${role} declare ${inputs}, which ${by} switches off: they get null for it`,
  }));
}

/** Conversations that are to be told apart by their prompts where nobody hashes one. */
export function keylessWarnings(config: RouterConfig, roles: readonly RoleResolution[]): ConfigProblem[] {
  if (!config.router.agents.keylessSessions) return [];
  const served = new Set<string>(config.workers.map(({ role }) => role));
  const serving = roles.filter(({ role }) => served.size === 0 || served.has(role));
  if (
    serving.some(
      ({ needs }) =>
        needs.cachePressure ||
        needs.load ||
        needs.inFlight ||
        needs.cache ||
        needs.copies ||
        needs.copyLocations,
    )
  )
    return [];
  return [
    {
      severity: 'warning',
      code: 'PM_CONFIG_NO_EFFECT',
      path: ['router', 'keyless_sessions'],
      anchor: 'key',
      message: `has no effect, as under router.mode ${config.router.mode} no policy looks at caches or load, so that no prompt is hashed`,
    },
  ];
}

/** Thresholds that never test a worker, as nobody says the capacity that they are a part of: not in the file, and not its engine. */
export function untestedWarnings(config: RouterConfig): ConfigProblem[] {
  return [...queueWarnings(config), ...busyWarnings(config)];
}

function busyWarnings(config: RouterConfig): ConfigProblem[] {
  return [...config.models.keys()].flatMap((model) => {
    const { activeDecodeBlocks, activePrefillTokensFrac } = thresholdsOf(config, model);
    const workers = config.workers.filter((worker) => worker.model === model);
    const own = config.models.get(model)?.busyThresholds ?? null;
    const warn = (key: string, isOwn: boolean, capacity: 'total_kv_blocks' | 'max_num_batched_tokens') => {
      const unknown = workers.filter((worker) => capacityNeverKnown(worker, capacity));
      if (unknown.length === 0) return [];
      const who = unknown.length === 1 ? 'a worker' : `${unknown.length} of ${workers.length} workers`;
      const urls = unknown.map(({ url }) => url).join(', ');
      return [
        {
          severity: 'warning' as const,
          code: 'PM_CONFIG_NO_EFFECT' as const,
          path: isOwn ? ['models', model, key] : ['router', key],
          anchor: 'key' as const,
          message: `never tests ${who} of model ${model} (${urls}): ${capacity} is not known; give it to them, or capabilities: ask`,
        },
      ];
    };
    return [
      ...(activeDecodeBlocks === null
        ? []
        : warn('active_decode_blocks_threshold', isNumber(own?.activeDecodeBlocks), 'total_kv_blocks')),
      ...(activePrefillTokensFrac === null
        ? []
        : warn(
            'active_prefill_tokens_threshold_frac',
            isNumber(own?.activePrefillTokensFrac),
            'max_num_batched_tokens',
          )),
    ];
  });
}

/** Classes that take a worker's pass for one of 10,000,000 tokens, as nobody says how large it is: they hardly ever queue for it. */
function queueWarnings(config: RouterConfig): ConfigProblem[] {
  const { models, threshold } = queueSettingsOf(config);
  return [...config.models.keys()].flatMap((model) => {
    const workers = config.workers.filter((worker) => worker.model === model);
    const unknown = workers.filter((worker) => capacityNeverKnown(worker, 'max_num_batched_tokens'));
    if (unknown.length === 0) return [];
    const profile = models.get(model) ?? config.queueProfile;
    const path = [...(models.has(model) ? ['models', model] : []), 'policy_classes'];
    const shares =
      profile === null
        ? threshold === null || threshold === 0
          ? []
          : [['router', 'router_queue_threshold']]
        : profile.classes.flatMap(({ prefillBusyThresholdFrac: share }, index) =>
            (share ?? 0) === 0 ? [] : [[...path, index, 'prefill_busy_threshold_frac']],
          );
    const who = unknown.length === 1 ? 'a worker' : `${unknown.length} of ${workers.length} workers`;
    const urls = unknown.map(({ url }) => url).join(', ');
    const message = `takes the passes of ${who} of model ${model} (${urls}) for 10,000,000 tokens: max_num_batched_tokens is not known; give it to them, or capabilities: ask`;
    return shares.map((at) => ({
      severity: 'warning' as const,
      code: 'PM_CONFIG_NO_EFFECT' as const,
      path: at,
      anchor: 'key' as const,
      message,
    }));
  });
}

const isNumber = (value: unknown): boolean => typeof value === 'number';

/** Engines that are asked may say it later. */
function capacityNeverKnown(
  { capabilities, totalKvBlocks, maxNumBatchedTokens }: WorkerConfig,
  capacity: 'total_kv_blocks' | 'max_num_batched_tokens',
): boolean {
  const given = capacity === 'total_kv_blocks' ? totalKvBlocks : maxNumBatchedTokens;
  if (given !== null || capabilities === 'ask') return false;
  return capabilities === 'none' || (capabilities[capacity] ?? null) === null;
}

/** What token sources are made with besides their models. */
export interface TokenSourceParts {
  readonly metrics: Metrics;
  readonly clock: Clock;
  /** Tokenizer threads per model. */
  readonly threads: number;
  /** The longest prompt, in tokens; default: what the configuration says. */
  readonly maxPromptTokens?: () => number;
  /** Who is asked for ids where the configuration says so; default: nobody, as for a check. */
  readonly engines?: EngineTokenizer;
}

/** Token sources by model. */
export interface StartedTokenSources {
  readonly sources: ReadonlyMap<string, TokenSource>;
  /** Ends their threads. */
  close(): Promise<void>;
}

/**
 * Looks at the workers, and makes and starts the token source of every model.
 * @returns the sources that started, to be closed also when there are problems; and every problem.
 */
export async function startTokenSources(
  config: RouterConfig,
  parts: TokenSourceParts,
): Promise<{ readonly started: StartedTokenSources; readonly problems: ConfigProblem[] }> {
  const sources = new Map<string, TokenSource>();
  const problems = workerProblems(config);
  await Promise.all(
    [...config.models].map(async ([model, { tokens: setting }]) => {
      try {
        const maxPromptTokens = parts.maxPromptTokens ?? (() => config.limits.promptTokens);
        const source = createTokenSource({
          engines: NO_ENGINES,
          cacheBytes: config.limits.tokenCacheBytes,
          style: renderStyleOf(config, model),
          ...parts,
          model,
          setting,
          maxPromptTokens,
        });
        sources.set(model, source);
        await source.start();
      } catch (thrown) {
        problems.push(asProblem(thrown, tokenizerPath(config, model)));
      }
    }),
  );
  const close = async (): Promise<void> => {
    await Promise.all([...sources.values()].map((source) => source.close()));
  };
  return { started: { sources, close }, problems };
}

/** Where the tokenizer of a model is named: it may be in the model file of a worker in this process. */
function tokenizerPath(config: RouterConfig, model: string): ConfigProblem['path'] {
  const tokens = config.models.get(model)?.tokens;
  const owner = config.workers.find(
    (worker) =>
      worker.model === model && tokens?.source === 'local' && worker.inProcess?.gguf === tokens.tokenizer,
  );
  return owner === undefined ? ['models', model, 'tokens'] : [...owner.path, 'gguf'];
}

function problemOf(attempt: () => void, path: ConfigProblem['path']): ConfigProblem | null {
  try {
    attempt();
    return null;
  } catch (thrown) {
    return asProblem(thrown, path);
  }
}

function asProblem(thrown: unknown, path: ConfigProblem['path']): ConfigProblem {
  if (!(thrown instanceof PointsmanError)) throw thrown;
  return { severity: 'error', code: thrown.code, path, anchor: 'value', message: thrown.message };
}

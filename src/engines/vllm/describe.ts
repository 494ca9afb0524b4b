// What a vLLM server says of itself: `/version`, the models it lists, and the labels of `vllm:cache_config_info` in its metrics. Which
// events it publishes, its tokens per pass and its scheduling policy it tells nobody.
import type { AskEngine, EngineDescription } from '../engine-description.ts';
import { NOTHING_SAID } from '../engine-description.ts';
import { countOrNull, isJsonObject, type JsonObject } from '../json-value.ts';

/** Names and models of an answer that are looked at. */
const MAX_MODELS = 4096;
const MAX_TEXT = 1024;

/** Describes a vLLM server; null = what answers is none. @throws PointsmanError PM_ENGINE_UNREACHABLE */
export async function describeVllm(ask: AskEngine): Promise<EngineDescription | null> {
  const asked = await ask({ method: 'GET', path: '/version' });
  const version = asked.status === 200 ? readVersion(asked.text) : null;
  if (version === null) return null;
  const [models, metrics] = await Promise.all([
    ask({ method: 'GET', path: '/v1/models' }),
    ask({ method: 'GET', path: '/metrics' }),
  ]);
  const listed = models.status === 200 ? readModels(models.text) : null;
  const config = metrics.status === 200 ? readCacheConfig(metrics.text) : null;
  // Others answer /version too; a server with an API key lists its models only to who has one.
  if (listed?.ownedByVllm !== true && config === null) return null;
  return {
    ...NOTHING_SAID,
    version,
    models: listed?.names ?? null,
    ...(listed === null ? {} : { adapters: listed.adapters }),
    maxModelLength: listed?.maxModelLength ?? null,
    blockSize: config?.blockSize ?? null,
    totalKvBlocks: config?.totalKvBlocks ?? null,
    ranks: config?.ranks ?? null,
    prefixCaching: config?.prefixCaching ?? null,
  };
}

/** The version of `GET /version`; null = the text says none. */
export function readVersion(text: string): string | null {
  const answer = parsed(text);
  const version = answer?.version;
  return typeof version === 'string' && version !== '' && version.length <= MAX_TEXT ? version : null;
}

/** What `GET /v1/models` says. */
export interface ListedModels {
  /** In their order, adapters among them. */
  readonly names: readonly string[];
  /** Of these, LoRA adapters: entries with a parent. */
  readonly adapters: readonly string[];
  /** The smallest of them. */
  readonly maxModelLength: number | null;
  readonly ownedByVllm: boolean;
}

/** Reads `GET /v1/models`; null = it lists nothing. */
export function readModels(text: string): ListedModels | null {
  const data = parsed(text)?.data;
  if (!Array.isArray(data)) return null;
  const names: string[] = [];
  const adapters: string[] = [];
  let maxModelLength: number | null = null;
  let ownedByVllm = false;
  for (const entry of data.slice(0, MAX_MODELS) as readonly unknown[]) {
    if (!isJsonObject(entry) || typeof entry.id !== 'string' || entry.id.length > MAX_TEXT) continue;
    names.push(entry.id);
    if (typeof entry.parent === 'string') adapters.push(entry.id);
    ownedByVllm ||= entry.owned_by === 'vllm';
    const length = positiveOrNull(entry.max_model_len);
    if (length !== null) maxModelLength = Math.min(length, maxModelLength ?? length);
  }
  return names.length === 0 ? null : { names, adapters, maxModelLength, ownedByVllm };
}

/** The KV cache as the labels of `vllm:cache_config_info` tell it. */
export interface CacheConfig {
  readonly blockSize: number | null;
  /** Of the rank that has the fewest. */
  readonly totalKvBlocks: number | null;
  readonly prefixCaching: boolean | null;
  readonly ranks: number | null;
}

const CONFIG_LINE = /^vllm:cache_config_info\{(.*)\}\s/;
/** A label, its value with its escapes. Anchored: no other place is tried, so that a hostile page costs no more than a pass over it. */
const LABEL = /(?:^|,)([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ENGINE_LINE = /^vllm:num_requests_running\{(.*)\}\s/;

/** Reads a page of metrics; null = it is not vLLM's. */
export function readCacheConfig(text: string): CacheConfig | null {
  let blockSize: number | null = null;
  let totalKvBlocks: number | null = null;
  let prefixCaching: boolean | null = null;
  let found = false;
  const engines = new Set<string>();
  for (const line of text.split('\n')) {
    if (!line.startsWith('vllm:')) continue;
    const running = ENGINE_LINE.exec(line);
    if (running !== null) {
      found = true;
      const engine = labelsOf(running[1] ?? '').get('engine');
      if (engine !== undefined) engines.add(engine);
    }
    const config = CONFIG_LINE.exec(line);
    if (config === null) continue;
    found = true;
    const labels = labelsOf(config[1] ?? '');
    blockSize ??= wholeOf(labels.get('block_size'));
    const blocks = wholeOf(labels.get('num_gpu_blocks'));
    if (blocks !== null) totalKvBlocks = Math.min(blocks, totalKvBlocks ?? blocks);
    const caching = labels.get('enable_prefix_caching');
    if (caching === 'True' || caching === 'False') prefixCaching ??= caching === 'True';
  }
  if (!found) return null;
  return { blockSize, totalKvBlocks, prefixCaching, ranks: engines.size === 0 ? null : engines.size };
}

function labelsOf(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(LABEL)].map(([, name = '', value = '']) => [name, value]));
}

function wholeOf(text: string | undefined): number | null {
  return text !== undefined && /^[0-9]{1,15}$/.test(text) ? positiveOrNull(Number(text)) : null;
}

function positiveOrNull(value: unknown): number | null {
  const count = countOrNull(value);
  return count === 0 ? null : count;
}

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

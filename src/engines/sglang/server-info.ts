// What an SGLang server says of itself at `/server_info` (`/get_server_info` before): its arguments as they were given or worked out,
// and the size of its KV cache.
import { parseExactJson } from '../../config/index.ts';
import type { KvEventEndpoints } from '../../fleet/index.ts';
import type { AskEngine, EngineDescription } from '../engine-description.ts';
import { countOrNull, isJsonObject, type JsonObject } from '../json-value.ts';

/** Newer name first. */
const PATHS = ['/server_info', '/get_server_info'] as const;
const MAX_RANKS = 4096;

/** What the engine says; null = it is no SGLang server. @throws PointsmanError PM_ENGINE_UNREACHABLE when nothing answers. */
export async function describeSglang(ask: AskEngine): Promise<EngineDescription | null> {
  for (const path of PATHS) {
    const { status, text } = await ask({ method: 'GET', path });
    if (status === 200) return readServerInfo(text);
  }
  return null;
}

/** Reads an answer of `/server_info`; null = it is none. Never throws. */
export function readServerInfo(text: string): EngineDescription | null {
  let parsed: unknown;
  try {
    parsed = parseExactJson(text);
  } catch {
    return null;
  }
  // Other servers have an endpoint of this name too; these two members belong to SGLang's arguments.
  if (!isJsonObject(parsed) || !('page_size' in parsed) || !('chunked_prefill_size' in parsed)) return null;
  const pageSize = positive(parsed.page_size);
  const ranks = positive(parsed.dp_size);
  const tokens = positive(parsed.max_total_num_tokens) ?? fromStates(parsed);
  const served = typeof parsed.served_model_name === 'string' ? parsed.served_model_name : parsed.model_path;
  return {
    version: typeof parsed.version === 'string' ? parsed.version : null,
    models: typeof served === 'string' ? [served] : null,
    blockSize: pageSize,
    totalKvBlocks: pageSize === null || tokens === null ? null : Math.floor(tokens / pageSize),
    // −1 = prompts are not cut, so that the limit of a pass is another.
    maxNumBatchedTokens: positive(parsed.chunked_prefill_size) ?? positive(parsed.max_prefill_tokens),
    maxModelLength: positive(parsed.context_length) ?? positive(parsed.max_req_input_len),
    ranks,
    prefixCaching: typeof parsed.disable_radix_cache === 'boolean' ? !parsed.disable_radix_cache : null,
    kvEvents: eventEndpoints(parsed.kv_events_config, Math.min(ranks ?? 1, MAX_RANKS)),
    chatTemplate: null,
  };
}

/** Older servers say the size of the cache with the state of each rank. */
function fromStates(info: JsonObject): number | null {
  const [first] = Array.isArray(info.internal_states) ? (info.internal_states as readonly unknown[]) : [];
  if (!isJsonObject(first)) return null;
  const usage = isJsonObject(first.memory_usage) ? first.memory_usage : {};
  return positive(first.max_total_num_tokens) ?? positive(usage.token_capacity);
}

/**
 * Where the ranks publish: port plus rank. Addresses are the engine's own, so that `*` is the machine it runs on. Empty = it publishes
 * none; null = it is not said.
 */
function eventEndpoints(config: unknown, ranks: number): ReadonlyMap<number, KvEventEndpoints> | null {
  if (config === null || config === undefined || config === '')
    return config === undefined ? null : new Map();
  let given: unknown = config;
  if (typeof config === 'string') {
    try {
      given = JSON.parse(config);
    } catch {
      return null;
    }
  }
  if (!isJsonObject(given)) return null;
  if (given.publisher !== 'zmq') return new Map();
  const endpoint = typeof given.endpoint === 'string' ? given.endpoint : 'tcp://*:5557';
  const endpoints = new Map<number, KvEventEndpoints>();
  for (let rank = 0; rank < ranks; rank += 1) {
    const address = ofRank(endpoint, rank);
    if (address === null) return null;
    endpoints.set(rank, {
      address,
      // With a host of its own the engine connects there, and whoever listens has to bind.
      binds: !/\*|::|0\.0\.0\.0|^(?:ipc|inproc):/.test(endpoint),
      replay: typeof given.replay_endpoint === 'string' ? ofRank(given.replay_endpoint, rank) : null,
      topic: typeof given.topic === 'string' ? given.topic : '',
    });
  }
  return endpoints;
}

/** `tcp://host:P` of rank r is `tcp://host:(P+r)`; other addresses have rank 0 alone. */
function ofRank(endpoint: string, rank: number): string | null {
  if (rank === 0) return endpoint;
  const [, head, port] = /^(tcp:\/\/.*:)(\d+)$/.exec(endpoint) ?? [];
  if (head === undefined || port === undefined) return null;
  const at = Number(port) + rank;
  return at > 65_535 ? null : `${head}${at}`;
}

function positive(value: unknown): number | null {
  const count = countOrNull(value);
  return count === null || count === 0 ? null : count;
}

// Reads a KV hint advertisement (docs/simulated-engine.md, Capability advertisement): what an engine's
// `GET /kv_hints/capabilities` answers, and what configuration may state in its place.
import type { KvEventEndpoints, RankCapabilities, WorkerCapabilities } from '../fleet/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { countOrNull, isJsonObject, type JsonObject } from './json-value.ts';

/** An advertisement: hint capabilities, and what else it tells of the engine. */
export interface EngineAdvertisement {
  readonly capabilities: WorkerCapabilities;
  /** Event endpoints by global rank, as far as they were told. */
  readonly kvEvents: ReadonlyMap<number, KvEventEndpoints>;
  /** Null = not said. */
  readonly totalKvBlocks: number | null;
  /** Tokens per pass; null = not said. */
  readonly maxNumBatchedTokens: number | null;
}

const PROTOCOL = '0.1';
const MAX_RANKS = 1024;
const MAX_ACTIONS = 256;

/**
 * The advertisement in a parsed JSON value.
 * @throws PointsmanError PM_ENGINE_CAPABILITIES naming the first member that is wrong.
 */
export function parseAdvertisement(value: unknown): EngineAdvertisement {
  if (!isJsonObject(value)) throw wrong('the advertisement', 'an object');
  const versions = value.protocol_versions;
  if (!Array.isArray(versions) || !versions.includes(PROTOCOL)) {
    throw wrong('protocol_versions', `a list with "${PROTOCOL}"`);
  }
  const blockSize = countOrNull(value.block_size);
  if (blockSize === null || blockSize === 0) throw wrong('block_size', 'a positive integer');
  if (!isJsonObject(value.ranks)) throw wrong('ranks', 'an object with one member per rank');
  const entries = Object.entries(value.ranks);
  if (entries.length > MAX_RANKS) throw wrong('ranks', `at most ${MAX_RANKS} ranks`);
  const ranks = new Map<number, RankCapabilities>();
  const kvEvents = new Map<number, KvEventEndpoints>();
  for (const [key, entry] of entries) {
    if (!/^(0|[1-9]\d{0,5})$/.test(key))
      throw wrong(`ranks["${key.slice(0, 20)}"]`, 'named by a rank number');
    if (!isJsonObject(entry)) throw wrong(`ranks["${key}"]`, 'an object');
    ranks.set(Number(key), readRank(entry, key));
    const connect = optionalText(entry, 'kv_events', key);
    if (connect !== null) {
      kvEvents.set(Number(key), { connect, replay: optionalText(entry, 'kv_events_replay', key), topic: '' });
    }
  }
  return {
    capabilities: {
      epoch: text(value, 'epoch'),
      model: text(value, 'model'),
      workerType: text(value, 'worker_type'),
      blockSize,
      hashScheme: text(value, 'hash_scheme'),
      reportsOutcomes: value.reports_outcomes === true,
      ranks,
    },
    kvEvents,
    totalKvBlocks: positiveOrNull(value, 'total_kv_blocks'),
    maxNumBatchedTokens: positiveOrNull(value, 'max_num_batched_tokens'),
  };
}

function readRank(entry: JsonObject, key: string): RankCapabilities {
  const actions = entry.actions;
  if (actions !== undefined) {
    if (
      !Array.isArray(actions) ||
      actions.length > MAX_ACTIONS ||
      !actions.every((item) => typeof item === 'string')
    ) {
      throw wrong(`ranks["${key}"].actions`, `a list of at most ${MAX_ACTIONS} texts such as "kv.fetch@1.0"`);
    }
  }
  return {
    routerHint: entry.router_hint === true,
    actions: actions === undefined ? null : new Set<string>(actions),
    sourceControlEndpoint: optionalText(entry, 'source_control_endpoint', key),
  };
}

function text(object: JsonObject, name: string): string {
  const value = object[name];
  if (typeof value !== 'string' || value === '' || value.length > 512)
    throw wrong(name, 'a text of 1 to 512 characters');
  return value;
}

function optionalText(entry: JsonObject, name: string, key: string): string | null {
  const value = entry[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'string' || value === '' || value.length > 512) {
    throw wrong(`ranks["${key}"].${name}`, 'a text of 1 to 512 characters');
  }
  return value;
}

function positiveOrNull(object: JsonObject, name: string): number | null {
  const value = object[name];
  if (value === undefined || value === null) return null;
  const count = countOrNull(value);
  if (count === null || count === 0) throw wrong(name, 'a positive integer');
  return count;
}

function wrong(where: string, expected: string): PointsmanError {
  return new PointsmanError('PM_ENGINE_CAPABILITIES', `KV hint capabilities: ${where} must be ${expected}`, {
    details: { where },
  });
}

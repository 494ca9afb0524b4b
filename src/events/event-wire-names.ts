// Names on the wire of KV events (vLLM, SGLang, TensorRT-LLM bridge), matched as bytes so that keys cost no strings.
import type { Tier } from '../kv/index.ts';
import type { MsgpackReader } from './msgpack-reader.ts';

/** Known names; `unknown` for the rest. */
export type WireName = (typeof NAMES)[number] | 'unknown';

const NAMES = [
  // batch
  'ts',
  'events',
  'data_parallel_rank',
  'attn_dp_rank',
  'dp_rank',
  // tags
  'BlockStored',
  'BlockRemoved',
  'AllBlocksCleared',
  'KvHintOutcome',
  // events
  'type',
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'block_mm_infos',
  'group_idx',
  'kv_cache_spec_kind',
  'kv_cache_spec_sliding_window',
  'locality',
  'ownership',
  'session_id',
  'cache_salt',
  'mm_objects',
  'mm_hash',
  'message_id',
  'action_id',
  'outcome',
  'reason',
  'blocks',
] as const;

interface NameBytes {
  readonly name: WireName;
  readonly bytes: Uint8Array;
}

const BY_LENGTH: NameBytes[][] = [];
for (const name of NAMES) {
  const bytes = new TextEncoder().encode(name);
  const list = BY_LENGTH[bytes.length] ?? [];
  BY_LENGTH[bytes.length] = list;
  list.push({ name, bytes });
}

/** Reads a string and says which known name it is. */
export function readWireName(reader: MsgpackReader, what: string): WireName {
  const length = reader.stringLength(what);
  const from = reader.at;
  reader.at = from + length;
  for (const candidate of BY_LENGTH[length] ?? []) {
    let i = 0;
    while (i < length && candidate.bytes[i] === reader.bytes[from + i]) i += 1;
    if (i === length) return candidate.name;
  }
  return 'unknown';
}

/** Medium names of the engines, in every spelling seen. */
const TIER_OF_MEDIUM: ReadonlyMap<string, Tier> = new Map<string, Tier>([
  ['GPU', 'device'],
  ['DEVICE', 'device'],
  ['CPU', 'host'],
  ['CPU_PINNED', 'host'],
  ['CPU_TIER1', 'host'],
  ['CPU_TIER2', 'disk'],
  ['DISK', 'disk'],
  ['NVME', 'disk'],
  ['STORAGE', 'disk'],
  ['EXTERNAL', 'external'],
  ['NETWORK', 'external'],
  ['REMOTE', 'external'],
  ['SHARED', 'external'],
]);

/** The tier a medium names; null for a medium not known. */
export function tierOfMedium(medium: string): Tier | null {
  return TIER_OF_MEDIUM.get(medium) ?? null;
}

/** The medium our encoder writes for a tier: vLLM's spelling where vLLM has one. */
export const MEDIUM_OF_TIER: Readonly<Record<Tier, string>> = {
  device: 'GPU',
  host: 'CPU',
  disk: 'STORAGE',
  external: 'EXTERNAL',
};

// The seed of a request's local block hashes: adapter and cache namespace change the seed, never the hashed bytes. Formula:
// ai-dynamo/dynamo lib/kv-hashing/src/salt.rs and lib/kv-router/src/protocols.rs.
import { createReferenceHasher } from './reference-hasher.ts';
import { ROUTER_SEED } from './router-seed.ts';
import type { U64 } from './types.ts';
import { u64Add } from './u64.ts';

/** What separates the KV caches of two requests with the same tokens. Empty strings count as absent. */
export interface BlockHashScope {
  /** Name of the LoRA adapter. */
  readonly loraName?: string | null | undefined;
  /** Cache namespace of a tenant. */
  readonly cacheSalt?: string | null | undefined;
}

const LORA_SEED: U64 = { lo: 0, hi: 0 };
const SALT_SEED: U64 = { lo: 1, hi: 0 };
/** Pairs remembered, and characters of the longest pair worth remembering: names are short, salts come from clients. */
const MAX_REMEMBERED = 256;
const MAX_REMEMBERED_LENGTH = 512;

const remembered = new Map<string, U64>();
const encoder = new TextEncoder();
const hasher = createReferenceHasher();

/**
 * Seed of local hashes: 1337 + XXH3(adapter name, seed 0) + XXH3(cache salt, seed 1), modulo 2⁶⁴; names as UTF-8.
 * @throws PM_KV_TOO_LONG when a name has more than 16 MiB.
 */
export function blockHashSeed(scope: BlockHashScope): U64 {
  const lora = scope.loraName ?? '';
  const salt = scope.cacheSalt ?? '';
  if (lora === '' && salt === '') return ROUTER_SEED;
  // The length in front keeps ("ab", "c") and ("a", "bc") apart.
  const key = `${lora.length} ${lora}${salt}`;
  const known = remembered.get(key);
  if (known !== undefined) return known;
  let seed = ROUTER_SEED;
  if (lora !== '') seed = u64Add(seed, hasher.hashBytes(encoder.encode(lora), LORA_SEED));
  if (salt !== '') seed = u64Add(seed, hasher.hashBytes(encoder.encode(salt), SALT_SEED));
  if (key.length <= MAX_REMEMBERED_LENGTH) remember(key, seed);
  return seed;
}

/** Forgets the oldest pair when full; order of entry is enough, since a miss costs well under a microsecond. */
function remember(key: string, seed: U64): void {
  for (const oldest of remembered.keys()) {
    if (remembered.size < MAX_REMEMBERED) break;
    remembered.delete(oldest);
  }
  remembered.set(key, seed);
}

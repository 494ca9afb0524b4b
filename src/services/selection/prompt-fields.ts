// Prompts in the forms that clients send them: token ids, ids with the places of images, or the hashes of their blocks.
import {
  type BlockHasher,
  blockHashSeed,
  fromBigUint64Array,
  type HashPairs,
  hashBlocks,
  type PromptHashes,
} from '../../kv/index.ts';
import type { GivenPrompt } from '../../road/index.ts';
import {
  badField,
  entriesOf,
  flagOf,
  given,
  hashOf,
  listOf,
  MAX_U32,
  objectOf,
  textOf,
  wholeOf,
} from './fields.ts';

type Fields = Readonly<Record<string, unknown>>;

const MAX_SALT = 65_536;
/** More tokens than a body of hashes stands for. */
const MAX_ISL = 0x7fffffff;
const MAX_ITEMS = 64;
const NO_HASHES: HashPairs = new Uint32Array(0);

/** How blocks of a partition are hashed. */
export interface BlockShape {
  readonly hasher: BlockHasher;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Whether they reach one token further than they step. */
  readonly pairs: boolean;
}

/** A prompt with what its blocks were made for. */
export interface ReadPrompt extends GivenPrompt {
  readonly loraName: string | null;
}

/** A prompt that was read, before it is known how its blocks are hashed. @throws PM_KV_TOO_LONG */
export type UnhashedPrompt = (shape: BlockShape) => ReadPrompt;

/**
 * The prompt of a body; the first form that is there counts: tokens beside images, tokens, hashes.
 * @param needsLocal whether the prompt is to be looked up, so that sequence hashes alone do not do.
 * @throws PM_SELECTOR_REQUEST
 */
export function readPrompt(fields: Fields, needsLocal: boolean): UnhashedPrompt {
  const loraName = given(fields.lora_name, 'lora_name', (value, name) => textOf(value, name, 512)) || null;
  const cacheSalt =
    given(fields.cache_salt, 'cache_salt', (value, name) => textOf(value, name, MAX_SALT)) || null;
  const routing = given(fields.mm_routing_info, 'mm_routing_info', objectOf);
  const routed = given(routing?.routing_token_ids, 'mm_routing_info.routing_token_ids', tokensOf);
  const plain = given(fields.token_ids, 'token_ids', tokensOf);
  const tokens = routed !== null && routed.length > 0 ? routed : plain;
  if (tokens === null) {
    const prompt = { ...hashesOf(fields, needsLocal), loraName };
    return () => prompt;
  }
  if (tokens.length === 0) throw badField('token_ids', 'a list of at least one token id');
  const pairs = given(fields.is_eagle, 'is_eagle', flagOf);
  const multimodal =
    tokens === routed
      ? given(routing?.block_mm_infos, 'mm_routing_info.block_mm_infos', itemsOf)
      : given(fields.block_mm_infos, 'block_mm_infos', itemsOf);
  const seed = blockHashSeed({ loraName, cacheSalt });
  return (shape) => {
    const form = { bigrams: pairs ?? shape.pairs, ...(multimodal === null ? {} : { multimodal }) };
    const hashes = hashBlocks(shape.hasher, tokens, shape.blockSize, seed, form);
    return { promptTokens: tokens.length, hashes, loraName };
  };
}

function hashesOf(fields: Fields, needsLocal: boolean): GivenPrompt {
  const sequence = given(fields.sequence_hashes, 'sequence_hashes', pairsOf);
  const local = given(fields.block_hashes, 'block_hashes', pairsOf);
  const promptTokens = given(fields.isl_tokens, 'isl_tokens', (value, name) =>
    wholeOf(value, name, 1, MAX_ISL),
  );
  if (sequence === null && local === null && promptTokens === null) {
    throw badField('token_ids', needsLocal ? `there, or ${SELECTION_FORM}` : `there, or ${BOOKING_FORM}`);
  }
  if (promptTokens === null) throw badField('isl_tokens', 'there beside hashes');
  if (sequence === null) throw badField('sequence_hashes', 'there beside isl_tokens');
  if (local === null && needsLocal) throw badField('block_hashes', 'there beside sequence_hashes');
  if (local !== null && local.length !== sequence.length)
    throw badField('block_hashes', 'as many as sequence_hashes');
  const hashes: PromptHashes = { blocks: sequence.length >>> 1, local: local ?? NO_HASHES, sequence };
  return { promptTokens, hashes };
}

const SELECTION_FORM = 'block_hashes, sequence_hashes and isl_tokens';
const BOOKING_FORM = 'sequence_hashes and isl_tokens';

function tokensOf(value: unknown, name: string): Uint32Array {
  const list = listOf(value, name);
  const tokens = new Uint32Array(list.length);
  for (let index = 0; index < list.length; index += 1) {
    const token = list[index];
    if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token > MAX_U32)
      throw badField(`${name}[${index}]`, `a whole number from 0 to ${MAX_U32}`);
    tokens[index] = token;
  }
  return tokens;
}

function pairsOf(value: unknown, name: string): HashPairs {
  const list = listOf(value, name);
  return fromBigUint64Array(BigUint64Array.from(list, (hash, index) => hashOf(hash, `${name}[${index}]`)));
}

/** Per block the hashes of its items, in order. */
function itemsOf(value: unknown, name: string): (HashPairs | null)[] {
  return listOf(value, name).map((block, index) => {
    const at = `${name}[${index}]`;
    const fields = given(block, at, objectOf);
    const objects = given(fields?.mm_objects, `${at}.mm_objects`, (list, where) =>
      entriesOf(list, where, MAX_ITEMS, (item, itemAt) =>
        hashOf(objectOf(item, itemAt).mm_hash, `${itemAt}.mm_hash`),
      ),
    );
    if (objects === null || objects.length === 0) return null;
    return fromBigUint64Array(BigUint64Array.from(objects));
  });
}

/** Hashes as clients read them: signed. */
export function signedHashes(pairs: HashPairs): BigInt64Array {
  const signed = new BigInt64Array(pairs.length >>> 1);
  for (let index = 0; index < signed.length; index += 1) {
    const high = BigInt(pairs[2 * index + 1] ?? 0) << 32n;
    signed[index] = BigInt.asIntN(64, high | BigInt(pairs[2 * index] ?? 0));
  }
  return signed;
}

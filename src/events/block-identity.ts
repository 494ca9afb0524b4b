// What a store's extra keys and multimodal infos add to its blocks' identity. Engines list there all that they mixed into a block's
// hash: adapter, items of the prompt, salt, digests of prompt embeddings. What cannot be told apart makes the event unsupported:
// a block under too little identity would match prompts it does not belong to.
import { isDigestId, type MultimodalItems, multimodalHash, type U64 } from '../kv/index.ts';
import { readWireName } from './event-wire-names.ts';
import type { MsgpackReader } from './msgpack-reader.ts';

/** What the fields say. */
export interface BlockIdentity {
  /** The namespace: the field of its own, else the one among the extra keys. */
  readonly cacheSalt: string | null;
  readonly multimodal: MultimodalItems | null;
  readonly unsupported: 'extra_keys' | null;
}

/** Where the fields stand, and what they are read by. */
export interface IdentityFields {
  readonly blocks: number;
  /** Offset of the value; −1 = absent. */
  readonly extraKeysAt: number;
  readonly mmInfosAt: number;
  readonly loraName: string | null;
  readonly cacheSalt: string | null;
  /** Whether the first block starts at position 0, where engines name the salt. */
  readonly isRoot: boolean;
  /** Items that the batch may still name. */
  readonly budget: { items: number };
}

/** Marks a salt among bare strings; Dynamo's vLLM handler adds it. */
const SALT_PREFIX = 'dynamo-cache-salt:';

/** Different items of one block; each takes some tokens, and blocks are short. */
export const MAX_ITEMS_PER_BLOCK = 64;

/** Items named in one batch, repeats included. */
export const MAX_BATCH_ITEMS = 262_144;

/** Reads both fields and leaves the reader where it was. */
export function readIdentity(reader: MsgpackReader, fields: IdentityFields): BlockIdentity {
  if (fields.extraKeysAt < 0 && fields.mmInfosAt < 0) {
    return { cacheSalt: fields.cacheSalt, multimodal: null, unsupported: null };
  }
  const end = reader.at;
  const identity = new IdentityReader(reader, fields);
  if (fields.extraKeysAt >= 0) {
    reader.at = fields.extraKeysAt;
    identity.readExtraKeys();
  }
  if (fields.mmInfosAt >= 0) {
    reader.at = fields.mmInfosAt;
    identity.readMultimodalInfos();
  }
  reader.at = end;
  return identity.result();
}

class IdentityReader {
  readonly #reader: MsgpackReader;
  readonly #fields: IdentityFields;
  /** Hashes per block as (lo, hi), in order of appearance; holes are blocks without items. */
  readonly #items = new Map<number, number[]>();
  #salt: string | null = null;
  #unsupported = false;

  constructor(reader: MsgpackReader, fields: IdentityFields) {
    this.#reader = reader;
    this.#fields = fields;
  }

  result(): BlockIdentity {
    const { blocks, cacheSalt } = this.#fields;
    const multimodal =
      this.#items.size === 0
        ? null
        : Array.from({ length: blocks }, (_, block) => {
            const items = this.#items.get(block);
            return items === undefined ? null : Uint32Array.from(items);
          });
    return {
      cacheSalt: cacheSalt ?? this.#salt,
      multimodal,
      unsupported: this.#unsupported ? 'extra_keys' : null,
    };
  }

  readExtraKeys(): void {
    const reader = this.#reader;
    if (reader.takeNil()) return;
    const blocks = reader.arrayLength('extra_keys');
    for (let block = 0; block < blocks; block += 1) {
      if (reader.takeNil()) continue;
      const keys = reader.arrayLength('the extra keys of a block');
      let isAdapterSeen = false;
      for (let key = 0; key < keys; key += 1) {
        if (reader.isArray()) this.#readPair(block);
        else if (!reader.isString()) this.#skipUnknown();
        else {
          const text = reader.string('an extra key');
          if (text === this.#fields.loraName && !isAdapterSeen) isAdapterSeen = true;
          else this.#readText(text, block);
        }
      }
    }
  }

  readMultimodalInfos(): void {
    const reader = this.#reader;
    if (reader.takeNil()) return;
    const blocks = reader.arrayLength('block_mm_infos');
    for (let block = 0; block < blocks; block += 1) {
      if (reader.takeNil()) continue;
      for (let fields = reader.mapLength('the multimodal info of a block'); fields > 0; fields -= 1) {
        const isObjects = readWireName(reader, 'a key of a multimodal info') === 'mm_objects';
        if (!isObjects || reader.takeNil()) {
          if (!isObjects) reader.skip();
          continue;
        }
        for (let objects = reader.arrayLength('mm_objects'); objects > 0; objects -= 1)
          this.#readObject(block);
      }
    }
  }

  #readObject(block: number): void {
    const reader = this.#reader;
    const at = reader.at;
    let found = false;
    for (let fields = reader.mapLength('a multimodal object'); fields > 0; fields -= 1) {
      if (readWireName(reader, 'a key of a multimodal object') !== 'mm_hash') {
        reader.skip();
        continue;
      }
      reader.integer64('mm_hash');
      this.#add(block, { lo: reader.lo, hi: reader.hi });
      found = true;
    }
    if (!found) reader.fail('a multimodal object must have mm_hash', at);
  }

  /** (id, offset within the block): always an item of the prompt. */
  #readPair(block: number): void {
    const reader = this.#reader;
    const items = reader.arrayLength('an extra key');
    if (items !== 2 || !reader.isString()) {
      for (let item = 0; item < items; item += 1) reader.skip();
      this.#unsupported = true;
      return;
    }
    const id = reader.string('the id of a multimodal item');
    if (!reader.isInteger()) this.#unsupported = true;
    reader.skip();
    if (id === '') this.#unsupported = true;
    else this.#add(block, multimodalHash(id));
  }

  #readText(text: string, block: number): void {
    const { loraName, cacheSalt, isRoot } = this.#fields;
    if (isDigestId(text) && text !== loraName) {
      this.#add(block, multimodalHash(text));
      return;
    }
    const salt = text.startsWith(SALT_PREFIX) ? text.slice(SALT_PREFIX.length) : null;
    if (text === loraName || text === cacheSalt || (salt !== null && salt === cacheSalt)) return;
    // Salts go with the first block only. Without the prefix a text may be anything that the engine mixed in.
    if (salt !== null && block === 0) this.#salt ??= salt;
    else if (salt === null && block === 0 && isRoot && this.#salt === null && cacheSalt === null)
      this.#salt = text;
    else this.#unsupported = true;
  }

  #skipUnknown(): void {
    this.#reader.skip();
    this.#unsupported = true;
  }

  #add(block: number, { lo, hi }: U64): void {
    const { blocks, budget } = this.#fields;
    budget.items -= 1;
    if (budget.items < 0) this.#reader.fail(`a batch names at most ${MAX_BATCH_ITEMS} multimodal items`);
    if (block >= blocks) {
      this.#unsupported = true;
      return;
    }
    const items = this.#items.get(block) ?? [];
    this.#items.set(block, items);
    for (let at = 0; at < items.length; at += 2) if (items[at] === lo && items[at + 1] === hi) return;
    if (items.length >= 2 * MAX_ITEMS_PER_BLOCK) this.#unsupported = true;
    else items.push(lo, hi);
  }
}

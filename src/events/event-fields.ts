// The fields of one event while it is read, for every tag at once; a batch reuses one instance.
import type { HashPairs, Tier, U64 } from '../kv/index.ts';
import type { HintOutcome } from '../observe/index.ts';
import { type BlockIdentity, MAX_BATCH_ITEMS, readIdentity } from './block-identity.ts';
import { readWireName, tierOfMedium, type WireName } from './event-wire-names.ts';
import type { MsgpackReader } from './msgpack-reader.ts';
import type { KvEventScope, KvHintOutcomeEvent } from './types.ts';

/** Most token ids in one batch. */
export const MAX_BATCH_TOKENS = 4 * 1024 * 1024;

/** Most block hashes in one batch. */
export const MAX_BATCH_HASHES = 1024 * 1024;

/** Largest block size an engine may announce, in tokens. */
export const MAX_BLOCK_SIZE = 1024 * 1024;

const NO_WORDS = new Uint32Array(0);

const OUTCOMES: readonly string[] = [
  'accepted',
  'clipped',
  'deferred',
  'rejected',
  'missing',
] satisfies HintOutcome[];

/** Collects fields; `finish` in decode-batch.ts checks that the required ones are there. */
export class EventFields {
  hashes: HashPairs | null = null;
  parent: U64 | null = null;
  tokens: Uint32Array | null = null;
  blockSize: number | null = null;
  tier: Tier = 'device';
  loraName: string | null = null;
  cacheSalt: string | null = null;
  sessionId: string | null = null;
  /** Totals of the whole batch. */
  skippedEvents = 0;
  skippedFields = 0;

  readonly #reader: MsgpackReader;
  #start = 0;
  bigrams = false;
  /** Whether a medium was named; `tier` is `device` where none was. */
  mediumSeen = false;
  #extraKeysAt = -1;
  #mmInfosAt = -1;
  #groupIndex: number | null = null;
  #attentionKind: string | null = null;
  #locality: string | null = null;
  #windowSeen = false;
  #messageId: string | null = null;
  #actionId: string | null = null;
  #outcome: string | null = null;
  #reason: string | null = null;
  #blocks: number | null = null;
  #tokensOfBatch = 0;
  #hashesOfBatch = 0;
  #arena = NO_WORDS;
  #taken = 0;
  readonly #pair = new Uint32Array(2);
  readonly #budget = { items: MAX_BATCH_ITEMS };

  constructor(reader: MsgpackReader) {
    this.#reader = reader;
  }

  /** Forgets the event before; `start` is the new event's offset. */
  reset(start: number): void {
    this.#start = start;
    this.hashes = null;
    this.parent = null;
    this.tokens = null;
    this.blockSize = null;
    this.tier = 'device';
    this.loraName = null;
    this.cacheSalt = null;
    this.sessionId = null;
    this.bigrams = false;
    this.mediumSeen = false;
    this.#extraKeysAt = -1;
    this.#mmInfosAt = -1;
    this.#groupIndex = null;
    this.#attentionKind = null;
    this.#locality = null;
    this.#windowSeen = false;
    this.#messageId = null;
    this.#actionId = null;
    this.#outcome = null;
    this.#reason = null;
    this.#blocks = null;
  }

  /** Throws PM_EVENT_DECODE at the start of the event. */
  fail(problem: string): never {
    return this.#reader.fail(problem, this.#start);
  }

  /** Reads the value of one named field. */
  read(name: WireName): void {
    const reader = this.#reader;
    switch (name) {
      case 'block_hashes':
        this.hashes = this.#readHashes();
        return;
      case 'parent_block_hash':
        this.parent = reader.takeNil() ? null : this.#readHash();
        return;
      case 'token_ids':
        this.tokens = this.#readTokens();
        return;
      case 'block_size':
        this.blockSize = reader.unsigned('block_size', MAX_BLOCK_SIZE);
        if (this.blockSize === 0) this.fail('block_size must be at least 1');
        return;
      case 'medium':
        this.#readMedium();
        return;
      case 'lora_name':
        // SGLang puts a map with the cache salt and the session into this slot.
        if (reader.isMap()) this.#readMetadata();
        else this.loraName = reader.stringOrNull('lora_name');
        return;
      case 'cache_salt':
        this.cacheSalt = reader.stringOrNull('cache_salt');
        return;
      case 'session_id':
        this.sessionId = reader.stringOrNull('session_id');
        return;
      case 'extra_keys':
        this.#extraKeysAt = reader.at;
        reader.skip();
        return;
      case 'block_mm_infos':
        this.#mmInfosAt = reader.at;
        reader.skip();
        return;
      case 'group_idx':
        this.#groupIndex = reader.takeNil() ? null : reader.unsigned('group_idx', 0xffffffff);
        return;
      case 'kv_cache_spec_kind':
        this.#attentionKind = reader.stringOrNull('kv_cache_spec_kind');
        return;
      case 'locality':
        this.#locality = reader.stringOrNull('locality');
        return;
      case 'message_id':
        this.#messageId = reader.string('message_id');
        return;
      case 'action_id':
        this.#actionId = reader.string('action_id');
        return;
      case 'outcome':
        this.#outcome = reader.string('outcome');
        return;
      case 'reason':
        this.#reason = reader.stringOrNull('reason');
        return;
      case 'blocks':
        this.#blocks = reader.takeNil() ? null : reader.unsigned('blocks', 0xffffffff);
        return;
      case 'lora_id':
      case 'kv_cache_spec_sliding_window':
      case 'ownership':
        reader.skip();
        return;
      default:
        reader.skip();
        this.skippedFields += 1;
    }
  }

  /** Reads one slot behind the fixed ones of an array event: what it is shows in its type. */
  readTail(): void {
    const reader = this.#reader;
    if (reader.takeNil()) return;
    if (reader.isArray()) this.read('block_mm_infos');
    else if (reader.isString() && this.#attentionKind === null) this.read('kv_cache_spec_kind');
    else if (reader.isInteger() && this.#groupIndex === null) this.read('group_idx');
    else if (reader.isInteger() && !this.#windowSeen) {
      this.#windowSeen = true;
      reader.skip();
    } else this.read('unknown');
  }

  /** What the extra keys and multimodal infos of a store say; call it when all of its fields are read. */
  identity(): BlockIdentity {
    const blocks = (this.hashes?.length ?? 0) / 2;
    return readIdentity(this.#reader, {
      blocks,
      extraKeysAt: this.#extraKeysAt,
      mmInfosAt: this.#mmInfosAt,
      loraName: this.loraName,
      cacheSalt: this.cacheSalt,
      isRoot: this.parent === null,
      budget: this.#budget,
    });
  }

  /** What decides whether the event is indexed; null when it says nothing. */
  scope(unsupported: KvEventScope['unsupported'] = null): KvEventScope | null {
    if (
      unsupported === null &&
      this.#groupIndex === null &&
      this.#attentionKind === null &&
      this.#locality === null
    ) {
      return null;
    }
    return {
      groupIndex: this.#groupIndex,
      attentionKind: this.#attentionKind,
      locality: this.#locality,
      unsupported,
    };
  }

  /** The outcome event; null (skipped) when the outcome is a word not known here. */
  hintOutcome(): KvHintOutcomeEvent | null {
    const messageId = this.#messageId;
    const actionId = this.#actionId;
    const outcome = this.#outcome;
    if (messageId === null || actionId === null || outcome === null) {
      return this.fail('KvHintOutcome must have message_id, action_id and outcome');
    }
    if (!isOutcome(outcome)) return null;
    return { kind: 'hint-outcome', messageId, actionId, outcome, reason: this.#reason, blocks: this.#blocks };
  }

  // Arrays are cut from a few large ones: one allocation per array costs more than decoding what goes into it.
  #take(length: number): Uint32Array {
    if (this.#taken + length > this.#arena.length) {
      // Half a word per byte holds the arrays of a usual batch, whose tokens take three bytes and hashes nine.
      this.#arena = new Uint32Array(Math.max(length, this.#reader.bytes.length >>> 1));
      this.#taken = 0;
    }
    const from = this.#taken;
    this.#taken += length;
    return this.#arena.subarray(from, this.#taken);
  }

  #readHash(): U64 {
    this.#reader.hash('parent_block_hash');
    return { lo: this.#reader.lo, hi: this.#reader.hi };
  }

  #readHashes(): HashPairs {
    const reader = this.#reader;
    const at = reader.at;
    const length = reader.arrayLength('block_hashes');
    this.#hashesOfBatch += length;
    if (this.#hashesOfBatch > MAX_BATCH_HASHES) {
      reader.fail(`a batch holds at most ${MAX_BATCH_HASHES} block hashes`, at);
    }
    const pairs = this.#take(length * 2);
    reader.hashes(pairs, 'a block hash');
    return pairs;
  }

  #readTokens(): Uint32Array {
    const reader = this.#reader;
    const at = reader.at;
    const length = reader.arrayLength('token_ids');
    this.#tokensOfBatch += length;
    if (this.#tokensOfBatch > MAX_BATCH_TOKENS) {
      reader.fail(`a batch holds at most ${MAX_BATCH_TOKENS} token ids`, at);
    }
    if (length > 0 && reader.isArray()) return this.#readPairs(length);
    const tokens = this.#take(length);
    reader.unsigned32s(tokens, 'a token id');
    return tokens;
  }

  /** The first tokens of all pairs, and the second of the last. */
  #readPairs(length: number): Uint32Array {
    const reader = this.#reader;
    this.bigrams = true;
    const tokens = this.#take(length + 1);
    const pair = this.#pair;
    for (let i = 0; i < length; i += 1) {
      const at = reader.at;
      if (reader.arrayLength('a pair of token ids') !== 2) reader.fail('a pair of token ids must have 2', at);
      reader.unsigned32s(pair, 'a token id');
      tokens[i] = pair[0]!;
    }
    tokens[length] = pair[1]!;
    return tokens;
  }

  #readMedium(): void {
    if (this.#reader.takeNil()) return;
    const tier = tierOfMedium(this.#reader.string('medium'));
    this.mediumSeen = tier !== null;
    if (tier === null) this.skippedFields += 1;
    else this.tier = tier;
  }

  #readMetadata(): void {
    const reader = this.#reader;
    for (let pairs = reader.mapLength('lora_name'); pairs > 0; pairs -= 1) {
      const key = readWireName(reader, 'a key of the map in the place of lora_name');
      this.read(key === 'cache_salt' || key === 'session_id' ? key : 'unknown');
    }
  }
}

function isOutcome(word: string): word is Exclude<HintOutcome, 'unreported'> {
  return OUTCOMES.includes(word);
}

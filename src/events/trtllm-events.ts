// Reads what TensorRT-LLM's `POST /kv_cache_events` answers: a JSON array of events, each with a number of its own. Every event becomes a
// batch with that number, so that one that is lost, as its queue ran over or another reader took it, shows as a gap. Members and rules:
// the serialiser of TensorRT-LLM, and the bridge of ai-dynamo/dynamo (components/src/dynamo/trtllm/publisher.py).
import { parseExactJson } from '../config/index.ts';
import type { HashPairs, U64 } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { KvEvent, KvEventBatch } from './types.ts';

/** Most events in one answer. */
export const MAX_POLLED_EVENTS = 65_536;
/** Most block hashes in one event. */
const MAX_EVENT_HASHES = 65_536;
/** Most hashes remembered of blocks that were left out; the oldest are forgotten. */
const MAX_LEFT_OUT = 65_536;

const TWO_64 = 1n << 64n;

/** One event under its number. */
export interface NumberedBatch {
  /** `event_id`. */
  readonly sequence: number;
  readonly batch: KvEventBatch;
}

/** What one answer says. */
export interface PolledEvents {
  readonly batches: readonly NumberedBatch[];
  /** What is wrong with events that were left out whole: their numbers are missed, so that the stream is known to have a gap. */
  readonly problems: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads the answers of one server, in order. */
export class TrtllmEvents {
  readonly #rank: number;
  /** Largest attention window that was created or heard of, tokens; null = none. */
  #window: number | null = null;
  /** An event other than `created` was read since the server's start. */
  #hasBegun = false;
  /** Blocks that were stored but not told on: partly filled, or of an identity that rests on more than tokens. */
  readonly #leftOut = new Set<string>();

  /** @param rank of the worker; events of another `attention_dp_rank` are left out, as their numbers are another count. */
  constructor(rank: number) {
    this.#rank = rank;
  }

  /**
   * The events of an answer.
   * @param blockSize tokens of a full block of the server (`tokens_per_block`), which it never tells.
   * @param timestamp when the answer came, s: events have no time of their own.
   * @throws PointsmanError PM_EVENT_MESSAGE when the text is no list of at most {@link MAX_POLLED_EVENTS} events.
   */
  read(text: string, blockSize: number, timestamp: number): PolledEvents {
    const batches: NumberedBatch[] = [];
    const problems: string[] = [];
    for (const event of listOf(text)) {
      const sequence = isFields(event) ? wholeOrNull(event.event_id) : null;
      if (!isFields(event) || sequence === null) {
        problems.push('an event has no event_id that is a whole number');
        continue;
      }
      const rank = event.attention_dp_rank ?? null;
      if (rank !== null && rank !== this.#rank) {
        problems.push(
          `events of attention_dp_rank ${typeof rank === 'number' ? rank : 'unknown'} are left out: one url stands for rank ${this.#rank} alone`,
        );
        continue;
      }
      const events = this.#eventsOf(event, blockSize);
      if (typeof events === 'string') problems.push(`event ${sequence}: ${events}`);
      else batches.push({ sequence, batch: { timestamp, events, rank: null } });
    }
    return { batches, problems };
  }

  /** What an event means, often nothing; text = what is wrong with it. */
  #eventsOf(event: Fields, blockSize: number): readonly KvEvent[] | string {
    const { data } = event;
    if (!isFields(data)) return 'data is not an object';
    const window = event.window_size ?? null;
    if (window !== null && wholeOrNull(window) === null) return 'window_size is not a whole number';
    if (data.type === 'created') {
      this.#created(wholeOrNull(window));
      return [];
    }
    this.#hasBegun = true;
    const larger = this.#isLargerWindow(wholeOrNull(window));
    if (larger === 'smaller') return [];
    // What was taken for the whole prompt until now was that of a smaller window.
    const before: readonly KvEvent[] = larger === 'larger' ? [{ kind: 'cleared' }] : [];
    switch (data.type) {
      case 'stored': {
        const stored = this.#stored(data, blockSize);
        return typeof stored === 'string' ? stored : [...before, ...stored];
      }
      case 'removed': {
        const removed = this.#removed(data);
        return typeof removed === 'string' ? removed : [...before, ...removed];
      }
      // `updated` moves a block between the tiers of the same server, where it can be reused as before; others are not known.
      default:
        return before;
    }
  }

  #created(window: number | null): void {
    if (this.#hasBegun) {
      // A server creates its pools at its start: this is another process.
      this.#hasBegun = false;
      this.#window = null;
      this.#leftOut.clear();
    }
    if (window !== null) this.#window = Math.max(window, this.#window ?? 0);
  }

  /** Models with several attention windows announce the blocks of each; only those of the largest say what prefix can be reused. */
  #isLargerWindow(window: number | null): 'same' | 'smaller' | 'larger' {
    if (window === null || window === this.#window) return 'same';
    if (this.#window === null) {
      this.#window = window;
      return 'same';
    }
    if (window < this.#window) return 'smaller';
    this.#window = window;
    return 'larger';
  }

  #stored(data: Fields, blockSize: number): readonly KvEvent[] | string {
    const parentHash = data.parent_hash ?? null;
    const parent = parentHash === null ? null : u64OrNull(parentHash);
    if (parentHash !== null && parent === null) return 'parent_hash is not a hash';
    if (!Array.isArray(data.blocks) || data.blocks.length > MAX_EVENT_HASHES)
      return `blocks is no list of at most ${MAX_EVENT_HASHES}`;
    const blocks: readonly unknown[] = data.blocks;
    const hashes: U64[] = [];
    const tokenIds: number[] = [];
    let usable = (data.lora_id ?? 0) === 0 && (parent === null || !this.#leftOut.has(nameOf(parent)));
    for (const block of blocks) {
      if (!isFields(block)) return 'a block is not an object';
      // A block that the server has not hashed yet is announced again when it has.
      if ((block.block_hash ?? null) === null) break;
      const hash = u64OrNull(block.block_hash);
      if (hash === null) return 'block_hash is not a hash';
      if (!Array.isArray(block.tokens)) return 'a block has no tokens';
      if (block.tokens.length > blockSize)
        return `a block has ${block.tokens.length} tokens where the model's have ${blockSize}; set block_size of the model to tokens_per_block of the server`;
      const isFull = block.tokens.length === blockSize;
      usable &&= isFull && isPlain(block);
      if (!usable) {
        this.#leaveOut(hash);
        continue;
      }
      for (const token of block.tokens as readonly unknown[]) {
        const id = isFields(token) ? wholeOrNull(token.token_id) : null;
        if (id === null || id > 0xffffffff) return 'a token_id is not a whole number below 2^32';
        if (isFields(token) && (token.token_extra_id ?? 0) !== 0) usable = false;
        tokenIds.push(id);
      }
      if (usable) {
        hashes.push(hash);
        // The server computed it anew as one that can be told on.
        this.#leftOut.delete(nameOf(hash));
      } else {
        tokenIds.length -= blockSize;
        this.#leaveOut(hash);
      }
    }
    if (hashes.length === 0) return [];
    return [
      {
        kind: 'stored',
        external: pairsOf(hashes),
        parent,
        tokenIds: Uint32Array.from(tokenIds),
        blockSize,
        tier: 'device',
        loraName: null,
        cacheSalt: null,
        sessionId: null,
      },
    ];
  }

  #removed({ block_hashes: given }: Fields): readonly KvEvent[] | string {
    if (!Array.isArray(given) || given.length > MAX_EVENT_HASHES)
      return `block_hashes is no list of at most ${MAX_EVENT_HASHES}`;
    const hashes: U64[] = [];
    for (const value of given as readonly unknown[]) {
      const hash = u64OrNull(value);
      if (hash === null) return 'a hash in block_hashes is none';
      if (!this.#leftOut.delete(nameOf(hash))) hashes.push(hash);
    }
    return hashes.length === 0 ? [] : [{ kind: 'removed', external: pairsOf(hashes), tier: 'device' }];
  }

  #leaveOut(hash: U64): void {
    for (const oldest of this.#leftOut) {
      if (this.#leftOut.size < MAX_LEFT_OUT) break;
      this.#leftOut.delete(oldest);
    }
    this.#leftOut.add(nameOf(hash));
  }
}

/** Whether a block's identity rests on its tokens alone: no images, no adapter. */
function isPlain({ lora_id: adapter, mm_keys: items }: Fields): boolean {
  return (adapter ?? 0) === 0 && (!Array.isArray(items) || items.length === 0);
}

function listOf(text: string): readonly unknown[] {
  let parsed: unknown;
  try {
    parsed = parseExactJson(text);
  } catch {
    // Without the text, which holds the tokens of prompts.
    throw new PointsmanError('PM_EVENT_MESSAGE', 'the answer of /kv_cache_events is not JSON');
  }
  if (Array.isArray(parsed) && parsed.length <= MAX_POLLED_EVENTS) return parsed;
  throw new PointsmanError(
    'PM_EVENT_MESSAGE',
    `the answer of /kv_cache_events is no list of at most ${MAX_POLLED_EVENTS} events`,
  );
}

/** A whole number, where a negative one is a signed form, or hexadecimal text (SHA-256) of which the first 16 digits count. */
function u64OrNull(value: unknown): U64 | null {
  const whole =
    typeof value === 'string'
      ? /^[0-9a-fA-F]{16,64}$/.test(value)
        ? BigInt(`0x${value.slice(0, 16)}`)
        : null
      : typeof value === 'number' && Number.isSafeInteger(value)
        ? BigInt(value)
        : value;
  if (typeof whole !== 'bigint' || whole >= TWO_64 || whole < -TWO_64 / 2n) return null;
  const unsigned = BigInt.asUintN(64, whole);
  return { lo: Number(unsigned & 0xffffffffn), hi: Number(unsigned >> 32n) };
}

function pairsOf(hashes: readonly U64[]): HashPairs {
  const pairs = new Uint32Array(2 * hashes.length);
  hashes.forEach(({ hi, lo }, at) => {
    pairs[2 * at] = lo;
    pairs[2 * at + 1] = hi;
  });
  return pairs;
}

function nameOf({ hi, lo }: U64): string {
  return `${hi}:${lo}`;
}

function wholeOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// One sequence and the engine's book about it: which tokens it has KV of, and the blocks they make.
import type { HashPairs, U64 } from '../kv/index.ts';
import type { ExternalHasher } from '../simulator/index.ts';
import type { KvBlocks } from './kv-blocks.ts';
import type { KvSequence } from './types.ts';

/** A prompt with the names of its full blocks. */
export interface NamedPrompt {
  readonly tokens: Uint32Array;
  /** The engine's own names, announced in its events. */
  readonly external: HashPairs;
  /** Hashes they are made of, to name further blocks behind them. */
  readonly sequence: HashPairs;
  /** Whose blocks they are: those of another salt have other names, so that they are shared with nobody else. */
  readonly cacheSalt: string | null;
  /** Of local hashes; follows from the salt, as there are no adapters here. */
  readonly seed: U64;
}

/** What slots of one engine share. */
export interface SlotParts {
  readonly blocks: KvBlocks;
  readonly hasher: ExternalHasher;
  readonly blockSize: number;
  /** Most tokens of one sequence. */
  readonly capacity: number;
}

/** A sequence with its book. */
export class SequenceSlot {
  readonly kv: KvSequence;
  /** A request runs in it. */
  running = false;
  /** Copies of it that are under way. */
  lent = 0;
  /** Its KV is what the book says: not while a copy is under way. */
  settled = true;
  /** Grows with every use; 0 = never used. */
  lastUsed = 0;
  readonly #parts: SlotParts;
  readonly #tokens: Uint32Array;
  readonly #rows: Int32Array;
  readonly #external: Uint32Array;
  readonly #sequence: Uint32Array;
  #length = 0;
  #blockCount = 0;

  constructor(kv: KvSequence, parts: SlotParts) {
    const most = Math.floor(parts.capacity / parts.blockSize);
    this.kv = kv;
    this.#parts = parts;
    this.#tokens = new Uint32Array(parts.capacity);
    this.#rows = new Int32Array(most);
    this.#external = new Uint32Array(2 * most);
    this.#sequence = new Uint32Array(2 * most);
  }

  /** Whether nobody else may change it. */
  get busy(): boolean {
    return this.running || this.lent > 0;
  }

  /** Tokens with KV. */
  get length(): number {
    return this.#length;
  }

  /** Full blocks of them. */
  get blockCount(): number {
    return this.#blockCount;
  }

  /** Row of a block. */
  rowAt(index: number): number {
    return this.#rows[index] ?? -1;
  }

  /** Its blocks in front that are those of a prompt, at most `most`. */
  commonBlocks({ external }: NamedPrompt, most: number): number {
    const end = Math.min(most, this.#blockCount);
    let common = 0;
    while (
      common < end &&
      this.#external[2 * common] === external[2 * common] &&
      this.#external[2 * common + 1] === external[2 * common + 1]
    ) {
      common += 1;
    }
    return common;
  }

  /** Strikes everything behind the first blocks, the last block first. */
  trim(keepBlocks: number, forRoom: boolean): void {
    for (let index = this.#blockCount - 1; index >= keepBlocks; index -= 1) {
      this.#parts.blocks.release(this.#rows[index]!, forRoom);
    }
    this.#blockCount = Math.min(this.#blockCount, keepBlocks);
    this.#length = this.#blockCount * this.#parts.blockSize;
  }

  /** Enters the first blocks of a prompt, whose KV another sequence has and this one gets; it must be empty. */
  adopt(prompt: NamedPrompt, blocks: number): void {
    this.append(prompt.tokens.subarray(0, blocks * this.#parts.blockSize), prompt, null);
  }

  /** Enters tokens that have KV now, and announces the blocks that became full and are new. */
  append(tokens: Uint32Array, prompt: NamedPrompt, sessionId: string | null): void {
    const { blockSize } = this.#parts;
    this.#tokens.set(tokens, this.#length);
    this.#length += tokens.length;
    const end = Math.floor(this.#length / blockSize);
    let newFrom = -1;
    for (let index = this.#blockCount; index < end; index += 1) {
      this.#name(index, prompt);
      const { isNew, row } = this.#parts.blocks.hold(
        this.#external[2 * index]!,
        this.#external[2 * index + 1]!,
      );
      this.#rows[index] = row;
      if (isNew && newFrom < 0) newFrom = index;
      if (!isNew && newFrom >= 0) {
        this.#announce(newFrom, index, prompt, sessionId);
        newFrom = -1;
      }
    }
    this.#blockCount = end;
    if (newFrom >= 0) this.#announce(newFrom, end, prompt, sessionId);
  }

  #name(index: number, { external, seed, sequence }: NamedPrompt): void {
    const at = 2 * index;
    if (at < external.length) {
      this.#external.set(external.subarray(at, at + 2), at);
      this.#sequence.set(sequence.subarray(at, at + 2), at);
      return;
    }
    const { blockSize, hasher } = this.#parts;
    const parent = index === 0 ? null : { lo: this.#sequence[at - 2]!, hi: this.#sequence[at - 1]! };
    const tokens = this.#tokens.slice(index * blockSize, (index + 1) * blockSize);
    const { hi, lo } = hasher.next(tokens, parent, this.#external, index, seed);
    this.#sequence[at] = lo;
    this.#sequence[at + 1] = hi;
  }

  #announce(from: number, to: number, { cacheSalt }: NamedPrompt, sessionId: string | null): void {
    const { blockSize, blocks } = this.#parts;
    blocks.stored({
      kind: 'stored',
      external: this.#external.slice(2 * from, 2 * to),
      parent: from === 0 ? null : { lo: this.#external[2 * from - 2]!, hi: this.#external[2 * from - 1]! },
      tokenIds: this.#tokens.slice(from * blockSize, to * blockSize),
      blockSize,
      tier: 'device',
      loraName: null,
      cacheSalt,
      sessionId,
    });
  }
}

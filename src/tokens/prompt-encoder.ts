// What a tokenizer thread does with a prompt: renders it, cuts it at special tokens and encodes only the pieces it has not seen
// lately. The turns of a chat share all messages but the last, so its next turn costs what was added to it.

import { TokenSplit } from './builtin/added-tokens.ts';
import type { TextTokenizer } from './builtin/text-tokenizer.ts';
import { IdCache, keyOfText } from './id-cache.ts';
import { NO_WRAP, type SpecialWrap, type Truncation, truncated, truncatedWithin } from './truncation.ts';
import type { ChatPrompt } from './types.ts';

/** What encoding one prompt took. */
export interface EncodeCounts {
  /** Pieces of text between special tokens. */
  readonly pieces: number;
  /** Those whose ids were still there. */
  readonly reused: number;
  /** Characters (UTF-16 units) that the tokenizer went through. */
  readonly encodedChars: number;
  /** Memory of the cache afterwards. */
  readonly cachedBytes: number;
}

/** Ids of a prompt, and what they took. */
export interface EncodedPrompt {
  readonly ids: Uint32Array;
  readonly counts: EncodeCounts;
}

/** Encodes the prompts of one model on one thread. */
export class PromptEncoder {
  readonly #tokenizer: TextTokenizer;
  readonly #split: TokenSplit;
  readonly #cache: IdCache;
  readonly #wrap: SpecialWrap | null;
  #isWhole: boolean;
  #pieces = 0;
  #reused = 0;
  #chars = 0;

  /** @param cacheBytes most memory of the ids of pieces; 0 = every piece is encoded each time. */
  constructor(tokenizer: TextTokenizer, cacheBytes: number) {
    this.#tokenizer = tokenizer;
    this.#split = new TokenSplit(tokenizer.addedTokens);
    this.#cache = new IdCache(cacheBytes);
    this.#wrap = wrapOf(tokenizer);
    this.#isWhole = !this.#split.cuts;
  }

  /** Whether prompts are encoded piece by piece. */
  get inPieces(): boolean {
    return !this.#isWhole;
  }

  /** Whether the tokenizer has tokens to cut at. */
  get canCut(): boolean {
    return this.#split.cuts;
  }

  /** From now on every prompt is encoded as a whole: its pieces would have other ids. */
  encodeWhole(): void {
    this.#isWhole = true;
  }

  encodePrompt(text: string, addSpecialTokens: boolean, truncation: Truncation | null): EncodedPrompt {
    this.#pieces = 0;
    this.#reused = 0;
    this.#chars = 0;
    const wrap = addSpecialTokens ? this.#wrap : NO_WRAP;
    const ids =
      wrap === null
        ? truncated(this.#whole(text, true), truncation)
        : truncatedWithin(this.#isWhole ? this.#whole(text, false) : this.#inPieces(text), wrap, truncation);
    return {
      ids,
      counts: {
        pieces: this.#pieces,
        reused: this.#reused,
        encodedChars: this.#chars,
        cachedBytes: this.#cache.bytes,
      },
    };
  }

  /** @throws PointsmanError PM_CHAT_INVALID, PM_CHAT_TEMPLATE */
  encodeChat(chat: ChatPrompt): EncodedPrompt {
    const text = this.#tokenizer.renderChat(chat.messages, {
      addGenerationPrompt: chat.addGenerationPrompt,
      continueFinalMessage: chat.continueFinalMessage === true,
      variables: chat.variables,
      ...(chat.tools === undefined ? {} : { tools: chat.tools }),
    });
    return this.encodePrompt(text, chat.addSpecialTokens, chat.truncation ?? null);
  }

  #whole(text: string, addSpecialTokens: boolean): Uint32Array {
    this.#pieces += 1;
    this.#chars += text.length;
    return this.#tokenizer.encode(text, addSpecialTokens);
  }

  #inPieces(text: string): Uint32Array {
    const parts: (Uint32Array | number)[] = [];
    let length = 0;
    this.#split.split(text, {
      token: (id) => {
        parts.push(id);
        length += 1;
      },
      text: (piece) => {
        const ids = this.#piece(piece);
        parts.push(ids);
        length += ids.length;
      },
    });
    const all = new Uint32Array(length);
    let at = 0;
    for (const part of parts) {
      if (typeof part === 'number') {
        all[at] = part;
        at += 1;
      } else {
        all.set(part, at);
        at += part.length;
      }
    }
    return all;
  }

  #piece(piece: string): Uint32Array {
    const key = keyOfText(piece);
    const kept = this.#cache.get(key);
    if (kept !== undefined) {
      this.#pieces += 1;
      this.#reused += 1;
      return kept;
    }
    const ids = this.#whole(piece, false);
    this.#cache.set(key, ids);
    return ids;
  }
}

/** Plain words, so that every tokenizer has ids for them. */
const WRAPPED = ['hello world', 'a'];

/** What is put around a text; null when it is not the same for each. */
function wrapOf(tokenizer: TextTokenizer): SpecialWrap | null {
  let found: SpecialWrap | null = null;
  for (const text of WRAPPED) {
    const plain = tokenizer.encode(text, false);
    const wrapped = tokenizer.encode(text, true);
    const extra = wrapped.length - plain.length;
    const at = Array.from({ length: extra + 1 }, (_, start) => start).find((start) =>
      plain.every((id, index) => wrapped[start + index] === id),
    );
    if (plain.length === 0 || at === undefined) return null;
    const wrap = { prefix: wrapped.slice(0, at), suffix: wrapped.slice(at + plain.length) };
    if (found !== null && !(same(found.prefix, wrap.prefix) && same(found.suffix, wrap.suffix))) return null;
    found = wrap;
  }
  return found;
}

function same(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

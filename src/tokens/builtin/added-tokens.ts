// Tokens that a tokenizer takes out of the text before anything else sees it: at each of them a prompt can be cut, and the ids of
// its pieces are the ids of the whole.

/** One token of `added_tokens` that is matched in the text as it is written. */
export interface AddedToken {
  readonly content: string;
  readonly id: number;
  /** Whether it leaves the text beside it alone, so that a prompt may be cut at it. */
  readonly isExact: boolean;
  /** Whether it marks structure, such as the end of a message, rather than text. */
  readonly isSpecial: boolean;
}

/**
 * The tokens that are found in the raw text. Those that are found after normalising are left out: the text that they are found in
 * does not exist before.
 * @param model a parsed `tokenizer.json`.
 */
export function readAddedTokens(model: Readonly<Record<string, unknown>>): AddedToken[] {
  const list: readonly unknown[] = Array.isArray(model.added_tokens) ? model.added_tokens : [];
  const hasNormalizer = (model.normalizer ?? null) !== null;
  const tokens: AddedToken[] = [];
  for (const token of list) {
    if (typeof token !== 'object' || token === null) continue;
    const { content, id, special, normalized, lstrip, rstrip, single_word } = token as Readonly<
      Record<string, unknown>
    >;
    if (typeof content !== 'string' || content === '' || typeof id !== 'number') continue;
    const isNormalized = typeof normalized === 'boolean' ? normalized : special !== true;
    if (isNormalized && hasNormalizer) continue;
    const isExact = lstrip !== true && rstrip !== true && single_word !== true;
    tokens.push({ content, id, isExact, isSpecial: special === true });
  }
  return tokens;
}

/** Told of the pieces of a text in order; a token by its id, the text between two tokens as it is, never empty. */
export interface PieceSink {
  token(id: number): void;
  text(piece: string): void;
}

/** Cuts texts at exact tokens, found as the tokenizer finds them: from the left, the longest where several begin. */
export class TokenSplit {
  readonly #tokens = new Map<string, AddedToken>();
  readonly #pattern: RegExp | null;

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) this.#tokens.set(token.content, token);
    // The others have to be found too: an exact token inside one of them is none.
    const contents = [...this.#tokens.keys()].sort((a, b) => b.length - a.length);
    const isExact = tokens.some((token) => token.isExact);
    this.#pattern = isExact ? new RegExp(contents.map(escaped).join('|'), 'g') : null;
  }

  /** Whether there is any token to cut at. */
  get cuts(): boolean {
    return this.#pattern !== null;
  }

  split(text: string, sink: PieceSink): void {
    let from = 0;
    if (this.#pattern !== null) {
      this.#pattern.lastIndex = 0;
      for (let match = this.#pattern.exec(text); match !== null; match = this.#pattern.exec(text)) {
        const token = this.#tokens.get(match[0]);
        if (token === undefined || !token.isExact) continue;
        if (match.index > from) sink.text(text.slice(from, match.index));
        sink.token(token.id);
        from = match.index + match[0].length;
      }
    }
    if (from < text.length) sink.text(text.slice(from));
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

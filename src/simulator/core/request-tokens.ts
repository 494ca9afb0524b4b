// The tokens of a request in an engine: its prompt, which is shared with whoever sent it, and its output behind that.

const NOTHING = new Uint32Array(0);

/** Prompt and output, as one row of tokens. A prompt may be long and is only read, never copied. */
export class RequestTokens {
  /** Tokens so far. */
  length: number;
  readonly #prompt: Uint32Array;
  #output = NOTHING;

  constructor(prompt: Uint32Array) {
    this.#prompt = prompt;
    this.length = prompt.length;
  }

  /** Makes room for an output of so many tokens. */
  reserve(outputTokens: number): void {
    this.#output = new Uint32Array(outputTokens);
  }

  /** Adds a token of output, within what is reserved. */
  append(token: number): void {
    this.#output[this.length - this.#prompt.length] = token;
    this.length += 1;
  }

  /** The last token of output. */
  get last(): number {
    return this.#output[this.length - this.#prompt.length - 1]!;
  }

  /** Tokens [from, to): not copied where they are all prompt or all output, so not to be changed. */
  view(from: number, to: number): Uint32Array {
    const prompt = this.#prompt;
    const end = prompt.length;
    if (to <= end) return prompt.subarray(from, to);
    if (from >= end) return this.#output.subarray(from - end, to - end);
    const both = new Uint32Array(to - from);
    both.set(prompt.subarray(from));
    both.set(this.#output.subarray(0, to - end), end - from);
    return both;
  }
}

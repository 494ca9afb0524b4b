// The text of an answer while its tokens come: characters that are not complete, and what may become a stop, are held back.

const BROKEN = '\ufffd';
/** The longest character in bytes, and so in tokens of a byte each, with room to spare. */
const MAX_HELD_TOKENS = 8;
/** Tokens in front of others that decide how these are written, such as whether a space begins them. */
const CONTEXT_TOKENS = 4;

/** Turns tokens into text. */
export class OutputText {
  readonly #textOf: (tokens: readonly number[], before: readonly number[]) => string;
  readonly #stops: readonly string[];
  #held: number[] = [];
  #before: number[];
  /** Text that may be the beginning of a stop. */
  #pending = '';
  #stopped = false;

  /** @param prompt its last tokens stand in front of the answer. */
  constructor(
    textOf: (tokens: readonly number[], before: readonly number[]) => string,
    stops: readonly string[],
    prompt: Uint32Array,
  ) {
    this.#textOf = textOf;
    this.#stops = stops;
    this.#before = [...prompt.subarray(-CONTEXT_TOKENS)];
  }

  /** A stop was found: nothing further is text. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Takes one more token and gives what can be shown now, often nothing. */
  push(token: number): string {
    this.#held.push(token);
    const text = this.#textOf(this.#held, this.#before);
    if (text.endsWith(BROKEN) && this.#held.length < MAX_HELD_TOKENS) return '';
    this.#before = [...this.#before, ...this.#held].slice(-CONTEXT_TOKENS);
    this.#held = [];
    return this.#show(text);
  }

  /** The answer is over: gives what was held back. */
  end(): string {
    if (this.#stopped) return '';
    const rest = this.#held.length === 0 ? '' : this.#show(this.#textOf(this.#held, this.#before));
    const pending = this.#pending;
    this.#held = [];
    this.#pending = '';
    return rest + pending;
  }

  #show(text: string): string {
    if (this.#stopped) return '';
    if (this.#stops.length === 0) return text;
    const all = this.#pending + text;
    const found = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#stopped = true;
      this.#pending = '';
      return all.slice(0, Math.min(...found));
    }
    const held = Math.max(...this.#stops.map((stop) => beginningOf(stop, all)));
    this.#pending = all.slice(all.length - held);
    return all.slice(0, all.length - held);
  }
}

/** How many characters at the end of a text are the beginning of a stop. */
function beginningOf(stop: string, text: string): number {
  for (let length = Math.min(stop.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(stop.slice(0, length))) return length;
  }
  return 0;
}

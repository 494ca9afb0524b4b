// Cuts the lists of events out of a dump while it comes in, so that neither its text nor what a parser makes of it is ever whole in
// memory: both are many times as large as the blocks they tell of.
import { parseExactJson } from '../../config/index.ts';

const QUOTE = 34;
const COMMA = 44;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Levels of the object of a partition, and of its lists. */
const OBJECT_LEVEL = 2;
const LIST_LEVEL = 3;
/** What stands before a partition's list of events. */
const EVENTS_KEY = /(?<!\\)"events"\s*:\s*$/;
const KEY_LENGTH = 64;

/** Bounds of what is read at once. */
export interface EventListLimits {
  /** Levels of lists and objects. */
  readonly levels: number;
  /** Characters of one event, and of all that stands between the lists. */
  readonly characters: number;
}

/** The lists of one dump. */
export class EventLists<T> {
  readonly #limits: EventListLimits;
  readonly #read: (value: unknown, index: number) => readonly T[];
  readonly #refuse: (problem: string) => Error;
  readonly #lists: T[][] = [];
  /** The text without the lists. */
  #outside = '';
  /** The event that is being read. */
  #event = '';
  /** The list that is being read; null outside of them. */
  #list: T[] | null = null;
  /** Members of that list so far. */
  #members = 0;
  #level = 0;
  #isInString = false;
  #isEscaped = false;

  /**
   * @param read what is kept of a list's member.
   * @param refuse makes the error for a text beyond the limits.
   */
  constructor(
    limits: EventListLimits,
    read: (value: unknown, index: number) => readonly T[],
    refuse: (problem: string) => Error,
  ) {
    this.#limits = limits;
    this.#read = read;
    this.#refuse = refuse;
  }

  /** The next piece of the text. @throws SyntaxError, what `read` throws, and what `refuse` makes */
  feed(text: string): void {
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const character = text.charCodeAt(at);
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (character === BACKSLASH) this.#isEscaped = true;
        else if (character === QUOTE) this.#isInString = false;
        continue;
      }
      switch (character) {
        case QUOTE:
          this.#isInString = true;
          break;
        case OPEN_LIST:
        case OPEN_OBJECT:
          this.#open();
          if (character === OPEN_LIST && this.#begins(text, from, at)) {
            this.#keep(text.slice(from, at + 1));
            from = at + 1;
            this.#list = [];
            this.#members = 0;
          }
          break;
        case CLOSE_LIST:
        case CLOSE_OBJECT:
          this.#level -= 1;
          if (this.#list !== null && this.#level === OBJECT_LEVEL) {
            this.#endList(text.slice(from, at));
            from = at;
          }
          break;
        case COMMA:
          if (this.#list === null || this.#level !== LIST_LEVEL) break;
          this.#keep(text.slice(from, at));
          this.#take();
          from = at + 1;
          break;
        default:
      }
    }
    this.#keep(text.slice(from));
  }

  /**
   * The text is complete.
   * @returns what it says, each list of events replaced by one with the list's number.
   * @throws SyntaxError
   */
  end(): unknown {
    return parseExactJson(this.#outside);
  }

  /** What was read of a list. */
  list(number: unknown): readonly T[] | undefined {
    return typeof number === 'number' ? this.#lists[number] : undefined;
  }

  #open(): void {
    this.#level += 1;
    if (this.#level > this.#limits.levels)
      throw this.#refuse(`it nests deeper than ${this.#limits.levels} levels`);
  }

  /** Whether a list that opens is one of events. */
  #begins(text: string, from: number, at: number): boolean {
    if (this.#list !== null || this.#level !== LIST_LEVEL) return false;
    const before = text.slice(Math.max(from, at - KEY_LENGTH), at);
    return EVENTS_KEY.test(before.length < KEY_LENGTH ? this.#outside.slice(-KEY_LENGTH) + before : before);
  }

  #keep(text: string): void {
    if (this.#list === null) this.#outside += text;
    else this.#event += text;
    if (Math.max(this.#outside.length, this.#event.length) > this.#limits.characters)
      throw this.#refuse(`it has a part of more than ${this.#limits.characters} characters`);
  }

  /** Takes a member of the list. */
  #take(): void {
    const value = parseExactJson(this.#event);
    this.#event = '';
    for (const one of this.#read(value, this.#members)) this.#list?.push(one);
    this.#members += 1;
  }

  #endList(rest: string): void {
    this.#keep(rest);
    if (this.#members > 0 || this.#event.trim() !== '') this.#take();
    this.#event = '';
    const list = this.#list ?? [];
    this.#list = null;
    this.#keep(String(this.#lists.length));
    this.#lists.push(list);
  }
}

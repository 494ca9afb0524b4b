// Fields of a JSON line, read one by one: what is wrong is said with the place of the field and what would be right.

/** Makes the error of a line. */
export type LineFault = (problem: string) => Error;

const decoder = new TextDecoder('utf-8', { fatal: true });

/** A JSON object and where it stands in its line; '' = it is the line. */
export class LineObject {
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #place: string;
  readonly #fault: LineFault;

  private constructor(fields: Readonly<Record<string, unknown>>, place: string, fault: LineFault) {
    this.#fields = fields;
    this.#place = place;
    this.#fault = fault;
  }

  /** A whole line. @throws the fault when it is no JSON object in UTF-8. @param holds what it should hold. */
  static ofLine(bytes: Uint8Array, holds: string, fault: LineFault): LineObject {
    let value: unknown;
    try {
      value = JSON.parse(decoder.decode(bytes));
    } catch {
      throw fault('the line is no valid JSON in UTF-8');
    }
    if (!isRecord(value)) throw fault(`the line is no JSON object with ${holds}`);
    return new LineObject(value, '', fault);
  }

  has(field: string): boolean {
    return (this.#fields[field] ?? null) !== null;
  }

  /** The error of a field or of the whole object. */
  wrong(field: string, problem: string): Error {
    return this.#fault(`${this.#at(field)} ${problem}`);
  }

  /** A number, or `absent` where there is none; without `absent` it has to be there. */
  number(field: string, least: number, most: number, kind: 'whole' | 'any', absent?: number): number {
    const value = this.#fields[field] ?? null;
    if (value === null && absent !== undefined) return absent;
    if (typeof value === 'number' && value >= least && value <= most) {
      if (kind === 'any' || Number.isInteger(value)) return value;
    }
    const right = `${kind === 'whole' ? 'a whole number' : 'a number'} from ${least} to ${most}`;
    throw this.#notRight(field, value, right);
  }

  /** A text of 1 to `most` printable ASCII characters without blanks. */
  text(field: string, most: number): string {
    const value = this.#fields[field] ?? null;
    if (typeof value === 'string' && value.length <= most && /^[\x21-\x7e]+$/.test(value)) return value;
    throw this.#notRight(field, value, `a text of 1 to ${most} printable ASCII characters without blanks`);
  }

  /** One of some words. */
  word<T extends string>(field: string, words: readonly T[]): T {
    const value = this.#fields[field] ?? null;
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    throw this.#notRight(field, value, words.map((word) => JSON.stringify(word)).join(' or '));
  }

  /** Refuses what is there and no text of at most `most` characters. */
  optionalText(field: string, most: number): void {
    const value = this.#fields[field] ?? null;
    if (value === null || (typeof value === 'string' && value.length <= most)) return;
    throw this.#notRight(field, value, `a text of at most ${most} characters`);
  }

  /** A list of at most `most` texts; empty where there is none. */
  texts(field: string, most: number): readonly string[] {
    const value = this.#fields[field] ?? null;
    if (value === null) return [];
    const isList = (list: unknown): list is readonly string[] =>
      Array.isArray(list) && list.length <= most && list.every((one) => typeof one === 'string');
    if (isList(value)) return value;
    throw this.#notRight(field, value, `a list of at most ${most} texts`);
  }

  /** A list of `length` whole numbers below 2^32. @param because why it has that length. */
  ids(field: string, length: number, because: string): readonly number[] {
    const value = this.#fields[field] ?? null;
    if (!Array.isArray(value)) throw this.#notRight(field, value, 'a list of whole numbers');
    const list: readonly unknown[] = value;
    if (list.length !== length) {
      throw this.wrong(field, `has ${list.length} entries, but ${because} makes ${length}`);
    }
    const isId = (one: unknown): one is number =>
      typeof one === 'number' && Number.isInteger(one) && one >= 0 && one <= 0xffffffff;
    const wrongAt = list.findIndex((one) => !isId(one));
    if (wrongAt >= 0) {
      throw this.#notRight(`${field}[${wrongAt}]`, list[wrongAt], 'a whole number from 0 to 4294967295');
    }
    return list.filter(isId);
  }

  /** A list of 1 to `most` objects. */
  objects(field: string, most: number): readonly LineObject[] {
    const value = this.#fields[field] ?? null;
    const right = `a list of 1 to ${most} objects`;
    if (!Array.isArray(value)) throw this.#notRight(field, value, right);
    const list: readonly unknown[] = value;
    if (list.length < 1 || list.length > most) {
      throw this.wrong(field, `has ${list.length} entries; it must be ${right}`);
    }
    return list.map((one, index) => {
      if (isRecord(one)) return new LineObject(one, this.#at(`${field}[${index}]`), this.#fault);
      throw this.#notRight(`${field}[${index}]`, one, 'an object');
    });
  }

  #notRight(field: string, value: unknown, right: string): Error {
    if (value === null || value === undefined) return this.wrong(field, `is missing; it is ${right}`);
    return this.wrong(field, `is ${shown(value)}; it must be ${right}`);
  }

  #at(field: string): string {
    return this.#place === '' ? field : `${this.#place}.${field}`;
  }
}

const NESTED = 'a list or an object that nests too deep to be shown';

/** A value in few characters. */
export function shown(value: unknown): string {
  const text = written(value);
  return text.length > 40 && text !== NESTED ? `${text.slice(0, 40)}…` : text;
}

function written(value: unknown): string {
  // JSON has no word for numbers beyond the largest double, which a trace may still spell out.
  if (typeof value === 'number') return String(value);
  try {
    return JSON.stringify(value) ?? 'nothing';
  } catch {
    // What nests deeper than the stack can be read, but not written.
    return NESTED;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// What one owner's engine hashes mean beyond their tokens. A salt is named only where a chain begins, so blocks further down
// inherit it from their parent; a hash with two meanings, or one the router cannot work out, is remembered too, as nothing may
// hang on it. Hashes of plain blocks are not kept.
import { type HashPairs, type U64, U64Map } from '../kv/index.ts';

/** What a mark says: nothing, a salt, or why nothing may hang on the hash. */
export type HashMark =
  | { readonly kind: 'plain' }
  | { readonly kind: 'salted'; readonly salt: string }
  | { readonly kind: 'ambiguous' }
  | { readonly kind: 'unusable' };

const PLAIN: HashMark = { kind: 'plain' };
const AMBIGUOUS: HashMark = { kind: 'ambiguous' };
const UNUSABLE: HashMark = { kind: 'unusable' };
const AMBIGUOUS_ID = 0;
const UNUSABLE_ID = 1;
const FIRST_SALT = 2;

/** What a hash takes in the table at most: its slot, and those that stay free. */
const HASH_BYTES = 40;
/** What a salt takes beside its text. */
const SALT_BYTES = 160;

/** Bytes of all owners' marks by these rates, and the most there may be. */
export interface MarkBudget {
  bytes: number;
  readonly maxBytes: number;
}

interface Salt {
  readonly text: string;
  hashes: number;
}

/** Marks of one owner. */
export class HashMarks {
  readonly #ids = new U64Map();
  readonly #salts: (Salt | undefined)[] = [];
  readonly #freeSalts: number[] = [];
  readonly #idOfSalt = new Map<string, number>();
  readonly #most: number;
  readonly #budget: MarkBudget;
  /** What the salts take. */
  #saltBytes = 0;

  /**
   * @param most hashes marked at once; ≥ 1.
   * @param budget shared with the other owners.
   */
  constructor(most: number, budget: MarkBudget) {
    this.#most = most;
    this.#budget = budget;
  }

  /** Hashes marked. */
  get size(): number {
    return this.#ids.size;
  }

  /** Bytes of the table, and of the salts with their objects. */
  get bytes(): number {
    return this.#ids.bytes + this.#saltBytes;
  }

  /** Different salts held. */
  get salts(): number {
    return this.#idOfSalt.size;
  }

  /** Whether so many more hashes have room, of this salt (absent: none). */
  hasRoom(hashes: number, salt?: string): boolean {
    const text = salt === undefined || this.#idOfSalt.has(salt) ? 0 : saltBytes(salt);
    return (
      this.#ids.size + hashes <= this.#most &&
      this.#budget.bytes + hashes * HASH_BYTES + text <= this.#budget.maxBytes
    );
  }

  of({ lo, hi }: U64): HashMark {
    return this.#markOf(this.#ids.get(lo, hi));
  }

  /** As `of`, for the hash at an index of a list. */
  at(hashes: HashPairs, index: number): HashMark {
    return this.#markOf(this.#ids.get(hashes[2 * index]!, hashes[2 * index + 1]!));
  }

  /** Hashes belong to a salt from now on; null = to none. Call `hasRoom` before. */
  salt(hashes: HashPairs, salt: string | null): void {
    if (salt === null) {
      this.forget(hashes);
      return;
    }
    const id = this.#idFor(salt);
    const entry = this.#salts[id - FIRST_SALT]!;
    for (let at = 0; at < hashes.length; at += 2) {
      // Counted before the old mark goes, which may be the salt's last.
      entry.hashes += 1;
      this.#release(this.#set(hashes[at]!, hashes[at + 1]!, id));
    }
    if (entry.hashes === 0) this.#drop(id, entry);
  }

  /** Nothing may hang on these hashes; those without room are left as they are. */
  bar(hashes: HashPairs, kind: 'ambiguous' | 'unusable'): void {
    const id = kind === 'ambiguous' ? AMBIGUOUS_ID : UNUSABLE_ID;
    for (let at = 0; at < hashes.length; at += 2) {
      const lo = hashes[at]!;
      const hi = hashes[at + 1]!;
      const before = this.#ids.get(lo, hi);
      if (before === AMBIGUOUS_ID || (before < 0 && !this.hasRoom(1))) continue;
      this.#set(lo, hi, id);
      this.#release(before);
    }
  }

  /** Forgets hashes, but not that they are ambiguous: the engine may still hold the other block of that hash. */
  forget(hashes: HashPairs): void {
    if (this.#ids.size === 0) return;
    for (let at = 0; at < hashes.length; at += 2) this.forgetOne(hashes[at]!, hashes[at + 1]!);
  }

  /** As `forget`, for one hash. */
  forgetOne(lo: number, hi: number): void {
    const id = this.#ids.get(lo, hi);
    if (id < 0 || id === AMBIGUOUS_ID) return;
    this.#ids.delete(lo, hi);
    this.#budget.bytes -= HASH_BYTES;
    this.#release(id);
  }

  /** Forgets all. */
  clear(): void {
    this.#budget.bytes -= this.#ids.size * HASH_BYTES + this.#saltBytes;
    this.#saltBytes = 0;
    this.#ids.clear();
    this.#salts.length = 0;
    this.#freeSalts.length = 0;
    this.#idOfSalt.clear();
  }

  /** Returns the mark before, −1 = none. */
  #set(lo: number, hi: number, id: number): number {
    const before = this.#ids.set(lo, hi, id);
    if (before < 0) this.#budget.bytes += HASH_BYTES;
    return before;
  }

  #markOf(id: number): HashMark {
    if (id < 0) return PLAIN;
    if (id === AMBIGUOUS_ID) return AMBIGUOUS;
    if (id === UNUSABLE_ID) return UNUSABLE;
    return { kind: 'salted', salt: this.#salts[id - FIRST_SALT]!.text };
  }

  #idFor(text: string): number {
    const known = this.#idOfSalt.get(text);
    if (known !== undefined) return known;
    const at = this.#freeSalts.pop() ?? this.#salts.length;
    this.#salts[at] = { text, hashes: 0 };
    this.#idOfSalt.set(text, at + FIRST_SALT);
    this.#addSaltBytes(saltBytes(text));
    return at + FIRST_SALT;
  }

  #release(id: number): void {
    const salt = id < FIRST_SALT ? undefined : this.#salts[id - FIRST_SALT];
    if (salt === undefined) return;
    salt.hashes -= 1;
    if (salt.hashes === 0) this.#drop(id, salt);
  }

  #drop(id: number, salt: Salt): void {
    this.#salts[id - FIRST_SALT] = undefined;
    this.#freeSalts.push(id - FIRST_SALT);
    this.#idOfSalt.delete(salt.text);
    this.#addSaltBytes(-saltBytes(salt.text));
  }

  #addSaltBytes(bytes: number): void {
    this.#saltBytes += bytes;
    this.#budget.bytes += bytes;
  }
}

function saltBytes(text: string): number {
  return SALT_BYTES + 2 * text.length;
}

// Pairs of a session and an owner that have frontiers together: found by both, listed for each.
import { RowArena } from '../residency/row-arena.ts';
import { RowTable } from '../residency/row-table.ts';
import { NONE } from './lineage-forest.ts';
import type { SessionTable } from './session-table.ts';

/** Words of a row. The frontiers of a pair are a list, the oldest first. */
const SESSION = 0;
const OWNER = 1;
export const FIRST = 2;
export const LAST = 3;
export const SIZE = 4;
/** Neighbours among the pairs of the session, and of the owner. */
const NEXT_OF_SESSION = 5;
const PREVIOUS_OF_SESSION = 6;
const NEXT_OF_OWNER = 7;
const PREVIOUS_OF_OWNER = 8;
/** The last removal that moved one of its frontiers. */
export const REMOVAL = 9;
const STRIDE = 10;

/** Bytes of a pair at most: its row, its slot in a table that is half full, and the owner's entry. */
const PAIR_BYTES: number = 4 * STRIDE + 8 + 8;

/** Rows of pairs. */
export class FrontierPairs {
  readonly #sessions: SessionTable;
  readonly #arena = new RowArena(STRIDE, NEXT_OF_SESSION);
  readonly #rows = this.#arena.rows;
  readonly #table = new RowTable(this.#rows, SESSION);
  /** First pair by owner. */
  readonly #firstOfOwner: number[] = [];

  constructor(sessions: SessionTable) {
    this.#sessions = sessions;
  }

  /** Bytes of what is in use. */
  get usedBytes(): number {
    return this.#arena.live * PAIR_BYTES;
  }

  /** Bytes of all arrays. */
  get bytes(): number {
    return this.#rows.bytes + this.#table.bytes + 8 * this.#firstOfOwner.length;
  }

  /** The pair of a session and an owner; NONE when they have no frontiers. */
  find(session: number, owner: number): number {
    return this.#table.find(session, owner);
  }

  session(pair: number): number {
    return this.#rows.get(pair, SESSION);
  }

  owner(pair: number): number {
    return this.#rows.get(pair, OWNER);
  }

  /** One of the words that the frontiers keep here. */
  get(pair: number, word: typeof FIRST | typeof LAST | typeof SIZE | typeof REMOVAL): number {
    return this.#rows.get(pair, word);
  }

  /** Sets one of them. */
  set(pair: number, word: typeof FIRST | typeof LAST | typeof SIZE | typeof REMOVAL, value: number): void {
    this.#rows.set(pair, word, value);
  }

  firstOfOwner(owner: number): number {
    return this.#firstOfOwner[owner] ?? NONE;
  }

  nextOfOwner(pair: number): number {
    return this.#rows.get(pair, NEXT_OF_OWNER);
  }

  nextOfSession(pair: number): number {
    return this.#rows.get(pair, NEXT_OF_SESSION);
  }

  /** Adds a pair that is not there. */
  add(session: number, owner: number): number {
    const pair = this.#arena.take();
    const rows = this.#rows;
    rows.set(pair, SESSION, session);
    rows.set(pair, OWNER, owner);
    rows.set(pair, FIRST, NONE);
    rows.set(pair, LAST, NONE);
    rows.set(pair, SIZE, 0);
    rows.set(pair, REMOVAL, 0);
    this.#link(pair, this.#sessions.firstPair(session), NEXT_OF_SESSION, PREVIOUS_OF_SESSION);
    this.#sessions.setFirstPair(session, pair);
    // Without holes, so that the array stays a plain one.
    while (this.#firstOfOwner.length <= owner) this.#firstOfOwner.push(NONE);
    this.#link(pair, this.#firstOfOwner[owner]!, NEXT_OF_OWNER, PREVIOUS_OF_OWNER);
    this.#firstOfOwner[owner] = pair;
    this.#table.insert(pair);
    return pair;
  }

  /** Takes a pair out; a session without pairs is forgotten. */
  delete(pair: number): void {
    const session = this.session(pair);
    const owner = this.owner(pair);
    this.#table.delete(pair);
    const nextOfSession = this.#unlink(pair, NEXT_OF_SESSION, PREVIOUS_OF_SESSION);
    if (this.#sessions.firstPair(session) === pair) this.#sessions.setFirstPair(session, nextOfSession);
    const nextOfOwner = this.#unlink(pair, NEXT_OF_OWNER, PREVIOUS_OF_OWNER);
    if (this.#firstOfOwner[owner] === pair) this.#firstOfOwner[owner] = nextOfOwner;
    this.#arena.give(pair);
    if (this.#sessions.firstPair(session) === NONE) this.#sessions.delete(session);
  }

  #link(pair: number, first: number, next: number, previous: number): void {
    this.#rows.set(pair, next, first);
    this.#rows.set(pair, previous, NONE);
    if (first !== NONE) this.#rows.set(first, previous, pair);
  }

  /** Returns the next one. */
  #unlink(pair: number, next: number, previous: number): number {
    const after = this.#rows.get(pair, next);
    const before = this.#rows.get(pair, previous);
    if (after !== NONE) this.#rows.set(after, previous, before);
    if (before !== NONE) this.#rows.set(before, next, after);
    return after;
  }
}

// How long one call of the prefix index keeps the thread at most, while a trace goes through it and when all of it is cleared away.
import { createBlockHasher, createPrefixIndex } from '../../src/kv/index.ts';
import { busy } from '../processor-time.ts';
import type { Operations } from './operations.ts';
import { IndexSide } from './sides.ts';

/** Passes of which the least counts, per number of workers. */
export const PAUSE_PASSES = 3;

/** ms of processor time; 0 = there was no such call. */
export interface Pauses {
  readonly store: number;
  readonly remove: number;
  readonly find: number;
  /** One piece of clearing all owners. */
  readonly piece: number;
}

/** The longest call of each kind in one pass. */
function passPauses({ list, owners }: Operations): Pauses {
  const pieces: (() => void)[] = [];
  const later = (piece: () => void): void => void pieces.push(piece);
  const index = createPrefixIndex({ hasher: createBlockHasher(), later });
  const side = new IndexSide(list, index);
  const longest = { store: 0, remove: 0, find: 0, piece: 0 };
  for (const [at, { kind }] of list.entries()) {
    longest[kind] = Math.max(
      longest[kind],
      busy(() => side.apply(at)),
    );
  }
  for (let owner = 0; owner < owners; owner += 1) index.clear(owner, 'all');
  for (let next = pieces.shift(); next !== undefined; next = pieces.shift()) {
    longest.piece = Math.max(longest.piece, busy(next));
  }
  if (index.stats().blocks > 0) throw new Error('a clear left blocks');
  return longest;
}

/** Longest calls: of each kind the least of several passes, for the collector's threads add to it by chance. */
export function longestCalls(operations: Operations, passes: number): Pauses {
  const all = Array.from({ length: passes }, () => passPauses(operations));
  const least = (kind: keyof Pauses): number => Math.min(...all.map((pauses) => pauses[kind]));
  return { store: least('store'), remove: least('remove'), find: least('find'), piece: least('piece') };
}

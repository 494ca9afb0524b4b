// What the prefix index accepts from its callers, each refusal in one sentence. Checked per call, never per block.
import { PointsmanError } from '../../plugin/index.ts';
import { requireWholePairs } from '../hashing/u64.ts';

/** Owner slots are 0 to this; a set of holders packs a slot into 16 bits. */
export const MAX_OWNER_SLOT = 65_535;

function refuse(message: string, details: Readonly<Record<string, number>>): never {
  throw new PointsmanError('PM_KV_ARGUMENT', message, { details });
}

/** Refuses an option that is no integer from `least` to `most`. */
export function requireOption(value: number, least: number, most: number, what: string, unit: string): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  refuse(`${what} ${least} to ${most} ${unit}, not at ${value}`, { [unit]: value });
}

/** Refuses what is no owner slot. */
export function requireOwner(owner: number): void {
  if (Number.isInteger(owner) && owner >= 0 && owner <= MAX_OWNER_SLOT) return;
  refuse(
    `owner slot ${owner} is outside the prefix index, which has slots 0 to ${MAX_OWNER_SLOT}; give slots of gone workers out again`,
    { owner },
  );
}

/** Refuses two lists of hashes of different length, or half a pair. */
export function requireSameLength(name: string, a: Uint32Array, other: string, b: Uint32Array): void {
  requireWholePairs(a);
  if (a.length === b.length) return;
  refuse(
    `${name} and ${other} describe the same blocks, but have ${a.length / 2} and ${b.length / 2} hashes; give one of each per block`,
    { [name]: a.length / 2, [other]: b.length / 2 },
  );
}

/** Refuses a range that does not lie within a chain or within the array for its answer. */
export function requireRange(from: number, to: number, blocks: number, room: number): void {
  if (!Number.isInteger(from) || !Number.isInteger(to) || from < 0 || to < from || to > blocks) {
    refuse(
      `blocks [${from}, ${to}) are no range of a chain of ${blocks} blocks; give 0 ≤ from ≤ to ≤ blocks`,
      {
        from,
        to,
        blocks,
      },
    );
  }
  if (to - from > room) {
    refuse(`the answer for ${to - from} blocks needs as many entries, but the array has ${room}`, {
      blocks: to - from,
      room,
    });
  }
}

/** Refuses a cursor no dump gave out, or a page without room. */
export function requirePage(cursor: number, limit: number): void {
  if (!Number.isSafeInteger(cursor) || cursor < 0) {
    refuse(`${cursor} is no dump cursor; start with 0 and go on with the cursor of the page before`, {
      cursor,
    });
  }
  if (!Number.isInteger(limit) || limit < 1) {
    refuse(`a dump page holds at least 1 block, but its limit is ${limit}`, { limit });
  }
}

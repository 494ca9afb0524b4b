// Which blocks of a session may go.
import type { SessionLineage, WorkerRank } from '../../plugin/index.ts';
import { type Member, workerKey } from './families.ts';

/** Relatives that are looked at one by one; with more, all count as not seen. */
const MOST_RELATIVES = 64;

/** The session whose blocks are looked for, and where. */
export interface ReleaseOf {
  readonly member: Member;
  /** Sessions of its family that go on. */
  readonly relatives: readonly Member[];
  readonly worker: WorkerRank;
  readonly lineage: SessionLineage;
}

/**
 * Position from which on a session's blocks cannot be its relatives'. Those that the lineage shows in full on this worker need no
 * protection by position: it knows what they share. Of one whose blocks were evicted, or are not settled yet, it does not; with
 * such a one no more can be shared than the first prompt of the younger of the two.
 */
export function firstOwnPosition({ lineage, member, relatives, worker }: ReleaseOf): number {
  const key = workerKey(worker);
  // What was there when a child came is its parent's, or a sibling's; and one block more, because the last token of an answer is
  // computed only for whoever goes on from it.
  let first = member.hasParent ? 1 + (member.places.get(key)?.found ?? 0) : 0;
  // Of a parent that is not remembered nobody knows what it had.
  if (member.isOrphan) first = Math.max(first, member.firstBlocks);
  for (const relative of relatives) {
    const place = relative.places.get(key);
    if (place === undefined) continue;
    const shared = relative.order > member.order ? relative.firstBlocks : member.firstBlocks;
    if (shared <= first) continue;
    const seen =
      relatives.length <= MOST_RELATIVES &&
      !place.branched &&
      isOneChain(lineage.paths(relative.sessionId, worker), place.depth);
    if (!seen) first = shared;
  }
  return first;
}

function isOneChain(paths: readonly BigUint64Array[], length: number): boolean {
  return paths.length === 1 && paths[0]!.length >= length;
}

/**
 * Blocks of a session on a worker that no session which goes on needs, none before its parent; the deepest, where there are too many.
 * @param from positions before it stay on every path.
 */
export function releasableBlocks(
  { lineage, member, worker }: ReleaseOf,
  from: number,
  most: number,
): BigUint64Array {
  const exclusive = lineage.exclusiveBlocks(member.sessionId, worker);
  if (from === 0 || exclusive.length === 0) return deepest(exclusive, most);
  const free = new Set(exclusive);
  const blocks: bigint[] = [];
  for (const path of lineage.paths(member.sessionId, worker)) {
    // Once named it is not named again.
    for (const hash of path.subarray(from)) if (free.delete(hash)) blocks.push(hash);
  }
  return deepest(BigUint64Array.from(blocks), most);
}

/** Why no block of a session may go: the lineage has it on other workers, nowhere, or others need all that it has there. */
export type NoBlocks = 'other_worker' | 'no_blocks' | 'needed';

/** Why there were none. */
export function whyNone({ lineage, member: { sessionId }, worker }: ReleaseOf): NoBlocks {
  const frontiers = lineage.frontiers(sessionId);
  if (frontiers.length === 0) return 'no_blocks';
  const key = workerKey(worker);
  return frontiers.some((one) => workerKey(one.worker) === key) ? 'needed' : 'other_worker';
}

function deepest(blocks: BigUint64Array, most: number): BigUint64Array {
  return blocks.length <= most ? blocks : blocks.slice(blocks.length - most);
}

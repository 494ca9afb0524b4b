// What must be true of a session prefix index after every operation, computed anew from its rows: invariants I1 to I9, and the counts of paths.
import { expect } from 'vitest';
import { u64ToBigInt } from '../hashing/u64.ts';
import { FIRST, LAST, SIZE } from './frontier-pairs.ts';
import { FRONTIERS, NONE } from './lineage-forest.ts';
import type { LineageState } from './lineage-state.ts';
import type { LineageLimits } from './types.ts';

/** Fails where an invariant does not hold. */
export function auditLineage(state: LineageState, limits: LineageLimits = {}): void {
  const { forest, frontiers, paths, sessions } = state;
  const { pairs } = frontiers;
  const live: number[] = [];
  for (let row = 0; row < forest.used; row++) if (forest.isLive(row)) live.push(row);

  // I7: hashes lead to live blocks and back.
  expect(live.length).toBe(forest.size);
  for (const row of live) expect(forest.find(forest.low(row), forest.high(row))).toBe(row);

  // I3, I4: children are those whose parent a block is; no block comes before itself.
  const childrenOf = new Map<number, number[]>(live.map((row) => [row, []]));
  for (const row of live) {
    if (forest.parent(row) !== NONE) childrenOf.get(forest.parent(row))!.push(row);
    let steps = 0;
    for (let x = row; x !== NONE; x = forest.parent(x)) expect(steps++).toBeLessThan(live.length);
  }
  for (const row of live) {
    const listed: number[] = [];
    for (let child = forest.firstChild(row); child !== NONE; child = forest.sibling(child))
      listed.push(child);
    expect(listed.toSorted((a, b) => a - b)).toEqual(childrenOf.get(row));
  }

  // I8: the order of last use has exactly the sessions with frontiers. I6: no session or pair is empty.
  const order: number[] = [];
  for (let row = sessions.oldest; row !== NONE; row = sessions.later(row)) order.push(row);
  expect(order.length).toBe(sessions.size);
  for (const row of order) expect(sessions.find(sessions.keyOf(row))).toBe(row);

  // I1, I2, I5: the lists of pairs, owners and blocks say the same; the frontiers of a pair are apart.
  const atNode = new Map<number, number[]>(live.map((row) => [row, []]));
  const ofOwner = new Map<number, number[]>();
  let count = 0;
  for (const session of order) {
    expect(sessions.firstPair(session)).not.toBe(NONE);
    for (let pair = sessions.firstPair(session); pair !== NONE; pair = pairs.nextOfSession(pair)) {
      const owner = pairs.owner(pair);
      expect(pairs.session(pair)).toBe(session);
      expect(pairs.find(session, owner)).toBe(pair);
      ofOwner.set(owner, [...(ofOwner.get(owner) ?? []), pair]);
      const nodes: number[] = [];
      let last = NONE;
      for (let f = pairs.get(pair, FIRST); f !== NONE; f = frontiers.nextOfPair(f)) {
        expect(frontiers.pairOf(f)).toBe(pair);
        expect(frontiers.previousOfPair(f)).toBe(last);
        expect(forest.isLive(frontiers.nodeOf(f))).toBe(true);
        nodes.push(frontiers.nodeOf(f));
        atNode.get(frontiers.nodeOf(f))!.push(f);
        last = f;
        count++;
      }
      expect(pairs.get(pair, LAST)).toBe(last);
      expect(pairs.get(pair, SIZE)).toBe(nodes.length);
      expect(nodes.length).toBeGreaterThan(0);
      expect(nodes.length).toBeLessThanOrEqual(limits.maxFrontiers ?? 64);
      for (const node of nodes) {
        for (let x = forest.parent(node); x !== NONE; x = forest.parent(x)) expect(nodes).not.toContain(x);
      }
      expect(new Set(nodes).size).toBe(nodes.length);
    }
  }
  expect(frontiers.size).toBe(count);
  for (const row of live) {
    const listed: number[] = [];
    for (let f = forest.get(row, FRONTIERS); f !== NONE; f = frontiers.nextOfNode(f)) listed.push(f);
    expect(listed.toSorted((a, b) => a - b)).toEqual(atNode.get(row)!.toSorted((a, b) => a - b));
    expect(state.blockOf(row)?.frontierRefs).toBe(listed.length);
  }
  for (const [owner, expected] of ofOwner) {
    const listed: number[] = [];
    for (let pair = pairs.firstOfOwner(owner); pair !== NONE; pair = pairs.nextOfOwner(pair))
      listed.push(pair);
    expect(listed.toSorted((a, b) => a - b)).toEqual(expected.toSorted((a, b) => a - b));
  }

  // Counts of paths: an owner's frontiers at a block, and its children through which a path of the owner goes.
  for (const owner of ofOwner.keys()) {
    const counts = new Map<number, number>();
    for (const [row, at] of atNode) {
      for (const f of at)
        if (pairs.owner(frontiers.pairOf(f)) === owner) {
          for (let x = row; x !== NONE; x = forest.parent(x)) {
            counts.set(x, (counts.get(x) ?? 0) + 1);
            if (counts.get(x)! > 1) break;
          }
        }
    }
    for (const row of live) expect(paths.count(owner, row)).toBe(counts.get(row) ?? 0);
  }

  // I9
  expect(sessions.size).toBeLessThanOrEqual(limits.maxSessions ?? 16_384);
  expect(forest.size).toBeLessThanOrEqual(limits.maxNodes ?? 2_097_152);
  expect(state.usedBytes).toBeLessThanOrEqual(limits.maxBytes ?? 134_217_728);
  expect(state.usedBytes).toBeLessThanOrEqual(state.bytes + 256);
}

/** I10: after a full cleanup every block is a frontier or comes before one. */
export function auditCleaned(state: LineageState): void {
  const { forest } = state;
  for (let row = 0; row < forest.used; row++) {
    if (!forest.isLive(row)) continue;
    const isNeeded = forest.firstChild(row) !== NONE || forest.get(row, FRONTIERS) !== NONE;
    expect(isNeeded, `block ${u64ToBigInt({ lo: forest.low(row), hi: forest.high(row) })}`).toBe(true);
  }
}

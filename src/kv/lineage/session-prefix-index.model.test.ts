// The index against the naive one, and its invariants after every operation: random matches, stores and removals over few sessions and
// owners and few blocks, so that branches, shared trunks, grafts, cycles and conflicts all happen often.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../plugin/index.ts';
import type { HashPairs } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt } from '../hashing/u64.ts';
import { auditCleaned, auditLineage } from './lineage-audit.fixtures.ts';
import { LineageForest } from './lineage-forest.ts';
import { LineageState } from './lineage-state.ts';
import { NaiveLineage } from './naive-lineage.fixtures.ts';
import { sessionKey } from './session-key.ts';
import { SessionPrefixIndex } from './session-prefix-index.ts';
import type { LineageLimits, LineageOutcome } from './types.ts';

const PARTITION = { model: 'm', routingGroup: 'g' };
const SESSIONS = ['a', 'b', 'c', 'd'].map((id) => sessionKey(PARTITION, null, id));
const OWNERS = [0, 1, 65_535];
/** A tree of blocks: three children each, four deep; values that differ in one half only are among them. */
const WIDTH = 3;
const DEPTH = 5;

type Op =
  | {
      readonly kind: 'match';
      readonly session: number;
      readonly owner: number;
      readonly chain: readonly bigint[];
    }
  | {
      readonly kind: 'store';
      readonly session: number;
      readonly owner: number;
      readonly parent: bigint | null;
      readonly chain: readonly bigint[];
    }
  | { readonly kind: 'remove'; readonly owner: number; readonly hashes: readonly bigint[] }
  | { readonly kind: 'clear'; readonly owner: number }
  | { readonly kind: 'finish'; readonly session: number }
  | { readonly kind: 'cleanup' }
  | { readonly kind: 'wait'; readonly ms: number };

const session = fc.nat(SESSIONS.length - 1);
const owner = fc.constantFrom(...OWNERS);
const place = fc.array(fc.nat(WIDTH - 1), { minLength: 1, maxLength: DEPTH });

/** The block at a place: its path in ternary, with a leading one; the upper half set for every other one. */
function blockAt(path: readonly number[]): bigint {
  const number = path.reduce((sum, step) => sum * BigInt(WIDTH) + BigInt(step), 1n);
  return number % 2n === 0n ? number << 32n : number;
}
const blocksOf = (path: readonly number[]) => path.map((_, i) => blockAt(path.slice(0, i + 1)));
const anyBlock = place.map(blockAt);
/** Blocks without any order: most such chains break a rule. */
const disorder = fc.array(anyBlock, { minLength: 0, maxLength: 4 });
const wholeChain = place.map(blocksOf);

const match = fc.record({
  kind: fc.constant('match' as const),
  session,
  owner,
  chain: fc.oneof(
    { weight: 5, arbitrary: wholeChain },
    { weight: 2, arbitrary: fc.tuple(place, fc.nat(3)).map(([path, from]) => blocksOf(path).slice(from)) },
    { weight: 1, arbitrary: disorder },
  ),
});
const store = fc
  .record({
    session,
    owner,
    path: place,
    from: fc.nat(DEPTH),
    disorder: fc.option(disorder, { freq: 8 }),
    parent: fc.option(fc.option(anyBlock), { freq: 10, nil: undefined }),
  })
  .map(({ session: by, owner: on, path, from, disorder: chain, parent }) => {
    const blocks = blocksOf(path);
    return {
      kind: 'store' as const,
      session: by,
      owner: on,
      parent: parent !== undefined ? parent : (blocks[from - 1] ?? null),
      chain: chain ?? blocks.slice(from),
    };
  });
const remove = fc.record({
  kind: fc.constant('remove' as const),
  owner,
  hashes: fc.array(anyBlock, { maxLength: 6 }),
});
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 8, arbitrary: match },
  { weight: 8, arbitrary: store },
  { weight: 6, arbitrary: remove },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), owner }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('finish' as const), session }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'cleanup' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40 }) }),
  },
);

const pairs = (values: readonly bigint[]): HashPairs => fromBigUint64Array(BigUint64Array.from(values));
const values = (hashes: HashPairs): bigint[] => [...toBigUint64Array(hashes)];
const asText = (paths: readonly (readonly bigint[])[]) => paths.map((path) => path.join(' ')).toSorted();

/** Both indexes, changed alike. */
class Both {
  readonly clock = new ManualClock();
  readonly limits: LineageLimits;
  /** Marks start anew every few operations. */
  readonly state = new LineageState(new LineageForest(20));
  readonly index: SessionPrefixIndex;
  readonly naive: NaiveLineage;

  constructor(limits: LineageLimits = {}) {
    this.limits = limits;
    const own = { cleanupIntervalMs: Number.POSITIVE_INFINITY, ...limits };
    this.index = new SessionPrefixIndex(this.clock, own, this.state);
    this.naive = new NaiveLineage(() => this.clock.now(), limits);
  }

  apply(step: Op): LineageOutcome | number | boolean | null {
    const { index, naive } = this;
    switch (step.kind) {
      case 'match': {
        const key = SESSIONS[step.session]!;
        const outcome = index.match(key, step.owner, pairs(step.chain));
        expect(outcome).toEqual(naive.match(key, step.owner, pairs(step.chain)));
        return outcome;
      }
      case 'store': {
        const key = SESSIONS[step.session]!;
        const parent = step.parent === null ? null : u64FromBigInt(step.parent);
        const outcome = index.store(key, step.owner, parent, pairs(step.chain));
        expect(outcome).toEqual(naive.store(key, step.owner, parent, pairs(step.chain)));
        return outcome;
      }
      case 'remove': {
        const moved = index.remove(step.owner, pairs(step.hashes));
        expect(moved).toBe(naive.remove(step.owner, pairs(step.hashes)));
        return moved;
      }
      case 'clear': {
        const gone = index.clear(step.owner);
        expect(gone).toBe(naive.clear(step.owner));
        return gone;
      }
      case 'finish': {
        const key = SESSIONS[step.session]!;
        const known = index.finish(key);
        expect(known).toBe(naive.finish(key));
        return known;
      }
      case 'cleanup':
        index.cleanup();
        naive.cleanup();
        auditCleaned(this.state);
        return null;
      case 'wait':
        this.clock.advanceTo(this.clock.now() + step.ms);
        index.expire();
        naive.expire();
        return null;
    }
  }

  /** Every answer of the index is the naive one's, and its invariants hold. */
  compare(): void {
    const { index, naive } = this;
    auditLineage(this.state, this.limits);
    expect(index.stats().sessions).toBe(naive.sessions.size);
    expect(index.stats().nodes).toBe(naive.parents.size);
    for (const [block, parent] of naive.parents) {
      const id = index.nodeOf(u64FromBigInt(block));
      const node = id === null ? null : index.node(id);
      expect(node?.hash).toEqual(u64FromBigInt(block));
      expect(node?.parent).toBe(parent === null ? null : index.nodeOf(u64FromBigInt(parent)));
    }
    for (const key of SESSIONS) {
      let frontiers = 0;
      for (const on of OWNERS) {
        const paths = index.paths(key, on).map(values);
        expect(asText(paths)).toEqual(asText(naive.paths(key, on) as bigint[][]));
        frontiers += paths.length;
        const unique = values(index.uniqueBlocks(key, on));
        expect(unique.toSorted()).toEqual([...naive.uniqueBlocks(key, on)].toSorted());
        // No block comes before its parent.
        for (const [i, block] of unique.entries()) {
          const parent = naive.parents.get(block) ?? null;
          if (parent !== null) expect(unique.indexOf(parent)).toSatisfy((at: number) => at >= 0 && at < i);
        }
        // P9: what may be evicted with a session is on no path of another one on that owner.
        const exclusive = values(index.exclusiveBlocks(key, on));
        expect(exclusive.toSorted()).toEqual([...naive.exclusiveBlocks(key, on)].toSorted());
      }
      expect(index.frontiers(key).length).toBe(frontiers);
    }
  }

  /** What can be learned of the sessions on owners. */
  lineages(owners: readonly number[] = OWNERS): Record<string, string[]> {
    const entries = SESSIONS.flatMap((key) =>
      owners.map((on) => [`${key} ${on}`, asText(this.index.paths(key, on).map(values))] as const),
    );
    return Object.fromEntries(entries);
  }
}

const ops = fc.array(op, { minLength: 1, maxLength: 40 });

describe('a session prefix index', () => {
  test('answers as the naive one after every operation, and its invariants hold', () => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both();
        for (const step of steps) {
          both.apply(step);
          both.compare();
        }
      }),
      { numRuns: 150 },
    );
  });

  test.each<LineageLimits>([
    { maxSessions: 2 },
    { maxFrontiers: 1 },
    { maxFrontiers: 2, maxSessions: 3 },
    { timeToLiveMs: 30 },
    { maxChain: 3 },
  ])('answers as the naive one within %o', (limits) => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both(limits);
        for (const step of steps) {
          both.apply(step);
          both.compare();
        }
      }),
      { numRuns: 40 },
    );
  });

  test.each([1, 3, 6, 12])('evicts the same sessions as the naive one for at most %d blocks', (maxNodes) => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both({ maxNodes });
        for (const step of steps) {
          both.apply(step);
          auditLineage(both.state, both.limits);
          // Which blocks of no session are left when some had to go is open; without them both are alike.
          both.apply({ kind: 'cleanup' });
          both.compare();
        }
      }),
      { numRuns: 40 },
    );
  });

  test('never has more bytes in use than its cap', () => {
    fc.assert(
      fc.property(ops, fc.integer({ min: 400, max: 1500 }), (steps, maxBytes) => {
        const limits = { maxBytes };
        const both = new Both(limits);
        for (const step of steps) {
          if (step.kind === 'match') both.index.match(SESSIONS[step.session]!, step.owner, pairs(step.chain));
          if (step.kind === 'remove') both.index.remove(step.owner, pairs(step.hashes));
          auditLineage(both.state, limits);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('changes nothing when it refuses a chain (I11)', () => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both();
        for (const step of steps) {
          const before = [both.lineages(), both.index.stats()];
          const outcome = both.apply(step);
          if (typeof outcome !== 'object' || outcome === null) continue;
          if (outcome.kind === 'advanced' || outcome.kind === 'unchanged') continue;
          expect([both.lineages(), both.index.stats()]).toEqual(before);
        }
      }),
      { numRuns: 100 },
    );
  });

  test('changes no lineage of another owner, unless it learns of a parent (I12)', () => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both();
        for (const step of steps) {
          if (!('owner' in step)) {
            both.apply(step);
            continue;
          }
          const others = OWNERS.filter((on) => on !== step.owner);
          const before = both.lineages(others);
          const roots = [...both.naive.parents].filter(([, parent]) => parent === null);
          both.apply(step);
          if (roots.every(([root]) => both.naive.parents.get(root) === null))
            expect(both.lineages(others)).toEqual(before);
        }
      }),
      { numRuns: 100 },
    );
  });

  test('changes nothing when a store, removal or clear comes twice (P2)', () => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both();
        for (const step of steps) {
          both.apply(step);
          const after = both.lineages();
          const again = both.apply(step);
          expect(both.lineages()).toEqual(after);
          if (step.kind === 'remove' || step.kind === 'clear') expect(again).toBe(0);
          if (step.kind === 'match' || step.kind === 'store') expect(again).not.toEqual({ kind: 'advanced' });
        }
      }),
      { numRuns: 100 },
    );
  });

  test('recedes alike however a removal is ordered and split (P3)', () => {
    const removal = fc.uniqueArray(anyBlock, { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(ops, owner, removal, fc.infiniteStream(fc.boolean()), (steps, on, hashes, splits) => {
        const [whole, parts] = [new Both(), new Both()];
        for (const both of [whole, parts]) for (const step of steps) both.apply(step);
        whole.apply({ kind: 'remove', owner: on, hashes });
        let batch: bigint[] = [];
        for (const hash of hashes.toReversed()) {
          batch.push(hash);
          if (!splits.next().value) continue;
          parts.apply({ kind: 'remove', owner: on, hashes: batch });
          batch = [];
        }
        parts.apply({ kind: 'remove', owner: on, hashes: batch });
        expect(parts.lineages()).toEqual(whole.lineages());
        auditLineage(whole.state);
        auditLineage(parts.state);
      }),
      { numRuns: 100 },
    );
  });

  test('never shortens a lineage by a match or store, nor lengthens one by a removal (P4)', () => {
    fc.assert(
      fc.property(ops, (steps) => {
        const both = new Both();
        for (const step of steps) {
          const before = SESSIONS.map((key) => OWNERS.map((on) => both.naive.uniqueBlocks(key, on)));
          both.apply(step);
          for (const [s, key] of SESSIONS.entries()) {
            for (const [o, on] of OWNERS.entries()) {
              const [was, is] = [before[s]![o]!, new Set(values(both.index.uniqueBlocks(key, on)))];
              if (step.kind === 'match' || step.kind === 'store') expect(isSubset(was, is)).toBe(true);
              else expect(isSubset(is, was)).toBe(true);
            }
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  test('grafts alike whether a match or the store comes first (P5)', () => {
    fc.assert(
      fc.property(place, fc.nat(DEPTH), fc.nat(DEPTH), (path, at, split) => {
        const chain = blocksOf(path);
        const from = split % chain.length;
        const head = { kind: 'match', session: 2, owner: 1, chain: chain.slice(0, from) } as const;
        const tail = chain.slice(from);
        const found = { kind: 'match', session: 0, owner: 0, chain: [tail[at % tail.length]!] } as const;
        const parent = chain[from - 1] ?? null;
        const stored = { kind: 'store', session: 1, owner: 1, parent, chain: tail } as const;
        const [first, last] = [new Both(), new Both()];
        for (const step of [head, found, stored]) first.apply(step);
        for (const step of [head, stored, found]) last.apply(step);
        expect(first.lineages()).toEqual(last.lineages());
        first.compare();
        last.compare();
      }),
    );
  });

  test('answers an anchor with what follows it on the paths through it (P6)', () => {
    fc.assert(
      fc.property(ops, anyBlock, (steps, anchor) => {
        const both = new Both();
        for (const step of steps) both.apply(step);
        for (const key of SESSIONS) {
          for (const on of OWNERS) {
            const expected = both.naive.paths(key, on, anchor);
            const asked = () => both.index.paths(key, on, u64FromBigInt(anchor)).map(values);
            if (expected === 'unknown-anchor') expect(asked).toThrow(`from block ${anchor} on`);
            else expect(asText(asked())).toEqual(asText(expected));
          }
        }
      }),
      { numRuns: 100 },
    );
  });

  test('keeps the sessions used last when there are too many, and the blocks they share (P8)', () => {
    fc.assert(
      fc.property(
        fc.array(match, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 3 }),
        (steps, cap) => {
          const both = new Both({ maxSessions: cap });
          const used: number[] = [];
          for (const step of steps) {
            const outcome = both.apply(step) as LineageOutcome;
            if (step.chain.length === 0 || (outcome.kind !== 'advanced' && outcome.kind !== 'unchanged'))
              continue;
            used.unshift(step.session);
          }
          const survivors = [...new Set(used)].slice(0, cap);
          const known = SESSIONS.flatMap((key, i) => (both.index.frontiers(key).length > 0 ? [i] : []));
          expect(known).toEqual(survivors.toSorted());
          both.compare();
        },
      ),
      { numRuns: 100 },
    );
  });
});

function isSubset<T>(part: ReadonlySet<T>, whole: ReadonlySet<T>): boolean {
  return [...part].every((one) => whole.has(one));
}

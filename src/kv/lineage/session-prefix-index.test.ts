// What the session prefix index does beyond the field's: whole chains, bounds, time, ends, and questions about sharing.
import { describe, expect, test } from 'vitest';
import { hashOf, keyOf, LineageTrial, pairsOf } from './lineage-trial.fixtures.ts';
import { SessionPrefixIndex } from './session-prefix-index.ts';
import type { LineageLimits } from './types.ts';

const [A, B] = [0, 7];

describe('a match', () => {
  test('adds the whole chain with its parents, so that a path goes from the root to the frontier without any label', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.match('s', A, 10, 11, 12, 13);
    trial.match('s', A, 10, 11, 12, 13, 14);
    expect(trial.paths('s', A)).toEqual([[10, 11, 12, 13, 14]]);
    expect(trial.nodes).toBe(5);
  });

  test('of a part of a chain is one without a known beginning, until a longer one tells it', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 12, 13);
    expect(trial.paths('s', A)).toEqual([[12, 13]]);
    trial.match('t', B, 10, 11, 12);
    expect(trial.paths('s', A)).toEqual([[10, 11, 12, 13]]);
    expect(trial.paths('t', B)).toEqual([[10, 11, 12]]);
  });

  test('that tells of a beginning leaves of two frontiers on one path the deeper', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10);
    trial.match('s', A, 12);
    expect(trial.paths('s', A)).toEqual([[10], [12]]);
    trial.match('t', B, 10, 11, 12);
    expect(trial.paths('s', A)).toEqual([[10, 11, 12]]);
  });

  test('is refused when it contradicts what is known', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11, 12);
    expect(trial.match('s', A, 20, 12)).toBe('conflicting-parent 12');
    expect(trial.match('s', A, 12, 10)).toBe('cyclic-parent 10');
    expect(trial.id(20)).toBeNull();
  });

  test('without blocks is nothing, not even a use', () => {
    const trial = new LineageTrial({ maxSessions: 2 });
    trial.match('s', A, 1);
    trial.match('t', A, 2);
    expect(trial.match('s', A)).toBe('unchanged');
    trial.match('u', A, 3);
    expect(trial.paths('s', A)).toEqual([]);
  });
});

describe('a removal', () => {
  test('is not a use: the session without a match or store for longest still goes first', () => {
    const trial = new LineageTrial({ maxSessions: 2 });
    trial.match('s', A, 10, 11);
    trial.match('t', A, 20);
    trial.remove(A, 11);
    trial.match('u', A, 30);
    expect(trial.paths('s', A)).toEqual([]);
    expect(trial.paths('t', A)).toEqual([[20]]);
  });

  test('of blocks far apart on one path goes by the first of them, in any order', () => {
    for (const order of [
      [11, 13],
      [13, 11],
    ]) {
      const trial = new LineageTrial();
      trial.match('s', A, 10, 11, 12, 13, 14);
      trial.match('t', A, 10, 11, 12);
      expect(trial.remove(A, ...order)).toBe(2);
      expect([trial.paths('s', A), trial.paths('t', A)]).toEqual([[[10]], [[10]]]);
    }
  });

  test('lets branches of a session meet in one frontier', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.match('s', A, 10, 12);
    trial.match('s', A, 10, 13);
    expect(trial.remove(A, 11)).toBe(1);
    expect(trial.paths('s', A)).toEqual([
      [10, 12],
      [10, 13],
    ]);
    expect(trial.remove(A, 12, 13)).toBe(2);
    expect(trial.paths('s', A)).toEqual([[10]]);
  });

  test('of the first block of all leaves no session', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.match('s', A, 10, 12);
    expect(trial.remove(A, 10)).toBe(2);
    expect(trial.sessions).toBe(0);
    expect(trial.finish('s')).toBe(false);
  });

  test('looks only at children on paths of its owner, however many others there are', () => {
    const trial = new LineageTrial();
    for (let i = 0; i < 50; i++)
      trial.index.match(keyOf(`s${i}`), i % 2 === 0 ? A : B, pairsOf(1, 2, 100 + i));
    expect(trial.remove(A, 2)).toBe(25);
    expect(trial.paths('s0', A)).toEqual([[1]]);
    expect(trial.paths('s1', B)).toEqual([[1, 2, 101]]);
    expect(trial.remove(A, 2)).toBe(0);
    expect(trial.remove(B, 2)).toBe(25);
  });
});

describe('the end of a session', () => {
  test('takes it off all owners and leaves what others have', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.match('s', B, 10, 12);
    trial.match('t', A, 10, 11);
    expect(trial.finish('s')).toBe(true);
    expect(trial.index.frontiers(keyOf('s'))).toEqual([]);
    expect(trial.paths('t', A)).toEqual([[10, 11]]);
    expect(trial.finish('s')).toBe(false);
    expect(trial.index.cleanup()).toBe(1);
  });
});

describe('bounds', () => {
  test('of frontiers: the oldest goes, and one that receded is as old as it was', () => {
    const trial = new LineageTrial({ maxFrontiers: 2 });
    trial.match('s', A, 10, 11);
    trial.match('s', A, 20);
    trial.remove(A, 11);
    trial.match('s', A, 30);
    expect(trial.paths('s', A)).toEqual([[20], [30]]);
    expect(trial.index.stats().evictedFrontiers).toBe(1);
  });

  test('of blocks: those of no session go first, then sessions', () => {
    const trial = new LineageTrial({ maxNodes: 4 });
    trial.match('s', A, 10, 11);
    trial.match('t', A, 20, 21);
    trial.remove(A, 21);
    trial.match('u', A, 30);
    expect(trial.index.stats()).toMatchObject({ nodes: 4, sessions: 3, evictedSessions: 0 });
    trial.match('v', A, 40);
    expect(trial.index.stats()).toMatchObject({ nodes: 3, sessions: 3, evictedSessions: 1 });
    expect(trial.paths('s', A)).toEqual([]);
  });

  test('of blocks: a chain that is longer than all the room is refused', () => {
    const trial = new LineageTrial({ maxNodes: 3 });
    trial.match('s', A, 1, 2, 3);
    expect(trial.match('t', A, 4, 5, 6, 7)).toBe('too-long 4');
    expect(trial.paths('s', A)).toEqual([[1, 2, 3]]);
    // One that is too long only with what comes before it leaves nothing: it goes as a whole.
    expect(trial.store('s', A, 3, 4)).toBe('advanced');
    expect(trial.index.stats()).toMatchObject({ nodes: 0, sessions: 0 });
  });

  test('of one update: n blocks are taken, n + 1 are not', () => {
    const trial = new LineageTrial({ maxChain: 2 });
    expect(trial.store('s', A, null, 1, 2)).toBe('advanced');
    expect(trial.store('s', A, 2, 3, 4, 5)).toBe('too-long 3');
  });

  test('of bytes: what is in use stays below, and arrays stop growing', () => {
    const trial = new LineageTrial({ maxBytes: 40_000 });
    const bytes: number[] = [];
    for (let round = 0; round < 60; round++) {
      const chain = Array.from({ length: 20 }, (_, i) => 1000 * round + i);
      trial.index.match(keyOf(`s${round}`), round % 3, pairsOf(...chain));
      trial.index.remove(round % 3, pairsOf(1000 * round + 19));
      const { bytes: all, usedBytes } = trial.index.stats();
      expect(usedBytes).toBeLessThanOrEqual(40_000);
      bytes.push(all);
    }
    expect(trial.index.stats().evictedSessions).toBeGreaterThan(20);
    expect(trial.index.stats().nodes).toBeGreaterThan(400);
    expect(bytes.at(-1)).toBe(bytes[40]);
  });

  test('of bytes: a block takes entries of its own for several owners, and none once one is left', () => {
    const trial = new LineageTrial();
    const { paths } = trial.state;
    trial.match('s', A, 10, 11);
    expect(paths.usedBytes).toBe(0);
    trial.match('s', B, 10, 11);
    const ofTwo = paths.usedBytes;
    trial.match('s', 9, 10);
    expect([ofTwo, paths.usedBytes]).toEqual([4 * 28, 5 * 28]);
    trial.clear(A);
    trial.clear(9);
    expect(paths.usedBytes).toBe(0);
    expect(trial.paths('s', B)).toEqual([[10, 11]]);
  });

  test.each<[LineageLimits, string]>([
    [{ maxSessions: 0 }, 'a session prefix index is capped at 1 to 1048576 sessions, not at 0'],
    [{ maxNodes: 2 ** 23 + 1 }, 'a session prefix index is capped at 1 to 8388608 blocks, not at 8388609'],
    [{ maxBytes: 2 ** 29 + 1 }, 'a session prefix index is capped at 1 to 536870912 bytes, not at 536870913'],
    [{ maxFrontiers: 0.5 }, 'a session prefix index is capped at 1 to 65536 frontiers, not at 0.5'],
    [{ maxChain: 0 }, 'an update of a session prefix index is capped at 1 to 1048576 blocks, not at 0'],
    [{ timeToLiveMs: 0 }, 'a session is forgotten after more than 0 ms, not 0'],
    [{ cleanupIntervalMs: Number.NaN }, 'blocks of no session are pruned after more than 0 ms, not NaN'],
  ])('%o is refused', (limits, message) => {
    expect(() => new SessionPrefixIndex({ now: () => 0 }, limits)).toThrow(message);
  });

  test('owners and halves of hashes are refused before anything changes', () => {
    const { index } = new LineageTrial();
    expect(() => index.match(keyOf('s'), 65_536, pairsOf(1))).toThrow('owner slot 65536');
    expect(() => index.remove(-1, pairsOf(1))).toThrow('owner slot -1');
    expect(() => index.clear(0.5)).toThrow('owner slot 0.5');
    expect(() => index.store(keyOf('s'), 0, null, new Uint32Array(3))).toThrow('odd length of 3');
    expect(() => index.remove(0, new Uint32Array(1))).toThrow('odd length of 1');
  });
});

describe('time', () => {
  test('a session whose time is over has nothing, even before it is forgotten', () => {
    const trial = new LineageTrial({ timeToLiveMs: 100 });
    trial.match('s', A, 10);
    trial.clock.advanceTo(60);
    trial.match('t', A, 10);
    trial.clock.advanceTo(99.5);
    expect(trial.paths('s', A)).toEqual([[10]]);
    trial.clock.advanceTo(100);
    expect([trial.paths('s', A), trial.paths('t', A)]).toEqual([[], [[10]]]);
    expect([trial.unique('s', A), trial.exclusive('s', A), trial.index.frontiers(keyOf('s'))]).toEqual([
      [],
      [],
      [],
    ]);
    expect(trial.sessions).toBe(2);
    expect(trial.remove(B, 99)).toBe(0);
    expect(trial.index.stats()).toMatchObject({ sessions: 1, expiredSessions: 1 });
  });

  test('any match or store is a use, also one that changes nothing', () => {
    const trial = new LineageTrial({ timeToLiveMs: 100 });
    trial.match('s', A, 10, 11);
    trial.clock.advanceTo(90);
    expect(trial.match('s', A, 10)).toBe('unchanged');
    trial.clock.advanceTo(189);
    expect(trial.index.expire()).toBe(0);
    trial.clock.advanceTo(190);
    expect(trial.index.expire()).toBe(1);
  });

  test('blocks of no session are pruned by the first change after five minutes, in pieces', () => {
    const trial = new LineageTrial();
    const chain = Array.from({ length: 1500 }, (_, i) => i + 1);
    trial.index.match(keyOf('s'), A, pairsOf(...chain));
    trial.index.finish(keyOf('s'));
    trial.clock.advanceTo(299_999);
    trial.index.remove(A, pairsOf(1));
    expect(trial.nodes).toBe(1500);
    trial.clock.advanceTo(300_000);
    trial.index.remove(A, pairsOf(1));
    expect(trial.nodes).toBe(476);
    trial.index.remove(A, pairsOf(1));
    expect(trial.nodes).toBe(0);
    trial.index.match(keyOf('s'), A, pairsOf(1));
    trial.index.finish(keyOf('s'));
    trial.index.remove(A, pairsOf(1));
    expect(trial.nodes).toBe(1);
  });
});

describe('nodes', () => {
  test('have hash, parent, children and the number of their frontiers', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.match('t', A, 10, 11);
    trial.match('t', B, 10, 11);
    trial.match('t', B, 10, 12);
    const root = trial.index.node(trial.id(10)!)!;
    expect(root).toMatchObject({ hash: hashOf(10), parent: null, frontierRefs: 0 });
    expect(root.children.toSorted()).toEqual([trial.id(11), trial.id(12)].toSorted());
    expect(trial.index.node(trial.id(11)!)).toEqual({
      hash: hashOf(11),
      parent: trial.id(10),
      children: [],
      frontierRefs: 3,
    });
    expect(trial.index.frontiers(keyOf('t'))).toEqual(
      expect.arrayContaining([
        { owner: A, node: trial.id(11) },
        { owner: B, node: trial.id(11) },
        { owner: B, node: trial.id(12) },
      ]),
    );
  });

  test('that went never come back under the same number', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10);
    const gone = trial.id(10)!;
    trial.finish('s');
    trial.index.cleanup();
    expect(trial.index.node(gone)).toBeNull();
    trial.match('s', A, 11);
    expect(trial.id(11)).not.toBe(gone);
    expect(trial.index.node(gone)).toBeNull();
    for (const id of [-1, 0.5, 1e9, Number.NaN, 2 ** 60]) expect(trial.index.node(id)).toBeNull();
  });
});

describe('questions about blocks', () => {
  test('name each of a branched session once, parents first', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11, 12);
    trial.match('s', A, 10, 11, 13, 14);
    expect(trial.unique('s', A)).toEqual([10, 11, 12, 13, 14]);
  });

  test('name those that no other session has on the owner', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11, 12);
    trial.match('s', A, 10, 11, 13);
    expect(trial.exclusive('s', A).toSorted()).toEqual([10, 11, 12, 13]);
    trial.match('t', A, 10, 20);
    expect(trial.exclusive('s', A).toSorted()).toEqual([11, 12, 13]);
    expect(trial.exclusive('t', A)).toEqual([20]);
    trial.match('t', A, 10, 11, 13);
    expect(trial.exclusive('s', A)).toEqual([12]);
    trial.match('u', B, 10, 11, 12);
    expect(trial.exclusive('s', A)).toEqual([12]);
    trial.match('u', A, 10, 11, 12, 40);
    expect(trial.exclusive('s', A)).toEqual([]);
  });

  test('are answered for paths longer than any before', () => {
    const trial = new LineageTrial();
    const chain = Array.from({ length: 5000 }, (_, i) => i + 1);
    trial.index.match(keyOf('s'), A, pairsOf(...chain));
    expect(trial.paths('s', A)).toEqual([chain]);
    expect(trial.paths('s', A, 4999)).toEqual([[4999, 5000]]);
    expect(trial.unique('s', A)).toEqual(chain);
    expect(trial.exclusive('s', A)).toEqual(chain);
  });

  test('are answered with copies', () => {
    const trial = new LineageTrial();
    trial.match('s', A, 10, 11);
    trial.index.paths(keyOf('s'), A)[0]!.fill(0);
    trial.index.uniqueBlocks(keyOf('s'), A).fill(0);
    expect(trial.paths('s', A)).toEqual([[10, 11]]);
  });
});

// The way of updates into the session prefix index: order, turns, versions of what owners hold, and what gives way when there is no room.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { HashPairs, U64 } from '../hashing/types.ts';
import { fromBigUint64Array, toBigUint64Array, u64FromBigInt } from '../hashing/u64.ts';
import { NaiveLineage } from './naive-lineage.fixtures.ts';
import { sessionKey } from './session-key.ts';
import { SessionPrefixIndex } from './session-prefix-index.ts';
import { SessionUpdates, type SessionUpdatesOptions } from './session-updates.ts';
import type { LineageOutcome, SessionKey, SessionLineageIndex } from './types.ts';

const pairs = (...values: readonly (bigint | number)[]): HashPairs =>
  fromBigUint64Array(BigUint64Array.from(values, BigInt));
const values = (hashes: HashPairs): bigint[] => [...toBigUint64Array(hashes)];
const S = sessionKey({ model: 'm', routingGroup: 'g' }, null, 's');
const T = sessionKey({ model: 'm', routingGroup: 'g' }, null, 't');

/** What owners hold, as sets of `owner hash`. */
class Held {
  readonly blocks = new Set<string>();

  put(owner: number, ...hashes: readonly (bigint | number)[]): void {
    for (const hash of hashes) this.blocks.add(`${owner} ${hash}`);
  }

  drop(owner: number, ...hashes: readonly (bigint | number)[]): void {
    for (const hash of hashes) this.blocks.delete(`${owner} ${hash}`);
  }

  holds(owner: number, tier: string, sequence: HashPairs, index: number): boolean {
    expect(tier).toBe('device');
    return this.blocks.has(`${owner} ${values(sequence)[index]}`);
  }
}

/** A queue in front of an index that is obviously right, with the calls that reach it. */
class Trial {
  readonly held = new Held();
  readonly index = new NaiveLineage();
  readonly turns: (() => void)[] = [];
  readonly reached: string[] = [];
  readonly refused: LineageOutcome[] = [];
  readonly updates: SessionUpdates;

  constructor(options: Partial<SessionUpdatesOptions> = {}) {
    this.updates = new SessionUpdates({
      index: this.#told(),
      residency: this.held,
      later: (work) => void this.turns.push(work),
      onRefused: (outcome) => void this.refused.push(outcome),
      ...options,
    });
  }

  /** Lets the next turn that was asked for come. */
  turn(): void {
    this.turns.shift()?.();
  }

  paths(session: SessionKey, owner = 0) {
    return this.index.paths(session, owner);
  }

  #told(): SessionLineageIndex {
    const { index, reached } = this;
    return {
      match: (session, owner, chain) => {
        reached.push(`match ${owner} ${values(chain)}`);
        return index.match(session, owner, chain);
      },
      store: (session, owner, parent: U64 | null, hashes) => {
        reached.push(`store ${owner} ${values(hashes)}`);
        return index.store(session, owner, parent, hashes);
      },
      remove: (owner, hashes) => {
        reached.push(`remove ${owner} ${values(hashes)}`);
        return index.remove(owner, hashes);
      },
      clear: (owner) => {
        reached.push(`clear ${owner}`);
        return index.clear(owner);
      },
      finish: (session) => {
        reached.push('finish');
        return index.finish(session);
      },
    };
  }
}

describe('session updates', () => {
  test('reach the index in order, and not before the next turn', () => {
    const trial = new Trial();
    const { updates } = trial;
    updates.matched(S, 0, 0, pairs(1, 2));
    updates.stored(S, 0, u64FromBigInt(2n), pairs(3));
    updates.removed(1, pairs(9));
    updates.cleared(1);
    updates.finished(T);
    expect(trial.reached).toEqual([]);
    expect(trial.paths(S)).toEqual([]);
    expect(updates.stats()).toMatchObject({ waiting: 5, waitingBlocks: 4, applied: 0 });
    expect(trial.turns.length).toBe(1);
    trial.turn();
    expect(trial.reached).toEqual(['match 0 1,2', 'store 0 3', 'remove 1 9', 'clear 1', 'finish']);
    expect(trial.paths(S)).toEqual([[1n, 2n, 3n]]);
    expect(updates.stats()).toMatchObject({ waiting: 0, waitingBlocks: 0, applied: 5 });
    expect(trial.turns.length).toBe(0);
  });

  test('are applied at once by a flush, and the turn that was asked for does nothing then', () => {
    const trial = new Trial();
    trial.updates.matched(S, 0, 0, pairs(1));
    trial.updates.flush();
    expect(trial.reached).toEqual(['match 0 1']);
    trial.turn();
    expect(trial.reached.length).toBe(1);
    trial.updates.finished(S);
    expect(trial.turns.length).toBe(1);
  });

  test('take several turns when there are many blocks', () => {
    const trial = new Trial({ blocksPerTurn: 3 });
    for (let i = 0; i < 4; i++) trial.updates.matched(S, 0, 0, pairs(10 * i, 10 * i + 1));
    trial.turn();
    expect(trial.reached.length).toBe(2);
    expect(trial.turns.length).toBe(1);
    trial.turn();
    expect(trial.reached.length).toBe(4);
    expect(trial.turns.length).toBe(0);
  });

  test('clear an owner of many frontiers in several turns, and what waits behind that waits on', () => {
    const index = new SessionPrefixIndex({ now: () => 0 });
    const turns: (() => void)[] = [];
    const later = (work: () => void) => void turns.push(work);
    const updates = new SessionUpdates({ index, residency: new Held(), later });
    const ids = Array.from({ length: 600 }, (_, i) =>
      sessionKey({ model: 'm', routingGroup: '' }, null, `${i}`),
    );
    for (const [i, id] of ids.entries()) index.match(id, 0, pairs(1, 10 + i));
    updates.cleared(0);
    updates.matched(S, 0, updates.versionOf(0), pairs(1, 2));
    const left: number[] = [];
    for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) {
      turn();
      left.push(index.stats().frontiers);
    }
    expect(left).toEqual([344, 88, 1]);
    expect(index.paths(S, 0).map(values)).toEqual([[1n, 2n]]);
    for (const id of ids) index.match(id, 0, pairs(1, 2));
    updates.cleared(0);
    updates.flush();
    expect(index.stats().frontiers).toBe(0);
  });

  test('keep copies of what events bring, as the caller uses its arrays again', () => {
    const trial = new Trial();
    const scratch = pairs(1, 2);
    trial.updates.stored(S, 0, null, scratch);
    scratch.fill(7);
    scratch.set(pairs(2));
    trial.updates.removed(0, scratch.subarray(0, 2));
    scratch.fill(0);
    trial.updates.flush();
    expect(trial.paths(S)).toEqual([[1n]]);
  });

  test('tell what the index refused', () => {
    const trial = new Trial();
    trial.updates.stored(S, 0, u64FromBigInt(5n), pairs(6));
    trial.updates.flush();
    expect(trial.refused).toEqual([{ kind: 'unknown-parent', parent: u64FromBigInt(5n) }]);
    expect(trial.updates.stats().refused).toBe(1);
  });

  test('count removals and clears of an owner as its version, at once', () => {
    const { updates } = new Trial();
    expect(updates.versionOf(3)).toBe(0);
    updates.removed(3, pairs(1));
    updates.cleared(3);
    updates.stored(S, 3, null, pairs(1));
    expect([updates.versionOf(3), updates.versionOf(2), updates.versionOf(4)]).toEqual([2, 0, 0]);
  });

  test('trust a match of the present version without asking what is held', () => {
    const trial = new Trial();
    trial.updates.removed(0, pairs(8));
    trial.updates.matched(S, 0, trial.updates.versionOf(0), pairs(1, 2));
    trial.updates.flush();
    expect(trial.paths(S)).toEqual([[1n, 2n]]);
  });

  test('cut a match of an older version to what is still held from the first block on', () => {
    const trial = new Trial();
    trial.held.put(0, 1, 2, 4);
    trial.updates.removed(0, pairs(3));
    trial.updates.matched(S, 0, 0, pairs(1, 2, 3, 4));
    trial.updates.matched(T, 0, 0, pairs(5, 6));
    trial.updates.flush();
    expect(trial.paths(S)).toEqual([[1n, 2n]]);
    expect(trial.paths(T)).toEqual([]);
    expect(trial.updates.stats().staleMatches).toBe(1);
  });

  test('forget what was said of a worker whose slot is given out again', () => {
    const trial = new Trial();
    trial.held.put(0, 1);
    trial.updates.matched(S, 0, trial.updates.versionOf(0), pairs(1));
    trial.updates.cleared(0);
    trial.held.drop(0, 1);
    const version = trial.updates.versionOf(0);
    trial.updates.matched(T, 0, version, pairs(2));
    trial.updates.flush();
    expect(version).toBe(1);
    expect(trial.paths(S)).toEqual([]);
    expect(trial.paths(T)).toEqual([[2n]]);
  });

  test('leave out stores that engines tell of after the end of their session, until it goes on', () => {
    const trial = new Trial();
    const { updates } = trial;
    updates.matched(S, 0, 0, pairs(1));
    updates.finished(S);
    updates.stored(S, 0, u64FromBigInt(1n), pairs(2));
    updates.stored(T, 0, u64FromBigInt(1n), pairs(2));
    updates.flush();
    expect(trial.paths(S)).toEqual([]);
    expect(trial.paths(T)).toEqual([[1n, 2n]]);
    expect(updates.stats().lateStores).toBe(1);
    updates.finished(S);
    updates.matched(S, 0, 0, pairs());
    updates.stored(S, 0, u64FromBigInt(2n), pairs(3));
    updates.flush();
    expect(trial.paths(S)).toEqual([[1n, 2n, 3n]]);
  });

  test('remember the 8,192 sessions that ended last', () => {
    const trial = new Trial();
    const ids = Array.from({ length: 8193 }, (_, i) =>
      sessionKey({ model: 'm', routingGroup: '' }, null, `${i}`),
    );
    for (const id of ids) trial.updates.finished(id);
    for (const id of ids.slice(0, 2)) trial.updates.stored(id, 0, null, pairs(1));
    trial.updates.flush();
    expect(trial.paths(ids[0]!)).toEqual([[1n]]);
    expect(trial.paths(ids[1]!)).toEqual([]);
  });
});

describe('without room, session updates', () => {
  test('lose the earliest matches first, as many as it takes to a quarter free', () => {
    const trial = new Trial({ maxUpdates: 8 });
    const { updates } = trial;
    for (let i = 0; i < 3; i++) updates.matched(S, 0, 0, pairs(i));
    updates.stored(S, 0, null, pairs(100));
    updates.removed(1, pairs(200));
    for (let i = 3; i < 7; i++) updates.matched(S, 0, 0, pairs(i));
    expect(updates.stats()).toMatchObject({ waiting: 6, droppedMatches: 3, droppedStores: 0 });
    updates.flush();
    expect(trial.reached).toEqual([
      'store 0 100',
      'remove 1 200',
      'match 0 3',
      'match 0 4',
      'match 0 5',
      'match 0 6',
    ]);
  });

  test('lose stores when no match is left', () => {
    const trial = new Trial({ maxUpdates: 4 });
    const { updates } = trial;
    updates.matched(S, 0, 0, pairs(1));
    for (let i = 0; i < 3; i++) updates.stored(S, 0, null, pairs(10 + i));
    updates.removed(0, pairs(20));
    updates.finished(S);
    updates.removed(1, pairs(20));
    updates.flush();
    expect(trial.reached).toEqual(['store 0 12', 'remove 0 20', 'finish', 'remove 1 20']);
    expect(updates.stats()).toMatchObject({ droppedMatches: 1, droppedStores: 2, foldedRemovals: 0 });
  });

  test('let a clear of each owner stand for its removals, which are never lost', () => {
    const trial = new Trial({ maxUpdates: 4 });
    const { updates } = trial;
    trial.index.match(S, 0, pairs(1, 2));
    trial.index.match(S, 1, pairs(1, 2));
    trial.index.match(T, 2, pairs(1, 2));
    updates.removed(0, pairs(2));
    updates.removed(1, pairs(7));
    updates.removed(0, pairs(8));
    updates.finished(T);
    updates.removed(0, pairs(9));
    expect(updates.stats()).toMatchObject({ waiting: 3, waitingBlocks: 0, foldedRemovals: 4 });
    updates.flush();
    expect(trial.reached).toEqual(['finish', 'clear 0', 'clear 1']);
    expect([trial.paths(S, 0), trial.paths(S, 1), trial.paths(T, 2)]).toEqual([[], [], []]);
  });

  test('are applied at once when only clears and ends are left', () => {
    const trial = new Trial({ maxUpdates: 2 });
    for (const owner of [0, 1, 2]) trial.updates.cleared(owner);
    expect(trial.reached).toEqual(['clear 0', 'clear 1', 'clear 2']);
    expect(trial.updates.stats().waiting).toBe(0);
  });

  test('lose a match, a store and the blocks of a removal that are larger than all the room', () => {
    const trial = new Trial({ maxBlocks: 2 });
    const { updates } = trial;
    updates.matched(S, 0, 0, pairs(1, 2, 3));
    updates.stored(S, 0, null, pairs(1, 2, 3));
    updates.removed(4, pairs(1, 2, 3));
    expect(updates.stats()).toMatchObject({ waitingBlocks: 0, droppedMatches: 1, droppedStores: 1 });
    updates.flush();
    expect(trial.reached).toEqual(['clear 4']);
  });

  test.each(['maxUpdates', 'maxBlocks', 'blocksPerTurn'])('refuse a %s below 1', (option) => {
    expect(() => new Trial({ [option]: 0 })).toThrow('not at 0');
  });
});

test('no match ever puts a frontier on a block that is not held when its turn comes (P7)', () => {
  const owner = fc.nat(1);
  const chain = fc.array(fc.nat(1), { minLength: 1, maxLength: 4 });
  const step = fc.oneof(
    fc.record({ kind: fc.constant('put' as const), owner, chain }),
    fc.record({ kind: fc.constant('observe' as const), owner, chain, session: fc.nat(1) }),
    fc.record({ kind: fc.constant('enqueue' as const) }),
    fc.record({ kind: fc.constant('drop' as const), owner, chain }),
    fc.record({ kind: fc.constant('clear' as const), owner }),
    fc.record({ kind: fc.constant('turn' as const) }),
  );
  const idsOf = (path: readonly number[]) =>
    path.map((_, i) => path.slice(0, i + 1).reduce((id, turn) => 2 * id + turn, 1));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 2, max: 12 }), (steps, maxUpdates) => {
      const held = new Held();
      const index = new NaiveLineage();
      const turns: (() => void)[] = [];
      const observed: (() => void)[] = [];
      const updates = new SessionUpdates({
        index: {
          match: (session, on, hashes) => {
            for (let i = 0; i < hashes.length / 2; i++)
              expect(held.holds(on, 'device', hashes, i)).toBe(true);
            return index.match(session, on, hashes);
          },
          store: (session, on, parent, hashes) => index.store(session, on, parent, hashes),
          remove: (on, hashes) => index.remove(on, hashes),
          clear: (on) => index.clear(on),
          finish: (session) => index.finish(session),
        },
        residency: held,
        later: (work) => void turns.push(work),
        maxUpdates,
        blocksPerTurn: 4,
      });
      for (const at of steps) {
        switch (at.kind) {
          case 'put':
            held.put(at.owner, ...idsOf(at.chain));
            break;
          case 'observe': {
            // A request finds its chain now, and tells of it some steps later.
            const ids = idsOf(at.chain);
            const found = ids.findIndex((id) => !held.blocks.has(`${at.owner} ${id}`));
            const matching = pairs(...(found < 0 ? ids : ids.slice(0, found)));
            const version = updates.versionOf(at.owner);
            observed.push(() => updates.matched([S, T][at.session]!, at.owner, version, matching));
            break;
          }
          case 'enqueue':
            observed.shift()?.();
            break;
          case 'drop': {
            const ids = idsOf(at.chain).slice(-2);
            held.drop(at.owner, ...ids);
            updates.removed(at.owner, pairs(...ids));
            break;
          }
          case 'clear':
            for (const block of held.blocks) if (block.startsWith(`${at.owner} `)) held.blocks.delete(block);
            updates.cleared(at.owner);
            break;
          case 'turn':
            turns.shift()?.();
            break;
        }
      }
      updates.flush();
      // When all is applied, every path is held from its first block to its last.
      for (const [, session] of index.sessions)
        for (const [on, frontiers] of session.frontiers)
          for (const frontier of frontiers)
            for (const block of index.path(frontier)) expect(held.blocks.has(`${on} ${block}`)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

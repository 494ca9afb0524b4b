// Behaviour that the field's own tests of a session prefix index pin, one test for each.
import { expect, test } from 'vitest';
import { LineageTrial } from './lineage-trial.fixtures.ts';

const [A, B] = [1, 2];

test('a match creates a lineage, and the same again adds nothing', () => {
  const trial = new LineageTrial();
  expect(trial.match('s', A, 10)).toBe('advanced');
  expect(trial.paths('s', A)).toEqual([[10]]);
  const used = trial.state.forest.used;
  expect(trial.match('s', A, 10)).toBe('unchanged');
  expect(trial.paths('s', A)).toEqual([[10]]);
  expect([trial.nodes, trial.state.forest.used]).toEqual([1, used]);
});

test('a shallower match never moves the frontier', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  expect(trial.match('s', A, 10, 11)).toBe('unchanged');
  expect(trial.match('s', A, 11)).toBe('unchanged');
  expect(trial.paths('s', A)).toEqual([[10, 11, 12]]);
});

test('two sessions share the blocks of a trunk: two of it and one of a branch are three', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11);
  trial.store('t', A, null, 10, 11, 12);
  expect(trial.nodes).toBe(3);
  expect(trial.paths('s', A)).toEqual([[10, 11]]);
  expect(trial.paths('t', A)).toEqual([[10, 11, 12]]);
});

test('a store grafts onto a block first seen in a match: the same node, and no second root', () => {
  const trial = new LineageTrial();
  trial.match('s', A, 12);
  const id = trial.id(12);
  expect(trial.store('s', A, 10, 11, 12, 13)).toBe('advanced');
  expect(trial.id(12)).toBe(id);
  expect(trial.nodes).toBe(4);
  expect(trial.paths('s', A)).toEqual([[10, 11, 12, 13]]);
  expect(trial.index.node(id ?? -1)).toMatchObject({ parent: trial.id(11), children: [trial.id(13)] });
});

test('a store behind a parent that nobody knows is refused, and the index stays empty', () => {
  const trial = new LineageTrial();
  expect(trial.store('s', A, 9, 10, 11)).toBe('unknown-parent 9');
  expect([trial.nodes, trial.sessions]).toEqual([0, 0]);
});

test('a block behind another parent than its own is refused', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11);
  trial.store('s', A, null, 20);
  expect(trial.store('t', A, 20, 11)).toBe('conflicting-parent 11');
  expect(trial.store('t', A, null, 11)).toBe('conflicting-parent 11');
  expect(trial.paths('t', A)).toEqual([]);
  expect(trial.paths('s', A)).toEqual([[10, 11], [20]]);
});

test('a session that branches keeps one frontier per chain', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11);
  trial.store('s', A, 10, 12);
  expect(trial.paths('s', A)).toEqual([
    [10, 11],
    [10, 12],
  ]);
});

test('an anchor leaves out what comes before it and paths without it', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  trial.store('s', A, 10, 13);
  expect(trial.paths('s', A, 11)).toEqual([[11, 12]]);
  expect(trial.paths('s', A, 10)).toEqual([
    [10, 11, 12],
    [10, 13],
  ]);
});

test('an anchor that is not known is an error, a session that is not known has no paths', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10);
  const text =
    'paths were asked for from block 99 on, but no session has it; ask nodeOf first, or leave the anchor out';
  expect(() => trial.paths('s', A, 99)).toThrow(text);
  expect(() => trial.paths('nobody', A, 99)).toThrow(
    expect.objectContaining({ code: 'PM_KV_LINEAGE_ANCHOR' }),
  );
  expect(trial.paths('nobody', A)).toEqual([]);
  expect(trial.paths('nobody', A, 10)).toEqual([]);
  expect(trial.paths('s', B)).toEqual([]);
});

test('a shallow match after a deep one keeps the lineage', () => {
  const trial = new LineageTrial();
  trial.match('s', A, 10, 11, 12);
  expect(trial.match('s', A, 10)).toBe('unchanged');
  expect(trial.paths('s', A)).toEqual([[10, 11, 12]]);
});

test('with room for two sessions the one without use for longest goes, and shared blocks stay', () => {
  const trial = new LineageTrial({ maxSessions: 2 });
  trial.store('s', A, null, 10, 11);
  trial.store('t', A, null, 10, 12);
  trial.match('s', A, 10);
  trial.store('u', B, null, 10, 13);
  expect(trial.paths('t', A)).toEqual([]);
  expect(trial.paths('s', A)).toEqual([[10, 11]]);
  expect(trial.paths('u', B)).toEqual([[10, 13]]);
  expect(trial.sessions).toBe(2);
  expect(trial.id(10)).not.toBeNull();
  // The one that went is in no list of a block any more: a removal meets only those that are left.
  expect(trial.remove(A, 10)).toBe(1);
});

test('a removal recedes the worker concerned and no other', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  trial.store('s', B, null, 10, 11, 12);
  expect(trial.remove(A, 12)).toBe(1);
  expect(trial.paths('s', A)).toEqual([[10, 11]]);
  expect(trial.paths('s', B)).toEqual([[10, 11, 12]]);
});

test('a batch of removals meets all sessions, and the same again none', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  trial.store('t', A, null, 10, 11, 13);
  expect(trial.remove(A, 13, 11, 12)).toBe(2);
  expect([trial.paths('s', A), trial.paths('t', A)]).toEqual([[[10]], [[10]]]);
  expect(trial.remove(A, 13, 11, 12)).toBe(0);
  expect([trial.paths('s', A), trial.paths('t', A)]).toEqual([[[10]], [[10]]]);
});

test('removed blocks that are not known are nothing', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10);
  expect(trial.remove(A, 98, 99)).toBe(0);
  expect(trial.paths('s', A)).toEqual([[10]]);
});

test('an interior block that is removed recedes the frontier, and the tail after it nothing', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12, 13);
  expect(trial.remove(A, 12)).toBe(1);
  expect(trial.paths('s', A)).toEqual([[10, 11]]);
  expect(trial.remove(A, 13)).toBe(0);
  expect(trial.paths('s', A)).toEqual([[10, 11]]);
});

test('a clear concerns one worker and leaves the blocks', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11);
  trial.store('s', B, null, 10, 11);
  expect(trial.clear(A)).toBe(1);
  expect(trial.paths('s', A)).toEqual([]);
  expect(trial.paths('s', B)).toEqual([[10, 11]]);
  expect(trial.clear(B)).toBe(1);
  expect([trial.nodes, trial.sessions]).toEqual([2, 0]);
});

test('a cleanup takes a tail that nobody has', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  trial.remove(A, 11);
  expect(trial.nodes).toBe(3);
  expect(trial.index.cleanup()).toBe(2);
  expect(trial.nodes).toBe(1);
  expect(trial.paths('s', A)).toEqual([[10]]);
});

test('a chain that closes a circle is refused, and none of it applied', () => {
  const trial = new LineageTrial();
  trial.store('s', A, null, 10, 11, 12);
  expect(trial.store('s', A, 12, 20, 10)).toBe('cyclic-parent 10');
  expect(trial.id(20)).toBeNull();
  expect(trial.paths('s', A)).toEqual([[10, 11, 12]]);
  expect(trial.store('s', A, 12, 12)).toBe('cyclic-parent 12');
});

test('a chain with a block twice is refused', () => {
  const trial = new LineageTrial();
  expect(trial.store('s', A, null, 10, 11, 10)).toBe('cyclic-parent 10');
  expect(trial.match('s', A, 10, 11, 11)).toBe('cyclic-parent 11');
  expect([trial.nodes, trial.sessions]).toEqual([0, 0]);
});

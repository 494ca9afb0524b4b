import { describe, expect, it } from 'vitest';
import { MAX_DECLARATIONS, type RetainAction, type RetainDeclaration, Retentions } from './retentions.ts';

const action = (actionId = 'a1'): RetainAction => ({
  ...{ messageId: 'm', actionId, kept: 0, evicted: 0, lapsed: 0 },
});
const declaration = (
  declarer: string,
  priority: number,
  expiresAt: number,
  of: RetainAction = action(),
): RetainDeclaration => ({ action: of, declarer, priority, expiresAt, blocks: [], held: 0, order: 0 });

describe('declarations on a block', () => {
  it('are bounded: the weakest goes, also when that is the new one', () => {
    const retentions = new Retentions();
    const made = Array.from({ length: MAX_DECLARATIONS }, (_, index) =>
      declaration(`s${index}`, 10 + index, 100),
    );
    for (const one of made) retentions.add(7, one);
    const weak = declaration('weak', 1, 1e6);
    expect(retentions.add(7, weak)).toBe(false);
    expect(weak.action.kept).toBe(0);
    const strong = declaration('strong', 90, 50);
    expect([retentions.add(7, strong), retentions.add(7, strong)]).toEqual([true, true]);
    expect([retentions.priorityOf(7), strong.action.kept, made[0]!.action.kept]).toEqual([90, 1, 0]);
    retentions.expire(50, () => undefined);
    expect(retentions.priorityOf(7)).toBe(10 + MAX_DECLARATIONS - 1);
    expect(retentions.isRetainedByOthers(7, 's1')).toBe(true);
    expect(retentions.release(7, 's0')).toBe(false);
  });

  it('forget the blocks they lost, so that a long one kept for a single block is short', () => {
    const retentions = new Retentions();
    const made = Array.from({ length: 64 }, (_, session) => {
      const one = declaration('s', 9, 1e9);
      for (let block = session; block < 1000; block += 1) retentions.add(block, one);
      return one;
    });
    expect(made.map(({ action: { kept } }) => kept)).toEqual([...Array(63).fill(1), 937]);
    const held = made.slice(0, -1).reduce((sum, { blocks }) => sum + blocks.length, 0);
    expect(held).toBeLessThan(63 * 64);
    const changed: number[] = [];
    retentions.expire(1e9, (block) => changed.push(block));
    expect(changed.sort((a, b) => a - b)).toEqual(Array.from({ length: 1000 }, (_, block) => block));
    expect([retentions.blocks, retentions.pendingEnds]).toEqual([0, 0]);
  });

  it('of one action end together, and are told of once', () => {
    const retentions = new Retentions();
    const both = action();
    const [early, late] = [declaration('s', 9, 10, both), declaration('s', 5, 20, both)];
    for (const block of [1, 2]) retentions.add(block, early);
    for (const block of [3, 4]) retentions.add(block, late);
    retentions.forget(3, true);
    const changed: number[] = [];
    retentions.expire(10, (block) => changed.push(block));
    retentions.expire(20, (block) => changed.push(block));
    expect(changed).toEqual([1, 2, 4]);
    expect(retentions.takeLate()).toEqual([
      { action: both, reason: 'evicted' },
      { action: both, reason: 'expired' },
    ]);
    expect(both).toMatchObject({ kept: 0, evicted: 1, lapsed: 3 });
    expect([retentions.blocks, retentions.pendingEnds]).toEqual([0, 0]);
  });

  it('that never end are kept without a place among the ends', () => {
    const retentions = new Retentions();
    retentions.add(1, declaration('s', 9, Number.POSITIVE_INFINITY));
    retentions.expire(1e15, () => undefined);
    expect([retentions.blocks, retentions.pendingEnds]).toEqual([1, 0]);
  });

  it('renewed again and again do not pile up', () => {
    const retentions = new Retentions();
    for (let turn = 0; turn < 10_000; turn += 1) {
      for (const block of [1, 2, 3]) retentions.add(block, declaration('s', 9, 1e9 + turn));
    }
    expect(retentions.blocks).toBe(3);
    expect(retentions.pendingEnds).toBeLessThan(200);
    retentions.expire(2e9, () => undefined);
    expect([retentions.blocks, retentions.pendingEnds]).toEqual([0, 0]);
  });
});

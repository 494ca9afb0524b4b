// A full index evicts blocks that engines go on building on. That is no lost event: nothing must wait for it, and no engine be asked.
import { describe, expect, it } from 'vitest';
import { createPrefixIndex } from '../kv/index.ts';
import { ManualClock } from '../plugin/index.ts';
import { bench, hasher, removed, stored } from './applier.fixtures.ts';
import type { EventLimits } from './owner-blocks.ts';

/** Names of blocks `from` to `to`, and their tokens. */
const names = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, at) => 1000 + from + at);
const tokens = (from: number, to: number): number[] =>
  Array.from({ length: 2 * (to - from) }, (_, at) => 2 * from + at);

/** An applier over an index of so many names, whose engine 1 can be asked. */
function full(maxHoldings: number, eventLimits: Partial<EventLimits> = {}, blockSize = 2) {
  const clock = new ManualClock(1000);
  const index = createPrefixIndex({ hasher, maxHoldings });
  const asked: number[] = [];
  const made = bench({ index, clock, eventLimits, blockSizeOf: () => blockSize });
  made.applier.askAt(1, {
    replay(from) {
      asked.push(from);
      return () => undefined;
    },
  });
  return { ...made, index, clock, asked };
}

describe('a store behind a block that was evicted', () => {
  it('is left out, counted apart, and asks for no replay however long it goes on', () => {
    const { send, applier, index, clock, asked } = full(64);
    send(1, stored(names(0, 60), tokens(0, 60)));
    for (let chain = 1; chain <= 40; chain += 1) {
      const from = 1000 * chain;
      send(1, stored(names(from, from + 40), tokens(from, from + 40)));
      // The engine has the first chain's end still.
      send(1, stored([500 + chain], [1, chain], { after: 1059 }));
      clock.advanceTo(clock.now() + 60_000);
    }
    expect(index.stats().evicted).toBeGreaterThan(1000);
    expect(applier.feed(1)?.rejected).toEqual({ evicted_parent: 40 });
    expect(applier.orphanBlocks(1)).toBe(0);
    expect(asked).toEqual([]);
    expect(applier.feed(1)).toMatchObject({ stale: false, partial: false, isRecovering: false });
  });

  it('is followed by removes that are no unknown ones', () => {
    const { send, applier, index } = full(64);
    send(1, stored(names(0, 60), tokens(0, 60)));
    send(1, stored(names(1000, 1040), tokens(1000, 1040)));
    send(1, stored([501, 502], [1, 2, 3, 4], { after: 1059 }), stored([503], [5, 6], { after: 502 }));
    expect(applier.feed(1)?.rejectedBlocks).toEqual({ evicted_parent: 3 });
    send(1, removed([503, 502, 501, ...names(0, 60).reverse()]));
    expect(applier.feed(1)?.unknownRemoves).toBe(0);
    // All that was evicted is gone with the engine too: from here on an unknown parent is a lost event.
    expect(index.lacksRoomFor(1)).toBe(false);
    send(1, stored([601], [1, 2], { after: 600 }));
    expect(applier.orphanBlocks(1)).toBe(1);
  });

  it('counts so with an engine that lost events only as long as it was not cleared', () => {
    const { send, applier } = full(64);
    send(1, stored(names(0, 60), tokens(0, 60)), stored(names(1000, 1040), tokens(1000, 1040)));
    send(1, { kind: 'cleared' }, stored([601], [1, 2], { after: 600 }));
    expect(applier.orphanBlocks(1)).toBe(1);
  });

  it('is left out where it hangs on blocks that found no room at all', () => {
    const { send, applier, asked } = full(8);
    send(1, stored(names(0, 60), tokens(0, 60)), stored([501], [1, 2], { after: 1059 }));
    expect(applier.feed(1)?.rejected).toEqual({ failed: 1, evicted_parent: 1 });
    expect(applier.orphanBlocks(1)).toBe(0);
    expect(asked).toEqual([]);
  });

  it('is left out where it is made of pages', () => {
    const { send, applier, asked, index } = full(16, {}, 4);
    send(1, stored(names(0, 20), tokens(0, 20)));
    send(1, stored(names(1000, 1024), tokens(1000, 1024)));
    expect(index.stats().evicted).toBeGreaterThan(0);
    send(1, stored([501, 502], [1, 2, 3, 4], { after: 1019 }));
    expect(applier.feed(1)?.rejected).toEqual({ evicted_parent: 1 });
    expect(asked).toEqual([]);
  });
});

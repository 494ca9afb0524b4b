import { expect, it } from 'vitest';
import type { KvEvent } from '../../events/index.ts';
import { BlockEnds } from './block-ends.ts';

function stored(external: readonly number[], tokens: readonly number[], tier: 'device' | 'host'): KvEvent {
  return {
    kind: 'stored',
    external: Uint32Array.from(external),
    parent: null,
    tokenIds: Uint32Array.from(tokens),
    blockSize: 2,
    tier,
    loraName: null,
    cacheSalt: null,
    sessionId: null,
  };
}

it('names blocks that leave devices by their last token, in the order in which they leave', () => {
  const ends = new BlockEnds();
  const left: number[] = [];
  const follow = (...events: KvEvent[]): void => ends.follow(events, (token) => left.push(token));
  follow(stored([1, 9, 2, 9], [5, 6, 7, 8], 'device'), stored([3, 9], [0, 4_294_967_295], 'device'));
  follow(stored([4, 9], [1, 1], 'host'), { kind: 'removed', external: Uint32Array.of(1, 9), tier: 'host' });
  expect(left).toEqual([]);
  follow({ kind: 'removed', external: Uint32Array.of(2, 9, 1, 9, 3, 9, 4, 9, 1, 8), tier: 'device' });
  expect(left).toEqual([8, 6, -1, -1, -1]);
  // Again on a device of the fleet, and gone from it again.
  follow(stored([2, 9], [7, 8], 'device'), {
    kind: 'removed',
    external: Uint32Array.of(2, 9),
    tier: 'device',
  });
  expect(left.at(-1)).toBe(8);
});

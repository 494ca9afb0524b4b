// Stores that name a session are told of once their blocks are in the index, and not before.
import { expect, test } from 'vitest';
import { bench, hashes, removed, stored } from './applier.fixtures.ts';
import type { SessionStore } from './event-application-options.ts';

function labelled() {
  const told: unknown[] = [];
  const sessionStored = (owner: number, { sessionId, cacheSalt, external }: SessionStore): void => {
    told.push([owner, sessionId, cacheSalt, ...external.filter((_, at) => at % 2 === 0)]);
  };
  return { told, sessionStored };
}

test('tells of stores on a device, those of blocks held already included, with the salt that blocks inherit', () => {
  const { told, sessionStored } = labelled();
  const { send } = bench({ sessionStored });
  send(0, stored([1, 2], [1, 2, 3, 4], { sessionId: 's', cacheSalt: 'salt' }));
  send(0, stored([3], [5, 6], { after: 2, sessionId: 't' }));
  send(0, stored([4], [7, 8]), stored([5], [1, 2], { sessionId: 's', tier: 'host' }));
  send(1, stored([4], [7, 8], { sessionId: 's' }), stored([4], [7, 8], { sessionId: 't' }));
  expect(told).toEqual([
    [0, 's', 'salt', 1, 2],
    [0, 't', 'salt', 3],
    [1, 's', null, 4],
    [1, 't', null, 4],
  ]);
});

test('tells of a block that waited for its parent when that has come, and of none that is refused', () => {
  const { told, sessionStored } = labelled();
  const { send } = bench({ sessionStored });
  send(0, stored([2], [3, 4], { after: 1, sessionId: 's' }));
  expect(told).toEqual([]);
  send(0, stored([1], [1, 2], { sessionId: 't' }));
  expect(told).toEqual([
    [0, 't', null, 1],
    [0, 's', null, 2],
  ]);
  send(0, stored([9, 9], [1, 2, 3, 4], { sessionId: 's' }), removed([9]));
  expect(told).toHaveLength(2);
});

test('pages of one token are told of by their own hashes, of which the index knows the last of each block', () => {
  const { told, sessionStored } = labelled();
  const { index, send } = bench({ sessionStored, blockSizeOf: () => 2 });
  send(0, stored([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], { blockSize: 1, sessionId: 's' }));
  expect(told).toEqual([[0, 's', null, 1, 2, 3, 4, 5]]);
  const chain = index.heldChain(0, hashes(1, 2, 3, 4, 5));
  expect(chain?.parent).toBeNull();
  expect(chain?.hashes).toHaveLength(4);
  send(0, stored([6], [6], { blockSize: 1, after: 5, sessionId: 's' }));
  const more = index.heldChain(0, hashes(6));
  expect(more).toMatchObject({ parent: { lo: chain!.hashes[2], hi: chain!.hashes[3] } });
});

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BlockOwners, MOVED_PER_BLOCK } from './block-owners.ts';

/** Well mixed, and never the same for two numbers. */
const hashOf = (block: number): [low: number, high: number] => [
  Math.imul(block + 1, 0x9e3779b1) >>> 0,
  block,
];

it('knows the owner of every block that somebody has, whenever tables are changed', () => {
  const chain = fc.record({
    from: fc.nat(9000),
    blocks: fc.integer({ min: 1, max: 900 }),
    owner: fc.nat(5),
    forgets: fc.option(fc.nat(5), { nil: null, freq: 3 }),
  });
  fc.assert(
    fc.property(fc.array(chain, { minLength: 10, maxLength: 60 }), (chains) => {
      const owners = new BlockOwners(2 ** 16);
      const most = owners.mostBlocks;
      const born = new Array<number>(6).fill(0);
      const naive = new Map<number, { owner: number; stamp: number; shared: boolean }>();
      const isLive = (owner: number, stamp: number): boolean => stamp >= born[owner]!;
      const forget = (owner: number, stamp: number): void => {
        born[owner] = stamp;
        for (const [block, one] of naive) if (one.owner === owner) naive.delete(block);
      };
      for (const [index, { blocks, forgets, from, owner }] of chains.entries()) {
        const stamp = index + 1;
        if (forgets !== null) forget(forgets, stamp);
        let calls = 0;
        owners.move(MOVED_PER_BLOCK * blocks, (one, at) => {
          calls += 1;
          return isLive(one, at);
        });
        expect(calls).toBeLessThanOrEqual(MOVED_PER_BLOCK * blocks);
        if (owners.lacks(blocks)) {
          for (let one = 0; naive.size + blocks > most; one += 1) forget(one, stamp);
          owners.rebuild(
            () => {
              throw new Error('the table before was not done');
            },
            naive.size,
            blocks,
          );
        }
        for (let block = from; block < from + blocks; block += 1) {
          const place = owners.find(...hashOf(block));
          const known = naive.get(block);
          if (place < 0) owners.insert(...hashOf(block), owner, stamp);
          else owners.set(place, owner, known !== undefined && known.owner !== owner, stamp);
          naive.set(block, { owner, stamp, shared: known !== undefined && known.owner !== owner });
        }
        for (let block = 0; block < 9900; block += 1) {
          const place = owners.find(...hashOf(block));
          const isThere = place >= 0 && isLive(owners.ownerAt(place), owners.stampAt(place));
          const known = naive.get(block);
          if (!isThere && known === undefined) continue;
          const found = [owners.ownerAt(place), owners.stampAt(place), owners.isSharedAt(place)];
          if (
            !isThere ||
            known === undefined ||
            found.join() !== [known.owner, known.stamp, known.shared].join()
          )
            expect({ block, place, found }).toEqual(known);
        }
        expect(owners.bytes).toBeLessThanOrEqual(2 ** 17);
      }
    }),
    { numRuns: 25 },
  );
});

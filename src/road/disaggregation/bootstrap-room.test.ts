import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { drawRoom, MAX_ROOM, roomOfRank } from './bootstrap-room.ts';

const drawn = fc.oneof(
  fc.bigInt({ min: 0n, max: MAX_ROOM }),
  fc.constantFrom(0n, 1n, MAX_ROOM - 1n, MAX_ROOM),
);
const size = fc.oneof(fc.integer({ min: 1, max: 4096 }), fc.constantFrom(1, 2, 3, 2 ** 31 - 1));

describe('the room of a rank', () => {
  it('leads to it by the remainder, and fits into 63 bits, for all sizes and ranks', () => {
    fc.assert(
      fc.property(
        size.chain((ranks) => fc.tuple(fc.constant(ranks), fc.integer({ min: 0, max: ranks - 1 }))),
        drawn,
        ([ranks, rank], r) => {
          const room = roomOfRank(r, rank, ranks);
          expect(room % BigInt(ranks)).toBe(BigInt(rank));
          expect(room >= 0n && room <= MAX_ROOM).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('is the number drawn where the number of ranks is not known', () => {
    fc.assert(fc.property(drawn, (r) => void expect(roomOfRank(r, 3, 0)).toBe(r)));
  });

  it('reaches the last room that there is, and none beyond', () => {
    // ⌊(2^63 − 1 − 1) / 2⌋ = 2^62 − 1, the largest quotient.
    expect(roomOfRank((1n << 62n) - 1n, 1, 2)).toBe(MAX_ROOM);
    expect(roomOfRank(1n << 62n, 1, 2)).toBe(1n);
    expect(roomOfRank(MAX_ROOM, 0, 1)).toBe(MAX_ROOM);
  });

  it('is drawn from all 63 bits, evenly', () => {
    const rng = seededRng(7);
    const ones = new Array<number>(63).fill(0);
    for (let draw = 0; draw < 4000; draw += 1) {
      const room = drawRoom(rng);
      expect(room >= 0n && room <= MAX_ROOM).toBe(true);
      for (let bit = 0; bit < 63; bit += 1) ones[bit]! += Number((room >> BigInt(bit)) & 1n);
    }
    // 2,000 each, with a standard deviation of 32.
    for (const count of ones) expect(Math.abs(count - 2000)).toBeLessThan(180);
  });
});

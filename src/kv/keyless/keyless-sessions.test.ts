import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createBlockHasher } from '../hashing/block-hasher.ts';
import { KEYLESS_PREFIX, KeylessSessions } from './keyless-sessions.ts';
import { NaiveKeyless } from './naive-keyless.fixtures.ts';

const hasher = createBlockHasher();
const SEED = { lo: 0, hi: 0 };
const MINUTE = 60_000;

/** Sequence hashes of blocks with these contents. */
function chain(...contents: readonly number[]): Uint32Array {
  return hasher.hashPrompt(Uint32Array.from(contents), 1, SEED).sequence;
}

function range(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => from + at);
}

function sessions(over: Partial<ConstructorParameters<typeof KeylessSessions>[0]> = {}) {
  return new KeylessSessions({ maxBytes: 2 ** 20, maxConversations: 64, ttlMs: MINUTE, ...over });
}

describe('a conversation without an id', () => {
  it('is known again by its next turn, and by the same prompt', () => {
    const known = sessions();
    const first = known.nameOf('m', chain(1, 2, 3), 0);
    expect(first).toBe(`${KEYLESS_PREFIX}0`);
    expect(known.nameOf('m', chain(1, 2, 3), 0)).toBe(first);
    expect(known.nameOf('m', chain(1, 2, 3, 4, 5), 0)).toBe(first);
    expect(known.nameOf('m', chain(1, 2, 3, 4, 5, 6), 0)).toBe(first);
    expect(known.nameOf('m', chain(9, 2, 3, 4, 5, 6), 0)).toBe(`${KEYLESS_PREFIX}1`);
    expect(known.count).toBe(2);
  });

  it('may write the end of its last turn anew, a block of it or a sixty-fourth', () => {
    for (const [length, rewritten] of [
      [10, 1],
      [127, 1],
      [128, 2],
      [640, 10],
    ] as const) {
      const known = sessions();
      const first = known.nameOf('m', chain(...range(0, length)), 0);
      const turn = (less: number) => chain(...range(0, length - less), ...range(10_000 + less, less + 5));
      expect(known.nameOf('m', turn(rewritten + 1), 0)).not.toBe(first);
      expect(known.nameOf('m', chain(...range(0, length)), 0)).toBe(first);
      expect(known.nameOf('m', turn(rewritten), 0)).toBe(first);
    }
  });

  it('is not taken for another that begins alike, once that beginning is known as common', () => {
    const known = sessions();
    const common = range(0, 50);
    const one = known.nameOf('m', chain(...common, 100, 101, 102), 0);
    const two = known.nameOf('m', chain(...common, 200, 201), 0);
    expect(two).not.toBe(one);
    // Nothing of its own yet.
    expect(known.nameOf('m', chain(...common), 0)).toBeNull();
    expect(known.nameOf('m', chain(...common.slice(0, 20)), 0)).toBeNull();
    const three = known.nameOf('m', chain(...common, 300), 0);
    expect([one, two]).not.toContain(three);
    expect(known.nameOf('m', chain(...common, 100, 101, 102, 103), 0)).toBe(one);
    expect(known.nameOf('m', chain(...common, 200, 201, 202), 0)).toBe(two);
    expect(known.nameOf('m', chain(...common, 300, 301), 0)).toBe(three);
  });

  it('begins anew where it was compacted, and where another branch of it goes on from further back', () => {
    const known = sessions();
    const first = known.nameOf('m', chain(...range(0, 20)), 0);
    const branch = known.nameOf('m', chain(...range(0, 10), ...range(500, 10)), 0);
    expect(branch).not.toBe(first);
    expect(known.nameOf('m', chain(...range(0, 25)), 0)).toBe(first);
    expect(known.nameOf('m', chain(...range(0, 10), ...range(500, 12)), 0)).toBe(branch);
  });

  it('is none of another scope, and without a whole block it is none at all', () => {
    const known = sessions();
    const ids = ['a', 'b', 'ab', 'ba', ''].map((scope) => known.nameOf(scope, chain(1, 2, 3), 0));
    expect(new Set(ids).size).toBe(5);
    expect(known.nameOf('b', chain(1, 2, 3, 4), 0)).toBe(ids[1]);
    expect(known.nameOf('a', new Uint32Array(0), 0)).toBeNull();
  });

  it('is forgotten when nothing came of it for the time to live, and not before', () => {
    const known = sessions();
    const first = known.nameOf('m', chain(1, 2), 0);
    expect(known.nameOf('m', chain(1, 2, 3), MINUTE - 1)).toBe(first);
    expect(known.nameOf('m', chain(1, 2, 3, 4), 2 * MINUTE - 2)).toBe(first);
    expect(known.nameOf('m', chain(1, 2, 3, 4, 5), 3 * MINUTE - 2)).not.toBe(first);
    expect(known.count).toBe(1);
  });

  it('makes room for others when it is unused for longest', () => {
    const known = sessions({ maxConversations: 2 });
    const [one, two] = [known.nameOf('m', chain(1, 1), 0), known.nameOf('m', chain(2, 2), 0)];
    expect(known.nameOf('m', chain(1, 1, 1), 0)).toBe(one);
    known.nameOf('m', chain(3, 3), 0);
    expect(known.count).toBe(2);
    expect(known.nameOf('m', chain(1, 1, 1, 1), 0)).toBe(one);
    expect(known.nameOf('m', chain(2, 2, 2), 0)).not.toBe(two);
  });

  it('stays within the bytes of the table, whatever comes, and the latest are known', () => {
    const maxBytes = 2 ** 16;
    const known = sessions({ maxBytes, ttlMs: Number.POSITIVE_INFINITY });
    // 1,024 blocks fit: 32 KiB of 16 bytes each, half of them used at most.
    expect(known.nameOf('m', chain(...range(0, 1025)), 0)).toBeNull();
    let id = known.nameOf('m', chain(...range(0, 1000)), 0);
    // Longer and longer, until its own earlier chains have to go.
    for (let length = 1001; length <= 1024; length += 1) {
      expect(known.nameOf('m', chain(...range(0, length)), 0)).toBe(id);
    }
    for (let at = 1; at < 200; at += 1) {
      id = known.nameOf('m', chain(...range(at * 5000, 300)), at);
      expect(known.nameOf('m', chain(...range(at * 5000, 310)), at)).toBe(id);
      expect(known.bytes).toBeLessThanOrEqual(maxBytes);
      expect(known.count).toBeLessThanOrEqual(4);
    }
  });
});

it('agrees with a naive model on any mixture of conversations', () => {
  const turn = fc.record({
    scope: fc.constantFrom('a', 'b'),
    common: fc.nat(6),
    conversation: fc.nat(3),
    own: fc.nat(8),
    tail: fc.constantFrom(0, 0, 0, 1, 2),
    after: fc.constantFrom(0, 0, 10, 40),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 60 }), fc.integer({ min: 1, max: 6 }), (turns, most) => {
      const known = new KeylessSessions({ maxBytes: 2 ** 20, maxConversations: most, ttlMs: 100 });
      const naive = new NaiveKeyless(most, 100);
      let now = 0;
      for (const { scope, common, conversation, own, tail, after } of turns) {
        now += after;
        const contents = [
          ...range(0, common),
          ...range(100 * (conversation + 1), own),
          ...range(1000 * tail + own, tail),
        ];
        const expected = naive.nameOf(scope, contents, now);
        expect(known.nameOf(scope, chain(...contents), now)).toBe(expected);
      }
    }),
    { numRuns: 500 },
  );
});

it('agrees with a naive model over long chains and many turns', () => {
  const turn = fc.record({
    conversation: fc.nat(5),
    grow: fc.nat(40),
    cut: fc.constantFrom(0, 0, 0, 1, 2, 3, 30),
  });
  fc.assert(
    fc.property(fc.array(turn, { minLength: 30, maxLength: 60 }), (turns) => {
      const known = sessions({ ttlMs: Number.POSITIVE_INFINITY });
      const naive = new NaiveKeyless(64, Number.POSITIVE_INFINITY);
      const chains = new Map<number, number[]>();
      let next = 1000;
      for (const { conversation, grow, cut } of turns) {
        const before = chains.get(conversation) ?? range(0, 70);
        next += 100;
        const contents = [...before.slice(0, before.length - cut), ...range(next, grow)];
        chains.set(conversation, contents);
        expect(known.nameOf('m', chain(...contents), 0)).toBe(naive.nameOf('m', contents, 0));
      }
    }),
    { numRuns: 30 },
  );
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LOOK_TOKENS, WORKING_SET_MS, WorkingSets } from './working-sets.ts';

const BLOCK = 512;
const POOL = 100_000;
const STEP = LOOK_TOKENS / BLOCK;

/** Sequence hashes of a prompt of `blocks` blocks whose first `shared` it shares with all others. */
function prompt(nth: number, blocks: number, shared = 0): Uint32Array {
  const hashes = new Uint32Array(2 * blocks);
  for (let block = 0; block < blocks; block += 1) {
    hashes[2 * block] = Math.imul(block + 1, 0x9e3779b1);
    hashes[2 * block + 1] = block < shared ? 7 : 100 + nth;
  }
  return hashes;
}

function tokensOf(sets: WorkingSets, slots: readonly number[], now: number): readonly number[] {
  return slots.map((slot) => sets.tokens(slot, now));
}

function pressuresOf(sets: WorkingSets, slots: readonly number[], now: number): readonly number[] {
  const column = new Float64Array(slots.length);
  sets.fill(column, Int32Array.from(slots), slots.length, now);
  return [...column];
}

const rounded = (...given: Parameters<typeof tokensOf>): readonly number[] =>
  tokensOf(...given).map(Math.round);

/** The same from a list of all that was used. */
function plainTokens(
  used: readonly { slot: number; hashes: Uint32Array; at: number }[],
  slot: number,
  now: number,
): number {
  const last = new Map<string, number>();
  for (const one of used) {
    if (one.slot !== slot) continue;
    for (let block = STEP - 1; block < one.hashes.length / 2; block += STEP)
      last.set(`${one.hashes[2 * block]} ${one.hashes[2 * block + 1]}`, one.at);
  }
  let tokens = 0;
  for (const at of last.values()) tokens += LOOK_TOKENS * Math.exp((at - now) / WORKING_SET_MS);
  return tokens;
}

describe('working sets', () => {
  it('count what prompts share once, what was used long ago less, and the rest of a prompt not at all', () => {
    const sets = new WorkingSets(() => POOL);
    sets.use(0, prompt(1, 4 * STEP + STEP - 1), BLOCK, 1_000);
    expect(rounded(sets, [0, 1], 1_000)).toEqual([4 * LOOK_TOKENS, 0]);
    sets.use(0, prompt(2, 4 * STEP, 2 * STEP), BLOCK, 1_000);
    expect(rounded(sets, [0], 1_000)).toEqual([8 * LOOK_TOKENS]);
    sets.use(0, prompt(3, 4 * STEP, 2 * STEP), BLOCK, 1_000);
    expect(rounded(sets, [0], 1_000)).toEqual([10 * LOOK_TOKENS]);
    const [later] = tokensOf(sets, [0], 1_000 + WORKING_SET_MS);
    expect(later).toBeCloseTo((10 * LOOK_TOKENS) / Math.E, 6);
  });

  it('are those of a plain list, whatever is used where and when', () => {
    const use = fc.record({
      slot: fc.nat(2),
      nth: fc.nat(4),
      blocks: fc.nat(20),
      shared: fc.nat(20),
      after: fc.oneof(fc.nat(1_000), fc.nat(WORKING_SET_MS)),
    });
    fc.assert(
      fc.property(fc.array(use, { maxLength: 60 }), (uses) => {
        const sets = new WorkingSets(() => POOL);
        const used: { slot: number; hashes: Uint32Array; at: number }[] = [];
        // The sums are rebased on the way.
        let now = 63 * WORKING_SET_MS;
        sets.use(0, prompt(99, STEP), BLOCK, 1);
        for (const { after, blocks, nth, shared, slot } of uses) {
          now += after;
          const hashes = prompt(nth, blocks, shared);
          used.push({ slot, hashes, at: now });
          sets.use(slot, hashes, BLOCK, now);
          const pressures = pressuresOf(sets, [0, 1, 2], now);
          for (const [at, tokens] of tokensOf(sets, [0, 1, 2], now).entries()) {
            const plain = plainTokens(used, at, now);
            const due = tokens === 0 ? 0 : Math.exp(-POOL / tokens);
            expect(pressures[at]).toBeGreaterThanOrEqual(due * (1 - 1e-9));
            expect(pressures[at]).toBeLessThanOrEqual(
              due * Math.exp(POOL / Math.max(1, tokens) / 299) + 1e-9,
            );
            expect(tokens).toBeLessThanOrEqual(plain + 1e-6);
            // What was unused for three times as long may be forgotten.
            const late = used.filter((one) => now - one.at < 3 * WORKING_SET_MS);
            expect(tokens).toBeGreaterThanOrEqual(plainTokens(late, at, now) - 1e-6);
          }
        }
      }),
    );
  });

  it('press on pools by e^(−pool / working set), more with every use, less with time', () => {
    let pool: number | null = 8 * LOOK_TOKENS;
    const sets = new WorkingSets((slot, blockSize) => (slot === 7 || blockSize !== BLOCK ? null : pool));
    sets.use(0, prompt(1, 8 * STEP), BLOCK, 0);
    sets.use(7, prompt(1, 8 * STEP), BLOCK, 0);
    expect(pressuresOf(sets, [0, 1, 7, 99], 0)).toEqual([Math.exp(-1), 0, 0, 0]);
    sets.use(0, prompt(2, 8 * STEP), BLOCK, 0);
    expect(pressuresOf(sets, [0], 0)).toEqual([Math.exp(-0.5)]);
    // As it was up to a second ago, unless the slot is used.
    expect(pressuresOf(sets, [0], 999)).toEqual([Math.exp(-0.5)]);
    const [later = 1] = pressuresOf(sets, [0], WORKING_SET_MS);
    expect(later).toBeCloseTo(Math.exp(-0.5 * Math.E), 9);
    sets.use(0, prompt(3, STEP), BLOCK, WORKING_SET_MS);
    expect(pressuresOf(sets, [0], WORKING_SET_MS)[0]).toBeGreaterThan(later);
    // A smaller pool, and one that nobody knows any more, without a use.
    pool = LOOK_TOKENS;
    expect(pressuresOf(sets, [0], WORKING_SET_MS + 1_000)[0]).toBeGreaterThan(0.8);
    pool = null;
    expect(pressuresOf(sets, [0], WORKING_SET_MS + 2_000)).toEqual([0]);
  });

  it('press on nothing in a slot that is forgotten, also where its set is gone already', () => {
    const sets = new WorkingSets(() => LOOK_TOKENS, 16);
    sets.use(0, prompt(1, 8 * STEP), BLOCK, 0);
    expect(pressuresOf(sets, [0], 0)[0]).toBeGreaterThan(0.8);
    for (let nth = 0; nth < 40; nth += 1) sets.use(1, prompt(nth, STEP), BLOCK, 0);
    expect(tokensOf(sets, [0], 0)).toEqual([0]);
    sets.forget(0);
    expect(pressuresOf(sets, [0], 0)).toEqual([0]);
  });

  it('press on pools again once a clock that was far ahead is set back', () => {
    const sets = new WorkingSets(() => LOOK_TOKENS);
    sets.use(0, prompt(1, 8 * STEP), BLOCK, 5_000);
    expect(pressuresOf(sets, [0], 1e9)[0]).toBeLessThan(1e-9);
    expect(pressuresOf(sets, [0], 5_000)).toEqual([Math.exp(-1 / 8)]);
    expect(pressuresOf(sets, [0], 6_000)[0]).toBeLessThan(Math.exp(-1 / 8));
  });

  it('stay within their bound, for all slots alike, and are nothing once a slot is forgotten', () => {
    const sets = new WorkingSets(() => POOL, 32);
    for (let nth = 0; nth < 200; nth += 1) {
      sets.use(nth % 2, prompt(nth, 3 * STEP), BLOCK, nth);
      // A generation may end with a prompt.
      expect(sets.looks).toBeLessThanOrEqual(2 * (32 + 2));
    }
    // Slots that are idle since take no room from others.
    for (let nth = 0; nth < 40; nth += 1) sets.use(2, prompt(nth, 3 * STEP), BLOCK, 200);
    expect(rounded(sets, [0, 1, 2], 200)).toEqual([
      0,
      0,
      expect.toSatisfy((tokens) => tokens >= 32 * LOOK_TOKENS),
    ]);
    for (const slot of [0, 1, 2, 77]) sets.forget(slot);
    expect(sets.looks).toBe(0);
    expect(tokensOf(sets, [0, 1, 2], 200)).toEqual([0, 0, 0]);
  });

  it('forget what nobody used for three times as long, and no more', () => {
    const sets = new WorkingSets(() => POOL);
    sets.use(0, prompt(1, STEP), BLOCK, 0);
    sets.use(1, prompt(2, STEP), BLOCK, 3 * WORKING_SET_MS - 1);
    sets.use(1, prompt(3, STEP), BLOCK, 3 * WORKING_SET_MS);
    expect(sets.looks).toBe(3);
    const [kept] = tokensOf(sets, [0], 3 * WORKING_SET_MS);
    expect(kept).toBeCloseTo(LOOK_TOKENS * Math.exp(-3), 6);
    sets.use(1, prompt(3, STEP), BLOCK, 6 * WORKING_SET_MS);
    expect(sets.looks).toBe(1);
    expect(tokensOf(sets, [0], 6 * WORKING_SET_MS)).toEqual([0]);
  });

  it('are finite after months, when clocks are set back, and with blocks of any size', () => {
    const sets = new WorkingSets(() => POOL);
    const month = 30 * 86_400_000;
    for (const now of [0, month, 2 * month, month, month + 1, 3 * month]) {
      sets.use(0, prompt(1, 64), BLOCK, now);
      const [tokens = Number.NaN] = tokensOf(sets, [0], now);
      expect(tokens).toBeGreaterThanOrEqual(0);
      expect(tokens).toBeLessThanOrEqual(64 * BLOCK * 1.000001);
    }
    sets.use(0, prompt(1, 64), 2 * BLOCK, 3 * month);
    expect(rounded(sets, [0], 3 * month)).toEqual([64 * 2 * BLOCK]);
    sets.use(0, prompt(1, 3), 10_000, 3 * month);
    expect(rounded(sets, [0], 3 * month)).toEqual([30_000]);
    sets.use(0, prompt(1, 4_096), 1, 3 * month);
    expect(rounded(sets, [0], 3 * month)).toEqual([4_096]);
  });
});

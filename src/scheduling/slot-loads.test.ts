import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlotLoads } from './slot-loads.ts';

const SLOTS = 4;

function pairsOf(blocks: readonly number[]): Uint32Array {
  const pairs = new Uint32Array(blocks.length * 2);
  let hash = 7;
  blocks.forEach((block, index) => {
    hash = (Math.imul(hash, 0x9e3779b1) + block + 1) >>> 0;
    pairs[2 * index] = hash;
    pairs[2 * index + 1] = index;
  });
  return pairs;
}

interface ModelBooking {
  readonly slot: number;
  readonly prompt: Uint32Array | null;
  readonly blocks: number;
  prefill: number;
  outputs: number;
}

/** Loads rebuilt from nothing but the bookings that are active. */
function rebuilt(bookings: Iterable<ModelBooking>) {
  const prefill = new Array<number>(SLOTS).fill(0);
  const requests = new Array<number>(SLOTS).fill(0);
  const own = new Array<number>(SLOTS).fill(0);
  const shared = Array.from({ length: SLOTS }, () => new Set<string>());
  for (const booking of bookings) {
    const { slot, prompt } = booking;
    prefill[slot] = (prefill[slot] ?? 0) + booking.prefill;
    requests[slot] = (requests[slot] ?? 0) + 1;
    own[slot] = (own[slot] ?? 0) + booking.outputs + (prompt === null ? booking.blocks : 0);
    if (prompt !== null) {
      for (let at = 0; at < booking.blocks; at += 1)
        shared[slot]?.add(`${prompt[2 * at]}/${prompt[2 * at + 1]}`);
    }
  }
  return { prefill, requests, decode: own.map((blocks, slot) => blocks + (shared[slot]?.size ?? 0)) };
}

const operationArbitrary = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('book' as const),
      slot: fc.nat(SLOTS - 1),
      prompt: fc.option(fc.array(fc.nat(1), { maxLength: 8 }).map(pairsOf)),
      prefill: fc.nat(500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('prefill' as const), which: fc.nat(40) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('output' as const),
      which: fc.nat(40),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('free' as const), which: fc.nat(40) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('removeWorker' as const), slot: fc.nat(SLOTS - 1) }),
  },
);

describe('loads of bookings', () => {
  it('equal a rebuild from the active bookings after any operations, and are exactly zero at the end', () => {
    fc.assert(
      fc.property(fc.array(operationArbitrary, { maxLength: 120 }), (operations) => {
        const loads = new SlotLoads();
        const model = new Map<number, ModelBooking>();
        const everBooked: number[] = [];
        for (const operation of operations) {
          if (operation.kind === 'book') {
            const { slot, prompt, prefill } = operation;
            const blocks = prompt === null ? 3 : prompt.length / 2;
            const attempt = loads.book(slot, prompt, blocks, prefill);
            expect(everBooked).not.toContain(attempt);
            everBooked.push(attempt);
            model.set(attempt, { slot, prompt, blocks, prefill, outputs: 0 });
          } else if (operation.kind === 'removeWorker') {
            let count = 0;
            for (const [attempt, booking] of [...model]) {
              if (booking.slot !== operation.slot) continue;
              model.delete(attempt);
              count += 1;
            }
            expect(loads.freeSlot(operation.slot)).toBe(count);
          } else {
            // Over all attempts ever made, so that stale ones are tried too.
            const attempt = everBooked[operation.which % Math.max(1, everBooked.length)] ?? 999;
            const booking = model.get(attempt);
            if (operation.kind === 'prefill') {
              expect(loads.prefillCompleted(attempt)).toBe(booking !== undefined);
              if (booking) booking.prefill = 0;
            } else if (operation.kind === 'output') {
              expect(loads.addOutputBlocks(attempt, operation.count)).toBe(booking !== undefined);
              if (booking) booking.outputs += operation.count;
            } else {
              expect(loads.free(attempt)).toBe(booking !== undefined);
              model.delete(attempt);
            }
          }
          const expected = rebuilt(model.values());
          expect([...loads.activePrefillTokens.subarray(0, SLOTS)]).toEqual(expected.prefill);
          expect([...loads.activeDecodeBlocks.subarray(0, SLOTS)]).toEqual(expected.decode);
          expect([...loads.activeRequests.subarray(0, SLOTS)]).toEqual(expected.requests);
          expect(loads.activeBookings).toBe(model.size);
        }
        for (const attempt of everBooked) loads.free(attempt);
        expect(loads.activeBookings).toBe(0);
        expect(loads.prefixRuns).toBe(0);
        for (const column of [loads.activePrefillTokens, loads.activeDecodeBlocks, loads.activeRequests]) {
          expect(column.every((value) => value === 0)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('projects only the blocks that active requests of the slot do not hold', () => {
    const loads = new SlotLoads();
    const prompt = pairsOf([1, 2, 3, 4]);
    loads.book(2, pairsOf([1, 2, 9]), 3, 10);
    loads.measure(prompt);
    expect([0, 1, 2, 3].map((slot) => loads.additionalBlocks(slot, 4))).toEqual([4, 4, 2, 4]);
    loads.measure(null);
    expect(loads.additionalBlocks(2, 4)).toBe(4);
  });

  it('changes nothing for an attempt that it does not know', () => {
    const loads = new SlotLoads();
    const attempt = loads.book(0, null, 5, 80);
    expect([loads.free(attempt + 1), loads.prefillCompleted(0), loads.addOutputBlocks(-1, 1)]).toEqual([
      false,
      false,
      false,
    ]);
    expect(loads.activeDecodeBlocks[0]).toBe(5);
    expect([loads.free(attempt), loads.free(attempt)]).toEqual([true, false]);
    expect(loads.activeDecodeBlocks[0]).toBe(0);
  });

  it('keeps its columns when slots beyond their length are booked', () => {
    const loads = new SlotLoads();
    loads.book(1, null, 2, 7);
    loads.book(300, null, 3, 9);
    expect([loads.activePrefillTokens[1], loads.activePrefillTokens[300]]).toEqual([7, 9]);
  });
});

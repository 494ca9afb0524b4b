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
  /** Of the last block of output, in eighths; null = none was given. */
  eighths: number | null;
  /** Sum over blocks that are the booking's alone. */
  own: number;
}

/** Weight of each block that active requests hold together, by slot; the rest of the model is rebuilt. */
type SharedWeights = readonly Map<string, number>[];

const hashesOf = ({ prompt, blocks }: Pick<ModelBooking, 'prompt' | 'blocks'>): string[] =>
  prompt === null ? [] : Array.from({ length: blocks }, (_, at) => `${prompt[2 * at]}/${prompt[2 * at + 1]}`);

/** Loads rebuilt from nothing but the bookings that are active. */
function rebuilt(bookings: Iterable<ModelBooking>, weights: SharedWeights) {
  const prefill = new Array<number>(SLOTS).fill(0);
  const requests = new Array<number>(SLOTS).fill(0);
  const own = new Array<number>(SLOTS).fill(0);
  const shared = Array.from({ length: SLOTS }, () => new Set<string>());
  for (const booking of bookings) {
    const { slot } = booking;
    prefill[slot] = (prefill[slot] ?? 0) + booking.prefill;
    requests[slot] = (requests[slot] ?? 0) + 1;
    own[slot] = (own[slot] ?? 0) + booking.own;
    for (const hash of hashesOf(booking)) shared[slot]?.add(hash);
  }
  const decode = own.map((blocks, slot) =>
    Math.round(
      [...(shared[slot] ?? [])].reduce((sum, hash) => sum + (weights[slot]?.get(hash) ?? 1), blocks),
    ),
  );
  return { prefill, requests, decode };
}

/** Sets the weight of the last blocks of a prompt that no other booking of its slot holds. */
function weighTail(booking: ModelBooking, bookings: Iterable<ModelBooking>, weights: SharedWeights): void {
  const others = [...bookings].filter((other) => other !== booking && other.slot === booking.slot);
  const held = new Set(others.flatMap(hashesOf));
  for (const hash of hashesOf(booking)) {
    if (!held.has(hash)) weights[booking.slot]?.set(hash, (booking.eighths ?? 8) / 8);
  }
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
      eighths: fc.option(fc.nat(8)),
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
        const weights = Array.from({ length: SLOTS }, () => new Map<string, number>());
        const everBooked: number[] = [];
        for (const operation of operations) {
          if (operation.kind === 'book') {
            const { slot, prompt, prefill } = operation;
            const blocks = prompt === null ? 3 : prompt.length / 2;
            const attempt = loads.book(slot, prompt, blocks, prefill);
            expect(everBooked).not.toContain(attempt);
            everBooked.push(attempt);
            const own = prompt === null ? blocks : 0;
            model.set(attempt, { slot, prompt, blocks, prefill, outputs: own, eighths: null, own });
            // Whoever comes makes what it shares weigh 1 again.
            for (const hash of hashesOf({ prompt, blocks })) weights[slot]?.delete(hash);
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
              const { eighths } = operation;
              const weight = eighths === null ? null : eighths / 8;
              expect(loads.addOutputBlock(attempt, weight)).toBe(booking !== undefined);
              if (booking === undefined) continue;
              booking.outputs += 1;
              booking.own = weight === null ? booking.own + 1 : booking.outputs * weight;
              booking.eighths = eighths ?? booking.eighths;
              if (weight !== null) weighTail(booking, model.values(), weights);
            } else {
              expect(loads.free(attempt)).toBe(booking !== undefined);
              model.delete(attempt);
            }
          }
          const expected = rebuilt(model.values(), weights);
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

  it('names the bookings that did not get on since it was asked last, after any operations', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constantFrom('first token', 'output', 'renew', 'free'), which: fc.nat(30) }),
      fc.record({ kind: fc.constantFrom('book', 'ask'), which: fc.nat(30) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.func(fc.boolean()), (steps, gotOnAt) => {
        const loads = new SlotLoads();
        /** By attempt, whether it got on since the last question. */
        const gotOn = new Map<number, boolean>();
        steps.forEach(({ kind, which }, at) => {
          const attempt = [...gotOn.keys()][which % Math.max(1, gotOn.size)] ?? -1;
          if (kind === 'book') gotOn.set(loads.book(which % SLOTS, null, 1, 5), true);
          else if (kind === 'ask') {
            const asked: number[] = [];
            const told = loads.idleBookings((one) => {
              asked.push(one);
              return gotOnAt(one, at);
            });
            expect(asked).toEqual([...gotOn.keys()]);
            expect(told).toEqual(asked.filter((one) => !gotOn.get(one) && !gotOnAt(one, at)));
            for (const one of asked) gotOn.set(one, false);
          } else if (kind === 'free') expect(loads.free(attempt)).toBe(gotOn.delete(attempt));
          else {
            if (kind === 'first token') loads.prefillCompleted(attempt);
            else if (kind === 'output') loads.addOutputBlock(attempt, null);
            else expect(loads.renew(attempt)).toBe(gotOn.has(attempt));
            if (gotOn.has(attempt)) gotOn.set(attempt, true);
          }
        });
      }),
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
    expect([loads.free(attempt + 1), loads.prefillCompleted(0), loads.addOutputBlock(-1, null)]).toEqual([
      false,
      false,
      false,
    ]);
    expect(loads.activeDecodeBlocks[0]).toBe(5);
    expect([loads.free(attempt), loads.free(attempt)]).toEqual([true, false]);
    expect(loads.activeDecodeBlocks[0]).toBe(0);
  });

  it('weighs output and the unshared end of a prompt by what is left, and shared blocks 1', () => {
    const loads = new SlotLoads();
    const system = pairsOf([1, 2]);
    const attempt = loads.book(0, pairsOf([1, 2, 3, 4, 5, 6]), 6, 96);
    loads.book(0, system, 2, 0);
    const decode = (): number | undefined => loads.activeDecodeBlocks[0];
    expect(decode()).toBe(6);
    loads.addOutputBlock(attempt, 0.75);
    // 2 shared + (4 of the prompt + 1 of output) × 0.75
    expect(decode()).toBe(6);
    loads.addOutputBlock(attempt, 0.5);
    expect(decode()).toBe(5);
    loads.addOutputBlock(attempt, 0);
    expect(decode()).toBe(2);
    loads.free(attempt);
    expect(decode()).toBe(2);
  });

  it.each([
    [0.1, 5, 1],
    [0.3, 5, 2],
    [0.7, 5, 4],
    [0.9, 5, 5],
    [1 / 3, 3, 1],
    [0.09, 5, 0],
  ])(
    'rounds halves up, also those of weights that are no binary fractions: %d × %d blocks are %d',
    (weight, blocks, rounded) => {
      const loads = new SlotLoads();
      const attempt = loads.book(0, null, 0, 0);
      for (let block = 0; block < blocks; block += 1) loads.addOutputBlock(attempt, weight);
      expect(loads.activeDecodeBlocks[0]).toBe(rounded);
      loads.free(attempt);
      expect(loads.activeDecodeBlocks[0]).toBe(0);
      loads.book(0, null, 1, 0);
      expect(loads.activeDecodeBlocks[0]).toBe(1);
    },
  );

  it('keeps its columns when slots beyond their length are booked', () => {
    const loads = new SlotLoads();
    loads.book(1, null, 2, 7);
    loads.book(300, null, 3, 9);
    expect([loads.activePrefillTokens[1], loads.activePrefillTokens[300]]).toEqual([7, 9]);
  });
});

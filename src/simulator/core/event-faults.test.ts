import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRng } from '../../plugin/index.ts';
import { type EventFaultSettings, EventFaults, NO_EVENT_FAULTS } from './event-faults.ts';

/** Offers 0, 1, 2, … one per ms and takes what is due after each; at the end everything. */
function run(settings: Partial<EventFaultSettings>, messages: number, seed = 1) {
  const faults = new EventFaults<number>({ ...NO_EVENT_FAULTS, ...settings }, seededRng(seed));
  const arrived: { message: number; at: number }[] = [];
  const take = (at: number): void => {
    for (const message of faults.takeDue(at)) arrived.push({ message, at });
  };
  for (let message = 0; message < messages; message += 1) {
    faults.offer(message, message);
    take(message);
  }
  for (let due = faults.nextDue(); due !== null; due = faults.nextDue()) take(due);
  return { arrived, order: arrived.map(({ message }) => message), counts: faults.counts };
}

const ascending = (count: number): number[] => Array.from({ length: count }, (_, message) => message);

describe('event faults', () => {
  it('leave a stream alone when there are none', () => {
    const { arrived } = run({}, 50);
    expect(arrived).toEqual(ascending(50).map((message) => ({ message, at: message })));
  });

  it('drop and double about the asked shares, in order', () => {
    const { order, counts } = run({ drop: 0.3, duplicate: 0.1 }, 10_000);
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(counts.dropped).toBeGreaterThan(2800);
    expect(counts.dropped).toBeLessThan(3200);
    expect(new Set(order).size).toBe(10_000 - counts.dropped);
    expect(order.length - new Set(order).size).toBe(counts.duplicated);
    expect(counts.duplicated).toBeGreaterThan(600);
  });

  it('drop everything at a share of 1', () => {
    expect(run({ drop: 1 }, 100).order).toEqual([]);
  });

  it('delay every message by the same time', () => {
    const { arrived } = run({ delayMs: 200 }, 10);
    expect(arrived.map(({ message, at }) => at - message)).toEqual(Array(10).fill(200));
  });

  it('let at most `window` messages overtake one, and each arrives once', () => {
    const { order, counts } = run({ reorder: 0.2, window: 3 }, 2000);
    expect([...order].sort((a, b) => a - b)).toEqual(ascending(2000));
    expect(counts.reordered).toBeGreaterThan(300);
    expect(order).not.toEqual(ascending(2000));
    const overtaken = order.map(
      (message, place) => order.slice(0, place).filter((other) => other > message).length,
    );
    expect(Math.max(...overtaken)).toBe(3);
  });

  it('let a held message go when nothing follows it', () => {
    const faults = new EventFaults<string>({ ...NO_EVENT_FAULTS, reorder: 1 }, seededRng(1));
    faults.offer('only', 500);
    expect([faults.takeDue(1499), faults.nextDue()]).toEqual([[], 1500]);
    expect(faults.takeDue(1500)).toEqual(['only']);
  });

  it('lose what is held when the publisher dies, and not what is on the way', () => {
    const held = new EventFaults<string>({ ...NO_EVENT_FAULTS, reorder: 1 }, seededRng(1));
    held.offer('held', 0);
    held.restart();
    expect([held.nextDue(), held.counts.dropped]).toEqual([null, 1]);
    const late = new EventFaults<string>({ ...NO_EVENT_FAULTS, delayMs: 10 }, seededRng(1));
    late.offer('late', 0);
    late.restart();
    expect(late.takeDue(10)).toEqual(['late']);
  });

  it('are the same for the same seed, and no message is invented or lost unseen', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const settings = fc.record({
      drop: share,
      duplicate: share,
      reorder: share,
      window: fc.integer({ min: 1, max: 8 }),
      delayMs: fc.nat(50),
    });
    fc.assert(
      fc.property(settings, fc.nat(200), fc.nat(1000), (chosen, messages, seed) => {
        const first = run(chosen, messages, seed);
        expect(run(chosen, messages, seed)).toEqual(first);
        const { dropped, duplicated } = first.counts;
        expect(first.order.length).toBe(messages - dropped + duplicated);
        expect(new Set(first.order).size).toBe(messages - dropped);
        expect(first.order.every((message) => message >= 0 && message < messages)).toBe(true);
        expect(first.arrived.every(({ message, at }) => at >= message + chosen.delayMs)).toBe(true);
      }),
    );
  });
});

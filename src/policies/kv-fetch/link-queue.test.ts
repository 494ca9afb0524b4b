import { describe, expect, it } from 'vitest';
import { LinkQueue } from './link-queue.ts';

const worker = (workerId: number) => ({ workerId: BigInt(workerId), rank: 0 });

describe('the links', () => {
  it('carry one copy after the other in each direction, and both directions at once', () => {
    const links = new LinkQueue();
    links.reserve(worker(1), worker(2), 10, 100);
    expect(links.waitMs(worker(1), worker(3), 5, 104)).toBe(11);
    expect(links.waitMs(worker(3), worker(2), 5, 104)).toBe(11);
    expect(links.waitMs(worker(2), worker(1), 5, 104)).toBe(5);
    expect(links.waitMs(worker(1), worker(2), 5, 200)).toBe(5);
  });

  it('remember so many and no more, those in use the longest', () => {
    const links = new LinkQueue();
    links.reserve(worker(1), worker(2), 1_000_000, 0);
    for (let target = 10; target < 10_000; target += 1)
      links.reserve(worker(5), worker(target), 0.001, 10 * target);
    expect(links.waitMs(worker(1), worker(3), 5, 100_000)).toBe(900_005);
  });
});

import { expect, it } from 'vitest';
import { createReferenceHasher, fromBigUint64Array } from '../kv/index.ts';
import { createMetrics } from '../observe/index.ts';
import { createIndex } from './create-index.ts';

const CAP = 256 * 1024;

/** Names and contents of a chain. */
function hashes(from: number, count: number) {
  return fromBigUint64Array(
    BigUint64Array.from({ length: count }, (_, at) =>
      BigInt.asUintN(64, BigInt(from + at) * 0x9e3779b97f4a7c15n),
    ),
  );
}

it('counts what it evicts, and removes of what it does not hold by whether it was evicted', async () => {
  const metrics = createMetrics();
  const index = createIndex(
    createReferenceHasher(),
    CAP,
    () => undefined,
    metrics,
    () => false,
  );
  const chains = 200;
  for (let chain = 0; chain < chains; chain += 1) {
    const blocks = hashes(1 + chain * 64, 64);
    expect(index.store(0, 'device', null, blocks, blocks)).toBe('stored');
  }
  const { evicted } = index.stats();
  expect(evicted).toBeGreaterThan(0);
  for (let chain = 0; chain < chains; chain += 1) index.remove(0, 'device', hashes(1 + chain * 64, 64));
  index.remove(0, 'device', hashes(1_000_000, 3));
  const text = await metrics.text();
  const counted = (series: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(series))
        ?.split(' ')[1],
    );
  expect(counted('pointsman_kv_index_evicted_total')).toBe(evicted);
  expect(counted('pointsman_kv_index_removes_not_held_total{reason="evicted"}')).toBe(evicted);
  expect(counted('pointsman_kv_index_removes_not_held_total{reason="unknown"}')).toBe(3);
  expect(counted('pointsman_kv_index_blocks')).toBe(0);
});

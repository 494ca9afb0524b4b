import { expect, test } from 'vitest';
import { createReferenceHasher } from '../hashing/reference-hasher.ts';
import { createPrefixIndex } from './extent-index.ts';
import { IndexRoom } from './index-room.ts';

const hasher = createReferenceHasher();

/** n hashes that start at `first`. */
function hashes(first: number, n: number): Uint32Array {
  const list = new Uint32Array(2 * n);
  for (let i = 0; i < n; i++) list[2 * i] = first + i;
  return list;
}

test('bytes are added up seldom while there is much room, and always when there is none', () => {
  const room = new IndexRoom(1_000_000, 20_000_000);
  let looks = 0;
  let names = 0;
  const size = () => ({
    names,
    runs: 1_000_000,
    growth: (more: number) => 100 * more,
    bytes: () => {
      looks++;
      return 100 * names;
    },
  });
  while (!room.lacks(size(), 10)) names += 10;
  expect(names).toBeGreaterThan(199_900);
  expect(names).toBeLessThanOrEqual(200_000);
  expect(looks).toBeLessThan(12_000);
  expect(() => room.refuse(size(), 10)).toThrow('bytes and has no room for 10 more engine hashes');
});

for (const length of [1, 3, 200]) {
  test(`an index of chains of ${length} blocks stays within its bytes, and uses them again after removes`, () => {
    const maxBytes = 6_000_000;
    const index = createPrefixIndex({ hasher, maxBytes });
    let stored = 0;
    const fill = () => {
      try {
        for (;;) {
          index.store(stored % 3, 'device', null, hashes(stored * 300, length), hashes(stored * 300, length));
          stored++;
        }
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: 'PM_KV_INDEX_FULL' });
      }
    };
    fill();
    const { blocks, bytes } = index.stats();
    expect(bytes).toBeLessThanOrEqual(maxBytes * 1.05);
    expect(bytes).toBeGreaterThan(maxBytes * 0.7);
    expect(bytes / blocks).toBeLessThan(512);
    index.clear(0, 'all');
    index.clear(1, 'all');
    const left = index.stats().blocks;
    fill();
    expect(index.stats().blocks).toBeGreaterThan(blocks * 0.8);
    expect(left).toBeLessThan(blocks * 0.4);
    expect(index.stats().bytes).toBeLessThanOrEqual(maxBytes * 1.05);
  });
}

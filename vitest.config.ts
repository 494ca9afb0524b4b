import { configDefaults, defineConfig } from 'vitest/config';

/** Tests that measure the process (its heap, its buffers, its threads), and those that load modules anew. */
const ALONE = [
  'src/events/side-bytes.test.ts',
  'src/host/isolation/*.test.ts',
  'src/host/kept-hashes.test.ts',
  'src/host/selection-allocation.test.ts',
  'src/kv/residency/prefix-index.clears.test.ts',
  'src/plugin/define.test.ts',
  'tests/reload-heap.test.ts',
  'tests/selection-waiting-memory.test.ts',
];

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['src/**/*.test.ts', 'tests/**/*.test.ts', 'examples/*.test.ts'],
          exclude: [...configDefaults.exclude, ...ALONE],
          // Files share a process and what they import, which is half of the work otherwise: a test leaves nothing behind in modules.
          isolate: false,
        },
      },
      { extends: true, test: { name: 'alone', include: ALONE, isolate: true } },
    ],
  },
});

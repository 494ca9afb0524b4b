// Generations that were replaced are let go: each keeps 1 MiB in its module, so that a few dozen that stay would show.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../scripts/reload-heap.mjs', import.meta.url));

it('the heap after 70 reloads is within 32 MiB of that after 10', async () => {
  const args = ['--expose-gc', SCRIPT, '--reloads', '70', '--state-kib', '1024', '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const figures = JSON.parse(stdout) as Record<string, number>;
  expect(figures).toMatchObject({ reloads: 70, generation: 71 });
  expect(figures.growth_kib).toBeLessThan(32 * 1024);
});

// Test files share a process and its modules, so a hook that a helper registers when it is imported runs for the first of them alone.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HOOK = /^(?:await )?(?:before|after)(?:Each|All)\(/m;

const filesOf = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'));

it('only test files register hooks on their own', () => {
  const files = ['src', 'tests', 'examples', 'bench'].flatMap(filesOf);
  const hooked = files.filter((file) => HOOK.test(readFileSync(join(ROOT, file), 'utf8')));
  expect(hooked.filter((file) => !file.endsWith('.test.ts'))).toEqual([]);
  expect(hooked.length).toBeGreaterThan(20);
});

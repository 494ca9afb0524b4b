// The rules that hold the documentation to the code, each on a small tree that breaks it.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { brokenLinks, missingPages, tableProblems } from '../scripts/docs-rules.mjs';

let root = '';
afterEach(() => {
  if (root !== '') rmSync(root, { recursive: true, force: true });
});

function tree(files: Readonly<Record<string, string>>): string {
  root = mkdtempSync(join(tmpdir(), 'pointsman-docs-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return root;
}

test('links to files and headings that exist, to the web, and in code are fine', () => {
  expect(
    brokenLinks(
      tree({
        'README.md':
          '[a](docs/a.md) [h](docs/a.md#two-words-1) [self](#top) [web](https://x.example/a) `[c](nowhere)`\n```\n[d](nowhere)\n```\n# Top',
        'docs/a.md': '## Two `words`\n## Two words\n![img](../docs/)\n[up](../README.md)',
        'node_modules/x/README.md': '[gone](gone.md)',
      }),
    ),
  ).toEqual([]);
});

test('links that lead nowhere are reported with their line', () => {
  expect(brokenLinks(tree({ 'README.md': '# T\n\n[a](gone.md) [b](#missing)\n' }))).toEqual([
    'README.md:3: link to gone.md, which does not exist',
    'README.md:3: link to #missing, a heading that does not exist',
  ]);
});

test('pages that sources name must exist', () => {
  const files = { 'docs/a.md': '# A', 'src/kv/a.ts': '// see docs/a.md\n// and docs/more/b.md\n' };
  expect(missingPages(tree(files))).toEqual(['src/kv/a.ts:2: names docs/more/b.md, which does not exist']);
});

test('rows that only comments, tests and pages name are unused, and names without a row are unknown', () => {
  const files = {
    'src/plugin/codes.ts': 'PM_USED PM_UNUSED PM_COMMENTED',
    'src/kv/a.ts':
      "raise('PM_USED', 'PM_CONFIG_VALUE');\n// about PM_COMMENTED\nraise('PM_NEW');\nif (code.startsWith('PM_CONFIG_') || code.startsWith('PM_CONFIG')) {}\n",
    'src/kv/a.test.ts': "expect('PM_UNUSED').toBe('PM_ANY');",
    'docs/a.md': 'PM_UNUSED and PM_GONE',
  };
  const rule = {
    table: 'src/plugin/codes.ts',
    names: ['PM_CONFIG_VALUE', 'PM_USED', 'PM_UNUSED', 'PM_COMMENTED'],
    pattern: /\bPM_[A-Z][A-Z0-9_]*/g,
    what: 'error code',
  };
  expect(tableProblems(tree(files), rule)).toEqual([
    'src/kv/a.ts:3: error code PM_NEW is not in src/plugin/codes.ts',
    'docs/a.md:1: error code PM_GONE is not in src/plugin/codes.ts',
    'src/plugin/codes.ts: error code PM_UNUSED is used nowhere in src',
    'src/plugin/codes.ts: error code PM_COMMENTED is used nowhere in src',
  ]);
});

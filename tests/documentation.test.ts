// Every YAML block of the documentation is a configuration that parses.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parseConfig } from '../src/config/index.ts';
import { PLUGIN_API_VERSION } from '../src/plugin/index.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
  ...readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('README.md'))
    .map((name) => `src/${name}`),
];
const blocks = pages.flatMap((page) =>
  [...readFileSync(root + page, 'utf8').matchAll(/```ya?ml\n([\s\S]*?)```/g)].map((match) => {
    return { page, text: match[1] ?? '' };
  }),
);

/** Whatever secret a block names is there; the form that fits all is that of a key's hash. */
const SURROUNDINGS = {
  env: new Proxy<Record<string, string>>({}, { get: () => 'a'.repeat(64) }),
  readFile: () => 'a'.repeat(64),
};

test('the contract says that it is experimental while its version begins with 0', () => {
  expect(PLUGIN_API_VERSION).toMatch(/^0\./);
  const said = (path: string) =>
    readFileSync(root + path, 'utf8')
      .replaceAll(/\s+/g, ' ')
      .match(/[^.]*\b(?:experimental while|raises (?:it|its))\b[^.]*\./gi);
  expect(said('src/plugin/define.ts')).toEqual([' Experimental while it is 0.']);
  expect(said('README.md')?.join('')).toContain('a breaking change raises it and stands in the');
  expect(said('docs/plugins.md')?.join('')).toContain('experimental while its version begins with 0');
  expect(said('CHANGELOG.md')?.join('')).toContain('raises its `apiVersion` and is marked here');
});

test('there are blocks to check', () => {
  expect(blocks.length).toBeGreaterThan(1);
});

test.each(blocks)('a YAML block of $page parses', ({ page, text }) => {
  expect(() => parseConfig(text, page, SURROUNDINGS)).not.toThrow();
});

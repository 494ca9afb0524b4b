// docs/configuration.md against the parser: the complete example, and every key of the schema stands on the page.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseConfig } from './load.ts';
import { fileSchema } from './schema.ts';
import { workerSelection } from './schema-selection.ts';

const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');

const SURROUNDINGS = {
  env: { POINTSMAN_ADMIN_TOKEN: 'x', TEAM_A_KEY_SHA256: 'a'.repeat(64) },
  readFile: () => '',
};

test('the complete example warns about nothing', () => {
  const { warnings } = parseConfig(blocks[0] ?? '', 'router.yaml', SURROUNDINGS);
  expect(warnings).toEqual([]);
});

test('every key of the schema stands on the page', () => {
  const keys = new Set<string>();
  collectKeys(fileSchema, keys, new Set());
  collectKeys(workerSelection(), keys, new Set());
  expect(keys.size).toBeGreaterThan(90);
  // The keys of the example do not count: a key must be explained.
  const prose = page.replace(/```[\s\S]*?```/g, '');
  expect([...keys].filter((key) => !new RegExp(`\\b${key}\\b`).test(prose))).toEqual([]);
});

/** Names of all keys below a zod schema, whatever it is wrapped in. */
function collectKeys(node: unknown, keys: Set<string>, seen: Set<unknown>): void {
  if (typeof node !== 'object' || node === null || seen.has(node)) return;
  seen.add(node);
  if ('shape' in node && typeof node.shape === 'object' && node.shape !== null) {
    for (const [key, value] of Object.entries(node.shape)) {
      keys.add(key);
      collectKeys(value, keys, seen);
    }
    return;
  }
  const definition = 'def' in node ? node.def : null;
  if (typeof definition !== 'object' || definition === null) return;
  for (const inner of ['innerType', 'in', 'out', 'element', 'valueType']) {
    collectKeys(Reflect.get(definition, inner), keys, seen);
  }
}

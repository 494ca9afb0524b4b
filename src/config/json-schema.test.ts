// The JSON Schema for editors against the parser: what one takes, the other takes.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { configJsonSchema } from './json-schema.ts';

const schema = configJsonSchema();
const validator = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');

test('every example of the page is valid', () => {
  expect(blocks.length).toBeGreaterThan(2);
  for (const block of blocks) expect(validator.safeParse(parse(block) ?? {}).error).toBeUndefined();
  expect(validator.safeParse({}).success).toBe(true);
});

test('every top-level key may be left out or be null', () => {
  expect(schema.required).toBeUndefined();
  const keys = Object.keys(schema.properties as object);
  expect(keys.length).toBeGreaterThan(20);
  for (const key of keys) expect([key, validator.safeParse({ [key]: null }).success]).toEqual([key, true]);
});

test.each([
  'zzz: 1',
  'router: { mode: kw }',
  'router: { overlap_score_credt: 2 }',
  'router: { host_cache_hit_weight: 2 }',
  'limits: { drain: 30 }',
  'listen: { port: 70000 }',
  'admin: { token: secret }',
  'workers: [{ url: 7 }]',
  'worker_selection: { decode: [] }',
  'worker_selection: { decode: { hints: {} } }',
  'worker_selection: { decode: "no such name" }',
  'worker_selection: { decoder: random }',
  'plugins: ./a.ts',
])('%s is invalid', (text) => {
  expect(validator.safeParse(parse(text)).success).toBe(false);
});

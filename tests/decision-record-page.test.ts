// docs/decision-record.md shows the members that a real record has, and no others.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parseExactJson } from '../src/config/index.ts';
import { client, engines, router, routerYaml, until, words } from './live-support.ts';

const page = readFileSync(fileURLToPath(new URL('../docs/decision-record.md', import.meta.url)), 'utf8');

/** Worker ids are the names there. */
const FREE_NAMES = new Set(['index.per_worker_age_ms']);

/** `a.b`, `list[].c`: every member that has a value. */
function members(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => members(item, `${path}[]`));
  if (typeof value !== 'object' || value === null || FREE_NAMES.has(path)) return [path];
  return Object.entries(value).flatMap(([name, member]) =>
    members(member, path === '' ? name : `${path}.${name}`),
  );
}

test('the page shows the members of a record, and no others', async () => {
  const { engines: list } = await engines(2, '--speed', '20');
  const fetching =
    'worker_selection: { aggregated: { type: least-loaded, hints: [{ type: kv_fetch }] } }\n' +
    'router: { trust_routing_fields_from: ["127.0.0.0/8"] }\n';
  const on = await router(
    routerYaml(
      list.map(({ url }) => url),
      fetching,
    ),
  );
  const sdk = client(on.url);
  const prompt = { model: 'tiny', prompt: words(200, 7), max_tokens: 4 };
  const pinned = (worker: string) => ({
    headers: { 'x-dynamo-session-id': 's-1', 'x-dynamo-worker-instance-id': worker },
  });
  await sdk.completions.create(prompt, pinned('1'));
  await until('the blocks are indexed', () => (on.core.index?.stats().holdings ?? 0) >= 12);
  const stream = await sdk.completions.create({ ...prompt, stream: true }, pinned('2'));
  for await (const chunk of stream) expect(chunk.choices.length).toBe(1);
  await until('the record is complete', () => on.core.decisions?.list(1, {})[0]?.outcome != null);

  const block = /```json\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  const shown = new Set(members(parseExactJson(block)));
  const real = new Set(members(on.core.decisions?.list(1, {})[0]));
  // The page shows the default cost, which has terms; least-loaded has none. A pinned request has one candidate only.
  const elsewhere = (path: string) =>
    path.startsWith('candidates[].terms') || path === 'candidates[].cost' || path === 'candidates[].reason';
  expect([...real].filter((path) => !shown.has(path) && !elsewhere(path))).toEqual([]);
  expect([...shown].filter((path) => !real.has(path) && !elsewhere(path))).toEqual([]);
});

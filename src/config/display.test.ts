import { expect, test } from 'vitest';
import { exactJsonStringify } from '../plugin/index.ts';
import { configForDisplay } from './display.ts';
import { parseConfig } from './load.ts';

test('what is shown has the models and the ids, and no secret', () => {
  const { config } = parseConfig(
    [
      'admin: { token: { env: TOKEN } }',
      'auth: { api_keys: [{ name: a, sha256: { env: HASH } }] }',
      'models: { tiny: { block_size: 16 } }',
      'workers: [{ id: 18446744073709551615, url: "http://127.0.0.1:1" }]',
    ].join('\n'),
    'router.yaml',
    { env: { TOKEN: 'hunter2', HASH: 'c'.repeat(64) }, readFile: () => '' },
  );
  const shown = exactJsonStringify(configForDisplay(config));
  expect(shown).not.toContain('hunter2');
  expect(shown).not.toContain('c'.repeat(64));
  expect(shown).toContain('"token":"(hidden)"');
  expect(shown).toContain('"models":{"tiny":{"name":"tiny"');
  expect(shown).toContain('"id":18446744073709551615');
});

test('an absent token shows as absent', () => {
  const { config } = parseConfig('', 'router.yaml', { env: {}, readFile: () => '' });
  expect(configForDisplay(config)).toMatchObject({ admin: { token: null }, auth: null, models: {} });
});

// docs/simulated-engine.md shows an advertisement and outcomes that the router reads.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DIALECTS } from '../src/engines/index.ts';
import { parseCapabilities } from '../src/fleet/index.ts';
import { engineRequestFixture } from './gateway-fixtures.ts';

const page = readFileSync(new URL('../docs/simulated-engine.md', import.meta.url), 'utf8');
const [advertisement = '', outcomes = ''] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(
  (match) => match[1] ?? '',
);

test('the advertisement on the page is one', () => {
  expect(parseCapabilities(JSON.parse(advertisement))).toMatchObject({
    blockSize: 16,
    hashScheme: 'sim-xxh3/seed=0',
    ranks: new Map([[0, expect.objectContaining({ routerHint: true })]]),
  });
});

test('the outcomes on the page are read', () => {
  expect(
    DIALECTS.get('sim')?.outcomes({ 'x-kv-hint-outcomes': outcomes.trim() }, engineRequestFixture()),
  ).toEqual([
    {
      actionId: 'a1',
      outcome: 'accepted',
      reason: null,
      blocksAsked: 96,
      blocksDone: 96,
      bytes: 201326592,
      ms: 12.4,
    },
  ]);
});

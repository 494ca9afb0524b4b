// What a selection keeps until its reservation is what is counted of it.
import { expect, it } from 'vitest';
import { blockHashSeed, createBlockHasher, hashBlocks } from '../../kv/index.ts';
import { NO_CONSTRAINTS } from '../../road/index.ts';
import { bytesOf, heldSelection } from './held-selection.ts';
import type { Asked } from './road-requests.ts';

it('a selection keeps nothing of what was asked but what a replay needs, and counts all that may be large', () => {
  const large = 'x'.repeat(100_000);
  const hashes = hashBlocks(createBlockHasher(), new Uint32Array(64), 16, blockHashSeed({}));
  const asked: Asked = {
    id: 'r',
    partition: { model: 'default', routingGroup: 'default' },
    prompt: { promptTokens: 64, hashes, loraName: 'adapter' },
    overrides: { cost: null, temperature: 0.5, sharesBlocks: false, tracksPrefill: null },
    constraints: {
      ...NO_CONSTRAINTS,
      requiredTaints: [large],
      preferredTaints: new Map([[large, 1]]),
      allowedWorkers: [1n],
      priority: 3,
      strictPriority: 2,
    },
    affinityTarget: { workerId: 1n, rank: null },
    session: null,
    policyClass: 'class',
    expectedOutputTokens: 7,
  };
  const placement = { workerId: 1n, rank: 0, tracksPrefillTokens: true, commit: null };
  const held = heldSelection(asked, placement, 64);
  expect(Object.keys(held).sort()).toEqual([
    'commitsCopy',
    'expectedOutputTokens',
    'policyClass',
    'prefillTokens',
    'priority',
    'prompt',
    'rank',
    'session',
    'sharesBlocks',
    'strictPriority',
    'tracksPrefill',
    'workerId',
  ]);
  expect(held).toMatchObject({
    priority: 3,
    strictPriority: 2,
    sharesBlocks: false,
    expectedOutputTokens: 7,
  });
  expect(bytesOf('key', held)).toBe(2 * 4 * 8 + 'key'.length + 'adapter'.length + 'class'.length);
  // The list of a larger buffer is not kept with the hashes.
  expect(held.prompt.hashes.sequence.buffer.byteLength).toBe(4 * 8);
});

// The built-in policies have the properties that a host expects of every policy.
import { expect, it } from 'vitest';
import {
  direct,
  dynamoDefaultCostFn,
  kvcr,
  kvFetch,
  leastLoaded,
  pointsmanExpectedTime,
  pointsmanTunedCost,
  powerOfTwo,
  random,
  roundRobin,
} from '../src/policies/index.ts';
import { checkHintPolicy, checkWorkerSelection } from '../src/testing/index.ts';

it.each([
  dynamoDefaultCostFn,
  kvcr,
  pointsmanExpectedTime,
  pointsmanTunedCost,
  leastLoaded,
  powerOfTwo,
  random,
  roundRobin,
  direct,
])('$type', async (definition) => {
  // How long a call takes is measured in bench/.
  const properties = ['valid', 'repeatable', 'permutation-stable', 'no-starvation'] as const;
  expect(await checkWorkerSelection(definition, { properties })).toEqual([]);
});

it('kv_fetch', async () => {
  expect(await checkHintPolicy(kvFetch, { properties: ['valid', 'repeatable'] })).toEqual([]);
});

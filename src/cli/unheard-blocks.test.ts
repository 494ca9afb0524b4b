import { expect, test } from 'vitest';
import { workerFixture } from '../../tests/gateway-fixtures.ts';
import { Fleet } from '../fleet/index.ts';
import { UnheardBlocks } from './unheard-blocks.ts';

test('counts requests that computed more than the last block, per worker, until the worker is removed', () => {
  const fleet = new Fleet();
  fleet.add(workerFixture().spec);
  const unheard = new UnheardBlocks(fleet);
  unheard.computed(1n, 0);
  unheard.computed(1n, 1);
  expect(unheard.of(1n)).toBe(0);
  unheard.computed(1n, 2);
  unheard.computed(1n, 40);
  expect([unheard.of(1n), unheard.of(2n)]).toEqual([2, 0]);
  fleet.remove(1n);
  expect(unheard.of(1n)).toBe(0);
});

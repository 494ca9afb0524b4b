// How many blocks a plugin asks `bestSource` for, in process and in a thread.
import { PointsmanError } from '../plugin/index.ts';
import { describeValue } from './selection-errors.ts';

/**
 * The least number of additional blocks: 1 also where 0 is asked for. What is no number must not pass for the least one, as a
 * misspelt parameter is `undefined` and a sum with it NaN.
 * @throws PointsmanError PM_PLUGIN_INVALID.
 */
export function leastBlocks(minAdditional: unknown): number {
  if (typeof minAdditional === 'number' && minAdditional >= 0) return Math.max(1, minAdditional);
  throw new PointsmanError(
    'PM_PLUGIN_INVALID',
    `copyLocations.bestSource: minAdditional must be a number of blocks from 0, got ${describeValue(minAdditional)}`,
  );
}

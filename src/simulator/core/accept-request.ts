// What a simulated engine takes as a request.
import { PointsmanError } from '../../plugin/index.ts';
import type { SimulatedRequest } from '../types.ts';

/** @throws PM_SIM_REQUEST */
export function checkRequest(request: SimulatedRequest, inUse: boolean): void {
  const problem = inUse
    ? 'its id, or the key of its handoff, is in use'
    : request.tokens.length === 0
      ? 'its prompt is empty'
      : Number.isInteger(request.outputTokens) && request.outputTokens >= 0
        ? null
        : `its output length is ${request.outputTokens}, not a whole number from 0`;
  if (problem === null) return;
  throw new PointsmanError(
    'PM_SIM_REQUEST',
    `the simulated engine cannot take request ${request.id}: ${problem}`,
    {
      details: { request: request.id },
    },
  );
}

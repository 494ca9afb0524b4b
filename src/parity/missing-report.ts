// Whether an answer should have told cached tokens.
import type { Fleet } from '../fleet/index.ts';
import type { AnsweredRequest } from './parity-types.ts';

/** Of an answer without cached tokens: whether its engine announced blocks of the prompt and counts tokens, so that it keeps them back. */
export function lacksReport(
  { blockSize, predictedTokens, promptTokens, slot }: AnsweredRequest,
  fleet: Pick<Fleet, 'slotRank' | 'workerOfSlot'>,
): boolean {
  if (promptTokens === null || predictedTokens === null || predictedTokens < blockSize) return false;
  // Of an estimate an engine may rightly have nothing.
  return fleet.workerOfSlot(slot)?.approximate?.has(fleet.slotRank(slot)) !== true;
}

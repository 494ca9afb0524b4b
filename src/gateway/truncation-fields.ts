// Whether and how a request wants its prompt shortened, in vLLM's fields.
import type { Truncation } from '../tokens/index.ts';
import { integerField, invalidField, type JsonObject } from './request-fields.ts';

const MOST = 0x7fffffff;

/**
 * `truncate_prompt_tokens` and `truncation_side`; null = the prompt stays as it is. With -1 the engine cuts at its own longest prompt:
 * what is longer fits nowhere, so nothing is cut here.
 * @throws PointsmanError PM_REQUEST_INVALID
 */
export function readTruncation(body: JsonObject): Truncation | null {
  const tokens = integerField(body, 'truncate_prompt_tokens', -1, MOST);
  const side = body.truncation_side ?? null;
  if (side !== null && side !== 'left' && side !== 'right')
    throw invalidField('truncation_side', 'must be "left" or "right"');
  if (tokens === 0) throw invalidField('truncate_prompt_tokens', 'must be -1, or 1 and more');
  return tokens === null || tokens < 0 ? null : { tokens, side: side ?? 'left' };
}

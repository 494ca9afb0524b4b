// Token ids that a client sent itself.
import { PointsmanError } from '../plugin/index.ts';

const MAX_ID = 0xffffffff;

/**
 * Checks a list of token ids. Whether the ids are in the model's vocabulary is for the engine to say.
 * @param where the field's name for messages, for example `prompt`.
 * @throws PointsmanError PM_PROMPT_INVALID naming the first element that is no u32.
 */
export function readPromptIds(list: readonly unknown[], where: string): Uint32Array {
  const ids = new Uint32Array(list.length);
  for (let index = 0; index < list.length; index += 1) {
    const id = list[index];
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > MAX_ID) {
      const found = typeof id === 'number' || typeof id === 'bigint' ? String(id) : `a ${kindOf(id)}`;
      throw new PointsmanError(
        'PM_PROMPT_INVALID',
        `${where}[${index}] must be a token id, an integer from 0 to ${MAX_ID}; it is ${found}`,
        { details: { param: where, index } },
      );
    }
    ids[index] = id;
  }
  return ids;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}

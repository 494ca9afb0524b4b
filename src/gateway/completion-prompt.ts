// The prompt of a completion request: one text or one list of token ids, alone or as the only element of a list.
import { invalidField } from './request-fields.ts';

/** The one prompt in the field. Token ids themselves are checked where they are read. @throws PM_REQUEST_INVALID */
export function readPrompt(value: unknown): string | readonly unknown[] {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) {
    throw invalidField('prompt', 'must be a text or a list of token ids');
  }
  const first: unknown = value[0];
  if (typeof first !== 'string' && !Array.isArray(first)) return value;
  if (value.length > 1)
    throw invalidField('prompt', `holds ${value.length} prompts; send one request per prompt`);
  return first;
}

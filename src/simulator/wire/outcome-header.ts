// The response header that tells what became of a hint's actions: `x-kv-hint-outcomes`, JSON in ASCII, at most 8 KiB.
import type { SimulatedHintOutcome } from '../types.ts';

/** Name of the header. */
export const OUTCOME_HEADER = 'x-kv-hint-outcomes';

/** Longest value; a longer list is replaced by counts per outcome. */
export const MAX_OUTCOME_HEADER_BYTES = 8 * 1024;

const MAX_MESSAGE_ID = 256;

/**
 * Value of the header.
 * @param hint the envelope as received; its message id is repeated when it has one.
 */
export function outcomeHeader(hint: unknown, outcomes: readonly SimulatedHintOutcome[]): string {
  const message_id = messageIdOf(hint);
  const full = ascii({ message_id, outcomes });
  if (full.length <= MAX_OUTCOME_HEADER_BYTES) return full;
  const counts: Record<string, number> = {};
  for (const { outcome } of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return ascii({ message_id, counts });
}

function messageIdOf(hint: unknown): string | null {
  if (typeof hint !== 'object' || hint === null || !('message_id' in hint)) return null;
  const { message_id: id } = hint;
  return typeof id === 'string' && id.length <= MAX_MESSAGE_ID ? id : null;
}

/** JSON whose every character may stand in a header. */
function ascii(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

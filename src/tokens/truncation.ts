// Prompts that the client wants shortened (`truncate_prompt_tokens`). The engine computes what is left, so only that is hashed.

/** How a prompt is shortened. */
export interface Truncation {
  /** Most tokens that are left, from 1; the model's own start and end tokens count. */
  readonly tokens: number;
  /** The side that is cut off; vLLM's default is left. */
  readonly side: 'left' | 'right';
}

/** Ids that a tokenizer puts around each text where it is asked for special tokens. */
export interface SpecialWrap {
  readonly prefix: Uint32Array;
  readonly suffix: Uint32Array;
}

/** No such ids. */
export const NO_WRAP: SpecialWrap = { prefix: new Uint32Array(0), suffix: new Uint32Array(0) };

/** The ids that are left of a text: the array itself when nothing is cut. */
export function truncated(ids: Uint32Array, truncation: Truncation | null): Uint32Array {
  if (truncation === null || ids.length <= truncation.tokens) return ids;
  return truncation.side === 'left'
    ? ids.slice(ids.length - truncation.tokens)
    : ids.slice(0, truncation.tokens);
}

/** Cuts the text, not what is put around it, as tokenizers do (Hugging Face: `max_length` counts the special tokens). */
export function truncatedWithin(
  ids: Uint32Array,
  { prefix, suffix }: SpecialWrap,
  truncation: Truncation | null,
): Uint32Array {
  const around = prefix.length + suffix.length;
  if (around === 0) return truncated(ids, truncation);
  const inner =
    truncation === null
      ? ids
      : truncated(ids, { ...truncation, tokens: Math.max(0, truncation.tokens - around) });
  const all = new Uint32Array(around + inner.length);
  all.set(prefix);
  all.set(inner, prefix.length);
  all.set(suffix, prefix.length + inner.length);
  return truncated(all, truncation);
}

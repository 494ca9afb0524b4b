// Reads one JSON object of a `/generate` answer, a stream chunk or a whole answer, as far as a completion needs it.
import { countOrNull, isJsonObject, type JsonObject } from '../json-value.ts';

/** What a `/generate` object says. */
export interface GenerateFacts {
  readonly text: string;
  /** Number of token ids in it; null = it lists none. */
  readonly outputIds: number | null;
  readonly id: string | null;
  readonly promptTokens: number | null;
  /** Output tokens so far, whichever way its text is written. */
  readonly completionTokens: number | null;
  readonly cachedTokens: number | null;
  readonly finishReason: string | null;
  /** What ended it: a stop string or the id of a token; null = neither. */
  readonly matched: string | number | null;
}

/** The facts of a JSON text; null when it is no answer of `/generate`. Never throws. */
export function readGenerateChunk(text: string): GenerateFacts | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isJsonObject(parsed) || typeof parsed.text !== 'string' || !isJsonObject(parsed.meta_info))
    return null;
  const meta = parsed.meta_info;
  const finish: JsonObject = isJsonObject(meta.finish_reason) ? meta.finish_reason : {};
  return {
    text: parsed.text,
    outputIds: Array.isArray(parsed.output_ids) ? parsed.output_ids.length : null,
    id: typeof meta.id === 'string' ? meta.id : null,
    promptTokens: countOrNull(meta.prompt_tokens),
    completionTokens: countOrNull(meta.completion_tokens),
    cachedTokens: countOrNull(meta.cached_tokens),
    finishReason: typeof finish.type === 'string' ? finish.type : null,
    matched: typeof finish.matched === 'string' ? finish.matched : countOrNull(finish.matched),
  };
}

/**
 * Takes the new part out of chunks whose text may hold everything so far (SGLang's default) or what is new alone (with
 * --incremental-streaming-output): nothing in a request or an answer says which, but the ids of a chunk are as many as all tokens so
 * far in the one case, and fewer from the second chunk on in the other.
 */
export class StreamedText {
  #seen = '';
  #tokens = 0;
  #cumulative: boolean | null = null;

  /** The new text, and how many tokens it stands for. */
  next(facts: GenerateFacts): { readonly text: string; readonly tokens: number } {
    const before = this.#tokens;
    const cumulative = this.#isCumulative(facts);
    const total = facts.completionTokens ?? (cumulative ? facts.outputIds : null);
    const tokens =
      total === null ? (facts.outputIds ?? (facts.text === '' ? 0 : 1)) : Math.max(0, total - before);
    this.#tokens = before + tokens;
    if (!cumulative) {
      // Only what may still have to be compared is kept.
      if (this.#cumulative === null) this.#seen += facts.text;
      return { text: facts.text, tokens };
    }
    const text = facts.text.slice(this.#seen.length);
    this.#seen = facts.text;
    return { text, tokens };
  }

  #isCumulative({ completionTokens, outputIds, text }: GenerateFacts): boolean {
    // Of the first chunk both readings are the same.
    if (this.#tokens === 0) return true;
    if (this.#cumulative !== null) return this.#cumulative;
    if (outputIds !== null && completionTokens !== null && completionTokens > this.#tokens) {
      this.#cumulative = outputIds === completionTokens;
      return this.#cumulative;
    }
    // No ids to count: a text that goes on from what was there is the whole of it.
    return this.#seen !== '' && text.startsWith(this.#seen);
  }
}

// Reads one JSON object of an OpenAI-shaped answer, a stream chunk or a whole answer, as far as the router needs it.
import { countOrNull, isJsonObject, type JsonObject } from '../json-value.ts';

/** Numbers of a `usage` object; null = not said. */
export interface UsageNumbers {
  readonly promptTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
}

/** What the router reads of a chunk. */
export interface ChunkFacts {
  /** Output tokens in it; a chunk with text counts one unless it lists its token ids. */
  readonly tokens: number;
  readonly usage: UsageNumbers | null;
  readonly finishReason: string | null;
  /** Ids of the prompt, where the engine was asked for them; null = it tells none. */
  readonly promptTokenIds: Uint32Array | null;
  /** `choices` is empty and usage is there: the chunk exists only because usage was asked for. */
  readonly usageOnly: boolean;
}

/** The facts of a JSON text, or null when it is no JSON object. Never throws. */
export function readChunk(text: string): ChunkFacts | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isJsonObject(parsed)) return null;
  const choices = Array.isArray(parsed.choices) ? parsed.choices : null;
  const usage = readUsage(parsed.usage);
  let tokens = 0;
  let finishReason: string | null = null;
  let promptTokenIds = tokenIds(parsed.prompt_token_ids);
  for (const choice of choices ?? []) {
    if (!isJsonObject(choice)) continue;
    tokens += tokensOf(choice);
    if (typeof choice.finish_reason === 'string') finishReason = choice.finish_reason;
    promptTokenIds ??= tokenIds(choice.prompt_token_ids);
  }
  return { tokens, usage, finishReason, promptTokenIds, usageOnly: choices?.length === 0 && usage !== null };
}

/** Chat answers name the ids once, completions in each choice. */
function tokenIds(value: unknown): Uint32Array | null {
  if (!Array.isArray(value)) return null;
  const ids = new Uint32Array(value.length);
  for (let at = 0; at < value.length; at += 1) {
    const id: unknown = value[at];
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffffffff) return null;
    ids[at] = id;
  }
  return ids;
}

function tokensOf(choice: JsonObject): number {
  if (Array.isArray(choice.token_ids)) return choice.token_ids.length;
  if (typeof choice.text === 'string') {
    // A token may be half a character and so add no text yet; the empty text beside a finish reason is no token.
    return choice.text !== '' || typeof choice.finish_reason !== 'string' ? 1 : 0;
  }
  const delta = choice.delta;
  if (!isJsonObject(delta)) return 0;
  if (hasContent(delta.reasoning_content) || hasContent(delta.reasoning) || hasContent(delta.tool_calls))
    return 1;
  if (typeof delta.content !== 'string') return 0;
  // The opening chunk names the role with empty content.
  return delta.content !== '' || (delta.role === undefined && typeof choice.finish_reason !== 'string')
    ? 1
    : 0;
}

function hasContent(value: unknown): boolean {
  return typeof value === 'string' || Array.isArray(value) ? value.length > 0 : false;
}

function readUsage(value: unknown): UsageNumbers | null {
  if (!isJsonObject(value)) return null;
  const details = isJsonObject(value.prompt_tokens_details) ? value.prompt_tokens_details : null;
  return {
    promptTokens: countOrNull(value.prompt_tokens),
    cachedTokens: countOrNull(details?.cached_tokens),
    outputTokens: countOrNull(value.completion_tokens),
  };
}

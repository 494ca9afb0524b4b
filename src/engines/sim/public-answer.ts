// What an answer says of a handoff is the router's alone, and so are token ids that it asked for itself: they are read here and taken
// out of what the client gets, and the cached tokens of a prompt are those that the engine which computed it reported.

import { parseExactJson } from '../../config/index.ts';
import { exactJsonStringify } from '../../plugin/index.ts';
import { isJsonObject, type JsonObject } from '../json-value.ts';
import type { EngineRequest } from '../types.ts';

/** What the reader of an answer needs to know of its request. */
export type AnsweredRequest = Pick<
  EngineRequest,
  'stream' | 'body' | 'handoff' | 'prefilledCachedTokens' | 'asksPromptTokenIds'
>;

/** Whether the answer belongs to a leg of a handoff, so that it must be looked into. */
export function isHandedOver({ handoff = null }: AnsweredRequest): boolean {
  return handoff !== null;
}

/** Whether the client gets to see another answer than the engine's. */
export function isRewritten(request: AnsweredRequest): boolean {
  return isHandedOver(request) || hidesIds(request);
}

/** Token ids were asked for by the router alone. */
function hidesIds({ asksPromptTokenIds, body }: AnsweredRequest): boolean {
  // vLLM's name, and SGLang's.
  const theirs = body?.return_token_ids === true || body?.return_prompt_token_ids === true;
  return asksPromptTokenIds === true && !theirs;
}

/** `kv_transfer_params` of an answer, with every digit of its numbers; null = it has none. */
export function transferParams(text: string): JsonObject | null {
  if (!text.includes('"kv_transfer_params"')) return null;
  const params = parsed(text)?.kv_transfer_params;
  return isJsonObject(params) ? params : null;
}

/** The JSON of an answer, or of one chunk of it, as the client may see it; null = as it is. */
export function publicAnswer(text: string, request: AnsweredRequest): string | null {
  const cached = request.prefilledCachedTokens?.() ?? null;
  const tells = text.includes('"kv_transfer_params"');
  const counts = cached !== null && text.includes('"usage"');
  const hides = hidesIds(request) && text.includes('token_ids"');
  if (!tells && !counts && !hides) return null;
  const object = parsed(text);
  if (object === null) return null;
  const { kv_transfer_params: _, ...all } = object;
  const rest = hides ? withoutIds(all) : all;
  const usage = isJsonObject(rest.usage) ? rest.usage : null;
  if (cached === null || usage === null) return tells || hides ? exactJsonStringify(rest) : null;
  const details = isJsonObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
  return exactJsonStringify({
    ...rest,
    usage: { ...usage, prompt_tokens_details: { ...details, cached_tokens: cached } },
  });
}

function withoutIds({ prompt_token_ids: _, ...answer }: JsonObject): JsonObject {
  const { choices } = answer;
  if (!Array.isArray(choices)) return answer;
  return { ...answer, choices: choices.map(withoutOwnIds) };
}

function withoutOwnIds(choice: unknown): unknown {
  if (!isJsonObject(choice)) return choice;
  const { prompt_token_ids: _, token_ids: __, ...rest } = choice;
  return rest;
}

function parsed(text: string): JsonObject | null {
  try {
    const value = parseExactJson(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

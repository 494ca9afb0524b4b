// A whole answer as the stream that the client asked for: of one that was asked in one piece, as only so it tells the router what it has
// to, and turned out to be all there is.
import { parseExactJson } from '../../config/index.ts';
import { exactJsonStringify } from '../../plugin/index.ts';
import { isJsonObject, type JsonObject } from '../json-value.ts';
import { askedForUsage } from '../stream-usage.ts';
import type { EngineRequest } from '../types.ts';

/** Server-sent events with the same contents; null when the answer cannot be read. */
export function streamedAnswer(
  whole: Uint8Array,
  { api, body }: Pick<EngineRequest, 'api' | 'body'>,
): Uint8Array | null {
  let answer: unknown;
  try {
    answer = parseExactJson(Buffer.from(whole).toString('utf8'));
  } catch {
    return null;
  }
  if (!isJsonObject(answer) || !Array.isArray(answer.choices)) return null;
  const { choices, usage, ...common } = answer;
  const head = { ...common, object: api === 'chat' ? 'chat.completion.chunk' : 'text_completion' };
  const events: object[] = [];
  for (const choice of choices as readonly unknown[]) {
    if (!isJsonObject(choice)) return null;
    events.push({ ...head, choices: [api === 'chat' ? asDelta(choice) : choice] });
  }
  if (askedForUsage(body) && usage !== undefined) events.push({ ...head, choices: [], usage });
  const lines = events.map((event) => `data: ${exactJsonStringify(event)}\n\n`);
  return Buffer.from(`${lines.join('')}data: [DONE]\n\n`);
}

function asDelta({ message, ...choice }: JsonObject): object {
  return { ...choice, delta: message ?? {} };
}

// Engines change a chat before the template sees it, each in its own way, and what the template sees decides the ids. These are the
// ways of their OpenAI servers; a model's workers say which one is followed.
import { parseExactJson } from '../../config/index.ts';
import type { ChatMessage } from './chat-messages.ts';

/** Whose way is followed; `plain` = messages and tools as they came, text parts put together. */
export type RenderStyle = 'plain' | 'vllm' | 'sglang' | 'llamacpp';

/** What stands between the text parts of one message where a template takes its content as a string. */
export const PART_SEPARATORS: Readonly<Record<RenderStyle, string>> = {
  plain: '',
  vllm: '\n',
  sglang: ' ',
  llamacpp: '\n',
};

/** Whether a template walks over the parts of a content: engines then hand it lists in place of strings. */
export function iteratesContent(template: string): boolean {
  return /\{%-?\s*for\s+\w+\s+in\s+\w+(?:\.content|\[\s*['"]content['"]\s*\])\s*-?%\}/.test(template);
}

/**
 * Messages as the template gets them.
 * @param flat the messages with content as strings, same order.
 * @param messages as the client sent them.
 * @param wantsParts whether the template walks over parts.
 */
export function templateMessages(
  flat: readonly ChatMessage[],
  messages: unknown,
  style: RenderStyle,
  wantsParts: boolean,
): readonly Readonly<Record<string, unknown>>[] {
  if (style === 'plain') return flat;
  const sent: readonly unknown[] = Array.isArray(messages) ? messages : [];
  return flat.map((message, index) => {
    const changed: Record<string, unknown> = { ...message };
    if (wantsParts) changed.content = contentParts(sent[index], message.content, style);
    if (Array.isArray(message.tool_calls)) changed.tool_calls = message.tool_calls.map(withParsedArguments);
    const reasoning = message.reasoning ?? message.reasoning_content;
    if (style === 'vllm' && reasoning !== undefined && reasoning !== null) {
      // Templates know either name.
      changed.reasoning = reasoning;
      changed.reasoning_content = reasoning;
    }
    return changed;
  });
}

/** Tool schemas as the template gets them; what is no list of functions stays as it is. */
export function templateTools(tools: unknown, style: RenderStyle): unknown {
  if (!Array.isArray(tools) || style === 'plain' || style === 'llamacpp') return tools;
  return tools.map((tool: unknown) => {
    if (!isObject(tool) || !isObject(tool.function)) return tool;
    const { name, description = null, parameters = null, ...rest } = tool.function;
    // Both dump a typed model: every field, in the order of the type, whatever the client left out.
    if (style === 'vllm') {
      const { type = 'function', function: _function, ...others } = tool;
      return { type, function: { name, description, parameters, ...rest }, ...others };
    }
    const { strict = false } = rest;
    return { description, name, parameters, strict };
  });
}

function contentParts(message: unknown, text: string, style: RenderStyle): unknown {
  const content = isObject(message) ? message.content : null;
  if (Array.isArray(content)) return content.map(asPart);
  // SGLang leaves a string what it is.
  if (style === 'sglang') return text;
  return text === '' && typeof content !== 'string' ? [] : [{ type: 'text', text }];
}

function asPart(part: unknown): unknown {
  if (typeof part === 'string') return { type: 'text', text: part };
  if (!isObject(part)) return part;
  return { type: 'text', text: typeof part.text === 'string' ? part.text : part.refusal };
}

/** Templates write arguments as JSON themselves; a string would be quoted once more. */
function withParsedArguments(call: unknown): unknown {
  if (!isObject(call) || !isObject(call.function)) return call;
  const { arguments: given } = call.function;
  if (typeof given === 'object' && given !== null) return call;
  const parsed = typeof given === 'string' && given !== '' ? parseArguments(given) : {};
  return { ...call, function: { ...call.function, arguments: parsed } };
}

function parseArguments(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    // The parser's own words may quote them.
    throw new Error('the arguments of a tool call are not JSON');
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Brings chat messages into the form chat templates expect: content is a string, parts are flattened, all else is kept.
import { PointsmanError } from '../../plugin/index.ts';
import { PART_SEPARATORS, type RenderStyle } from './render-style.ts';

/** Types of parts that are text; who leaves the type out means text too. */
const TEXTS: ReadonlySet<unknown> = new Set([undefined, 'text', 'input_text', 'output_text']);
const REFUSALS: ReadonlySet<unknown> = new Set([undefined, 'refusal']);

/** A message as templates see it. */
export type ChatMessage = Readonly<Record<string, unknown>> & {
  readonly role: string;
  readonly content: string;
};

/**
 * Checks `messages` of a chat request and flattens their content: text parts are put together, null or absent content becomes the
 * empty string.
 * @param style what stands between two parts; default nothing.
 * @throws PointsmanError PM_CHAT_INVALID for anything that is not a list of messages with a role and text.
 */
export function flattenMessages(messages: unknown, style: RenderStyle = 'plain'): ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw invalid('messages must be a list of at least one message');
  }
  return messages.map((message: unknown, index) => {
    if (!isObject(message)) throw invalid(`messages[${index}] must be an object`);
    const { role, content } = message;
    if (typeof role !== 'string' || role === '') {
      throw invalid(`messages[${index}].role must be a string such as "user"`);
    }
    return { ...message, role, content: flattenContent(content, index, PART_SEPARATORS[style]) };
  });
}

/** Whether all content is text, so that its ids say all that an engine computes. Malformed messages count as text. */
export function holdsOnlyText(messages: readonly unknown[]): boolean {
  return messages.every((message) => {
    if (!isObject(message) || !Array.isArray(message.content)) return true;
    return message.content.every(
      (part: unknown) => !isObject(part) || TEXTS.has(part.type) || REFUSALS.has(part.type),
    );
  });
}

function flattenContent(content: unknown, index: number, separator: string): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content))
    throw invalid(`messages[${index}].content must be a string or a list of parts`);
  const texts: string[] = [];
  content.forEach((part: unknown, at) => {
    // By its type alone: an image with a caption beside it is an image for the engine.
    if (typeof part === 'string') texts.push(part);
    else if (isObject(part) && TEXTS.has(part.type) && typeof part.text === 'string') texts.push(part.text);
    else if (isObject(part) && REFUSALS.has(part.type) && typeof part.refusal === 'string')
      texts.push(part.refusal);
    else
      throw invalid(
        `messages[${index}].content[${at}] must be a text part; other kinds have no token ids here`,
      );
  });
  return texts.join(separator);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_CHAT_INVALID', sentence);
}

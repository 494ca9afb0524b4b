// The parts of a chat request that decide its token ids: messages, tools, template switches.
import type { Truncation } from '../tokens/index.ts';
import { booleanField, invalidField, isObject, type JsonObject, objectField } from './request-fields.ts';
import { readTruncation } from './truncation-fields.ts';

/** What a chat template sees. */
export interface ChatPart {
  readonly messages: readonly JsonObject[];
  readonly tools: unknown;
  readonly addGenerationPrompt: boolean;
  readonly addSpecialTokens: boolean;
  readonly variables: JsonObject;
  /** Present where the engine is to continue the last message. */
  readonly continueFinalMessage?: true;
  /** The request's own template; absent = the model's. */
  readonly ownTemplate?: string;
  /** Absent = the prompt is not shortened. */
  readonly truncation?: Truncation;
  readonly lastRole: string;
}

const MAX_ROLE = 64;

/** Reads and checks them. @throws PointsmanError PM_REQUEST_INVALID naming the first wrong place. */
export function readChat(body: JsonObject): ChatPart {
  const messages = readMessages(body.messages);
  const last = messages.at(-1);
  const continues = booleanField(body, 'continue_final_message') ?? false;
  const { chat_template: ownTemplate = null, documents = null } = body;
  const truncation = readTruncation(body);
  return {
    messages,
    tools: readTools(body.tools),
    addGenerationPrompt: !continues && (booleanField(body, 'add_generation_prompt') ?? true),
    addSpecialTokens: booleanField(body, 'add_special_tokens') ?? false,
    variables: {
      ...objectField(body, 'chat_template_kwargs'),
      // Templates of models that read them have them by this name.
      ...(documents === null ? {} : { documents }),
    },
    ...(continues ? { continueFinalMessage: true } : {}),
    ...(typeof ownTemplate === 'string' ? { ownTemplate } : {}),
    ...(truncation === null ? {} : { truncation }),
    lastRole: typeof last?.role === 'string' ? last.role : '',
  };
}

function readMessages(value: unknown): readonly JsonObject[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw invalidField('messages', 'must be a list of at least one message');
  }
  return value.map((message: unknown, index) => {
    const at = `messages[${index}]`;
    if (!isObject(message)) throw invalidField(at, 'must be an object');
    const { role } = message;
    if (typeof role !== 'string' || role === '' || role.length > MAX_ROLE) {
      throw invalidField(`${at}.role`, 'must be a text such as "user"');
    }
    checkContent(message.content, role, `${at}.content`);
    return message;
  });
}

function checkContent(content: unknown, role: string, at: string): void {
  if (typeof content === 'string') return;
  // An assistant that only called tools said nothing.
  if ((content === undefined || content === null) && role === 'assistant') return;
  if (!Array.isArray(content)) throw invalidField(at, 'must be a string or a list of parts');
  content.forEach((part: unknown, index) => {
    if (typeof part === 'string') return;
    if (!isObject(part) || typeof part.type !== 'string') {
      throw invalidField(`${at}[${index}]`, 'must be an object with a type such as "text"');
    }
    if (part.type === 'text' && typeof part.text !== 'string') {
      throw invalidField(`${at}[${index}].text`, 'must be a string');
    }
  });
}

function readTools(value: unknown): unknown {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value) || !value.every(isObject))
    throw invalidField('tools', 'must be a list of objects');
  return value;
}

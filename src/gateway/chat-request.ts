// The parts of a chat request that decide its token ids: messages, tools, template switches.
import { booleanField, invalidField, isObject, type JsonObject, objectField } from './request-fields.ts';

/** What a chat template sees. */
export interface ChatPart {
  readonly messages: readonly JsonObject[];
  readonly tools: unknown;
  readonly addGenerationPrompt: boolean;
  readonly addSpecialTokens: boolean;
  readonly variables: JsonObject;
  readonly lastRole: string;
}

const MAX_ROLE = 64;

/** Reads and checks them. @throws PointsmanError PM_REQUEST_INVALID naming the first wrong place. */
export function readChat(body: JsonObject): ChatPart {
  const messages = readMessages(body.messages);
  const last = messages.at(-1);
  return {
    messages,
    tools: readTools(body.tools),
    addGenerationPrompt: booleanField(body, 'add_generation_prompt') ?? true,
    addSpecialTokens: booleanField(body, 'add_special_tokens') ?? false,
    variables: objectField(body, 'chat_template_kwargs') ?? {},
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

// An Anthropic Messages request as the chat that the engine's own server makes of it before its template sees it. The ids of a chat
// with tool calls, their results and thinking are right only if every block ends where the server puts it.
import { PointsmanError } from '../../plugin/index.ts';

/** What a chat template sees of an Anthropic request. */
export interface AnthropicChat {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** Absent in the request = undefined. */
  readonly tools: readonly Readonly<Record<string, unknown>>[] | undefined;
}

type Block = Readonly<Record<string, unknown>>;
type Message = Record<string, unknown>;

/**
 * Converts `system`, `messages` and `tools` as vLLM's `/v1/messages` does: text blocks of the system prompt are put together without
 * anything between; tool calls join the message of the assistant, results become messages of role `tool` before the user's own
 * text, thinking becomes `reasoning` of its message, and a message that held nothing else is left out.
 * @param body a parsed request, unchecked.
 * @throws PointsmanError PM_CHAT_INVALID naming the first wrong place.
 */
export function anthropicChat(body: Readonly<Record<string, unknown>>): AnthropicChat {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0)
    throw invalid('messages must be a list of at least one message');
  const chat: Message[] = [];
  const system = systemText(body.system);
  if (system !== null) chat.push({ role: 'system', content: system });
  messages.forEach((message: unknown, index) => {
    if (!isObject(message)) throw invalid(`messages[${index}] must be an object`);
    const { role, content } = message;
    if (role !== 'user' && role !== 'assistant')
      throw invalid(`messages[${index}].role must be "user" or "assistant"`);
    if (typeof content === 'string') chat.push({ role, content });
    else if (Array.isArray(content)) addBlocks(chat, role, content, index);
    else throw invalid(`messages[${index}].content must be a string or a list of blocks`);
  });
  return { messages: chat, tools: toolsOf(body.tools) };
}

function systemText(system: unknown): string | null {
  if (system === undefined || system === null || system === '') return null;
  if (typeof system === 'string') return system;
  if (!Array.isArray(system)) throw invalid('system must be a string or a list of text blocks');
  if (system.length === 0) return null;
  return system
    .map((block: unknown) =>
      isObject(block) && block.type === 'text' && typeof block.text === 'string' ? block.text : '',
    )
    .join('');
}

function addBlocks(
  chat: Message[],
  role: 'user' | 'assistant',
  blocks: readonly unknown[],
  index: number,
): void {
  const parts: Block[] = [];
  const calls: Block[] = [];
  let thinking = '';
  blocks.forEach((block: unknown, at) => {
    if (!isObject(block)) throw invalid(`messages[${index}].content[${at}] must be an object`);
    switch (block.type) {
      case 'text':
        if (typeof block.text === 'string' && block.text !== '')
          parts.push({ type: 'text', text: block.text });
        break;
      case 'thinking':
        if (typeof block.thinking === 'string') thinking += block.thinking;
        break;
      case 'tool_use':
        calls.push({
          id: block.id,
          type: 'function',
          function: { name: block.name ?? '', arguments: isObject(block.input) ? block.input : {} },
        });
        break;
      case 'tool_result': {
        const text = resultText(block.content, `messages[${index}].content[${at}].content`);
        if (role === 'user')
          chat.push({ role: 'tool', tool_call_id: block.tool_use_id ?? '', content: text });
        else parts.push({ type: 'text', text: `Tool result: ${text}` });
        break;
      }
      // Nobody but the provider can read it, so no server renders it.
      case 'redacted_thinking':
        break;
      default:
        // Images and documents: their ids are not known here, which flattening says by this place.
        parts.push(block);
    }
  });
  const message: Message = { role };
  if (thinking !== '') message.reasoning = thinking;
  if (calls.length > 0) message.tool_calls = calls;
  const [only] = parts;
  if (parts.length === 1 && only?.type === 'text') message.content = only.text;
  else if (parts.length > 0) message.content = parts;
  else if (calls.length === 0 && thinking === '') return;
  chat.push(message);
}

function resultText(content: unknown, at: string): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalid(`${at} must be a string or a list of blocks`);
  return content
    .map((block: unknown, index) => {
      if (isObject(block) && block.type === 'text' && typeof block.text === 'string') return block.text;
      throw invalid(`${at}[${index}] must be a text block; other kinds have no token ids here`);
    })
    .join('\n');
}

function toolsOf(tools: unknown): AnthropicChat['tools'] {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw invalid('tools must be a list of objects');
  return tools.map((tool: unknown, index) => {
    if (!isObject(tool)) throw invalid(`tools[${index}] must be an object`);
    const { name, description = null, input_schema: parameters = null } = tool;
    return { type: 'function', function: { name, description, parameters } };
  });
}

function isObject(value: unknown): value is Block {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(sentence: string): PointsmanError {
  return new PointsmanError('PM_CHAT_INVALID', sentence);
}

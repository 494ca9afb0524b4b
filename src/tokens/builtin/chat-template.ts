// A chat template that is ready to render.
import { Template } from '@huggingface/jinja';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { flattenMessages } from './chat-messages.ts';
import type { RenderChatOptions } from './text-tokenizer.ts';

/**
 * Parses a template.
 * @param where names it in messages.
 * @throws PointsmanError PM_TOKENIZER_INVALID
 */
export function parseTemplate(text: string, where: string): Template {
  try {
    return new Template(text);
  } catch (cause) {
    throw new PointsmanError(
      'PM_TOKENIZER_INVALID',
      `${where} holds no chat template that parses (${errorText(cause)})`,
      { cause },
    );
  }
}

/**
 * The prompt text of a chat; see `TextTokenizer.renderChat`.
 * @param template null = the model has none.
 * @param specialTokens variables such as `bos_token`.
 * @param where names the model's tokenizer in messages.
 */
export function renderChat(
  template: Template | null,
  specialTokens: Readonly<Record<string, string>>,
  where: string,
  messages: unknown,
  options: RenderChatOptions,
): string {
  if (template === null) {
    throw new PointsmanError(
      'PM_CHAT_TEMPLATE',
      `the tokenizer ${where} has no chat template; name one, or send completions`,
    );
  }
  const flat = flattenMessages(messages);
  try {
    return template.render({
      ...options.variables,
      ...specialTokens,
      messages: flat,
      ...(options.tools === undefined ? null : { tools: options.tools }),
      add_generation_prompt: options.addGenerationPrompt,
    });
  } catch (cause) {
    throw new PointsmanError(
      'PM_CHAT_TEMPLATE',
      `the chat template cannot render these ${flat.length} messages: ${errorText(cause)}`,
      { cause },
    );
  }
}

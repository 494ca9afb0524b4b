// A chat template that is ready to render.
import { Template } from '@huggingface/jinja';
import { errorText, PointsmanError } from '../../plugin/index.ts';
import { flattenMessages } from './chat-messages.ts';
import { continuedText } from './continued-message.ts';
import { iteratesContent, type RenderStyle, templateMessages, templateTools } from './render-style.ts';
import type { RenderChatOptions } from './text-tokenizer.ts';

/** A model's template, and what it is rendered with. */
export interface ChatTemplate {
  /** null = the model has none. */
  readonly template: Template | null;
  /** Whether it walks over the parts of a content. */
  readonly wantsParts: boolean;
  /** Variables such as `bos_token`. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** Names the model's tokenizer in messages. */
  readonly where: string;
  readonly style: RenderStyle;
}

/**
 * Parses a template.
 * @param text null = there is none.
 * @param where names it in messages.
 * @throws PointsmanError PM_TOKENIZER_INVALID
 */
export function parseTemplate(
  text: string | null,
  where: string,
): Pick<ChatTemplate, 'template' | 'wantsParts'> {
  if (text === null) return { template: null, wantsParts: false };
  try {
    return { template: new Template(text), wantsParts: iteratesContent(text) };
  } catch (cause) {
    throw new PointsmanError(
      'PM_TOKENIZER_INVALID',
      `${where} holds no chat template that parses (${errorText(cause)})`,
      { cause },
    );
  }
}

/** The prompt text of a chat; see `TextTokenizer.renderChat`. */
export function renderChat(
  { template, wantsParts, specialTokens, where, style }: ChatTemplate,
  messages: unknown,
  options: RenderChatOptions,
): string {
  if (template === null) {
    throw new PointsmanError(
      'PM_CHAT_TEMPLATE',
      `the tokenizer ${where} has no chat template; name one, or send completions`,
    );
  }
  const flat = flattenMessages(messages, style);
  try {
    const text = template.render({
      ...options.variables,
      ...specialTokens,
      messages: templateMessages(flat, messages, style, wantsParts),
      ...(options.tools === undefined ? null : { tools: templateTools(options.tools, style) }),
      add_generation_prompt: options.addGenerationPrompt,
    });
    return options.continueFinalMessage === true ? continuedText(text, flat.at(-1)?.content ?? '') : text;
  } catch (cause) {
    throw new PointsmanError(
      'PM_CHAT_TEMPLATE',
      `the chat template cannot render these ${flat.length} messages: ${errorText(cause)}`,
      { cause },
    );
  }
}

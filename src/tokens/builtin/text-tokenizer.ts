// One model's tokenizer and chat template, loaded from files and used synchronously. A 4k-token prompt takes 10 ms and more:
// the router calls this inside worker threads, the simulated engine directly on its short prompts.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { errorText, PointsmanError, systemReason } from '../../plugin/index.ts';
import { type AddedToken, readAddedTokens } from './added-tokens.ts';
import { type ChatTemplate, parseTemplate, renderChat } from './chat-template.ts';
import type { RenderStyle } from './render-style.ts';

/** How a chat is rendered. */
export interface RenderChatOptions {
  /** Whether the text ends where the assistant's answer begins. */
  readonly addGenerationPrompt: boolean;
  /** Whether the text ends inside the last message, which the engine is to continue; default no. */
  readonly continueFinalMessage?: boolean;
  /** Tool schemas of the request, as the template's `tools`. */
  readonly tools?: unknown;
  /** Further template variables (`chat_template_kwargs`); they cannot replace messages, tools or special tokens. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Text to token ids and back, for one model. All calls are synchronous. */
export interface TextTokenizer {
  /** Number of token ids, special tokens included. */
  readonly size: number;
  /** Tokens that it finds in the text before anything else looks at it. */
  readonly addedTokens: readonly AddedToken[];
  /** Whether it can render chats at all. */
  readonly hasTemplate: boolean;
  /**
   * Token ids of a text.
   * @param addSpecialTokens whether the model's own start and end tokens are added: yes for plain prompts (default), no for a
   *   rendered chat, whose template writes them.
   * @throws PointsmanError PM_TOKENIZER_FAILED
   */
  encode(text: string, addSpecialTokens?: boolean): Uint32Array;
  /**
   * The prompt text of a chat.
   * @param messages `messages` of the request, unchecked.
   * @throws PointsmanError PM_CHAT_INVALID for bad messages, PM_CHAT_TEMPLATE when the template refuses them or there is none.
   */
  renderChat(messages: unknown, options: RenderChatOptions): string;
  /**
   * Text of token ids, special tokens included; ids the model does not have give nothing, broken UTF-8 gives U+FFFD.
   * @throws PointsmanError PM_TOKENIZER_FAILED
   */
  decode(ids: Iterable<number>): string;
  /** Frees what is not this language's own memory; absent = there is none. */
  dispose?(): Promise<void>;
}

/**
 * Loads a tokenizer.
 * @param tokenizerPath a `tokenizer.json`; a `tokenizer_config.json` beside it supplies special tokens.
 * @param templatePath a Jinja chat template, or null: the `chat_template.jinja` beside the tokenizer, as newer models have it, else
 *   the one in `tokenizer_config.json`, if any.
 * @param style how messages and tools are handed to the template; default `plain`: as they are, text parts put together.
 * @throws PointsmanError PM_TOKENIZER_INVALID naming the file that is missing or does not parse.
 */
export function loadTextTokenizer(
  tokenizerPath: string,
  templatePath: string | null,
  style: RenderStyle = 'plain',
): TextTokenizer {
  const model = readJson(tokenizerPath);
  const configPath = join(dirname(tokenizerPath), 'tokenizer_config.json');
  const config = existsSync(configPath) ? readJson(configPath) : {};
  let tokenizer: Tokenizer;
  try {
    tokenizer = new Tokenizer(model, { clean_up_tokenization_spaces: false, ...config });
  } catch (cause) {
    throw invalid(tokenizerPath, `is no tokenizer.json this build reads (${errorText(cause)})`, cause);
  }
  const chatTemplate: ChatTemplate = {
    ...loadTemplate(templatePath ?? templateBeside(tokenizerPath), configPath, config),
    specialTokens: specialTokensOf(config),
    where: tokenizerPath,
    style,
  };
  return {
    size: tokenizer.get_vocab(true).size,
    addedTokens: readAddedTokens(model),
    hasTemplate: chatTemplate.template !== null,
    encode(text, addSpecialTokens = true) {
      try {
        return Uint32Array.from(tokenizer.encode(text, { add_special_tokens: addSpecialTokens }).ids);
      } catch (cause) {
        throw failed('encode a text', cause);
      }
    },
    renderChat: (messages, options) => renderChat(chatTemplate, messages, options),
    decode(ids) {
      const list = Array.from(ids);
      // The library refuses an empty list.
      if (list.length === 0) return '';
      try {
        return tokenizer.decode(list, { skip_special_tokens: false });
      } catch (cause) {
        throw failed('decode token ids', cause);
      }
    },
  };
}

/** Variables templates concatenate; one that is undefined would make them throw, so a missing one is empty. */
const SPECIAL_TOKENS = [
  'bos_token',
  'eos_token',
  'unk_token',
  'pad_token',
  'sep_token',
  'cls_token',
  'mask_token',
] as const;

function specialTokensOf(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const name of SPECIAL_TOKENS) {
    const value = config[name];
    if (typeof value === 'string') tokens[name] = value;
    else if (isObject(value) && typeof value.content === 'string') tokens[name] = value.content;
    else tokens[name] = '';
  }
  return tokens;
}

function templateBeside(tokenizerPath: string): string | null {
  const path = join(dirname(tokenizerPath), 'chat_template.jinja');
  return existsSync(path) ? path : null;
}

function loadTemplate(
  templatePath: string | null,
  configPath: string,
  config: Readonly<Record<string, unknown>>,
): ReturnType<typeof parseTemplate> {
  const text = templatePath === null ? config.chat_template : readText(templatePath);
  return parseTemplate(typeof text === 'string' ? text : null, templatePath ?? configPath);
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw invalid(path, `cannot be read: ${systemReason(cause)}`, cause);
  }
}

function readJson(path: string): Record<string, unknown> {
  const text = readText(path);
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw invalid(path, `is not JSON (${errorText(cause)})`, cause);
  }
  throw invalid(path, 'must hold a JSON object');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(path: string, problem: string, cause?: unknown): PointsmanError {
  return new PointsmanError('PM_TOKENIZER_INVALID', `${path} ${problem}`, { cause });
}

/** The library's own words may quote the text, which is somebody's prompt: only the kind of its error is told. */
function failed(doing: string, cause: unknown): PointsmanError {
  const kind = cause instanceof Error ? cause.name : typeof cause;
  return new PointsmanError('PM_TOKENIZER_FAILED', `the tokenizer could not ${doing} (${kind})`, { cause });
}

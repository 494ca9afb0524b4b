// Token ids from llama.cpp's server: `/apply-template` renders a chat, `/tokenize` gives ids. The server adds the model's start token
// to every prompt where the model wants one, and reads special tokens in the text, so both are asked for.
import { PointsmanError } from '../../plugin/index.ts';
import { askAt, idsOf, type Post, type TokensAnswer, type TokensQuestion } from '../engine-tokens.ts';
import { isJsonObject } from '../json-value.ts';

const TEMPLATE = '/apply-template';
const TOKENIZE = '/tokenize';

/** Asks for the rendered chat first, then for its ids. */
export async function llamacppTokens(
  question: TokensQuestion,
  _servedAs: string,
  post: Post,
  absent: Set<string>,
): Promise<TokensAnswer> {
  const content = question.kind === 'prompt' ? question.text : await rendered(question.chat, post, absent);
  if (typeof content !== 'string') return content.none;
  const asked = await askAt(TOKENIZE, { content, add_special: true, parse_special: true }, post, absent);
  if (asked === 'refused') return 'refused';
  return asked === 'absent' ? 'unable' : idsOf(asked.json, 'tokens', TOKENIZE);
}

async function rendered(
  chat: Extract<TokensQuestion, { kind: 'chat' }>['chat'],
  post: Post,
  absent: Set<string>,
): Promise<string | { readonly none: 'refused' | 'unable' }> {
  // The server continues a last message of the assistant by itself, and has its own template alone.
  if ((chat.ownTemplate ?? null) !== null) return { none: 'unable' };
  const body = {
    messages: chat.messages,
    ...(chat.tools === undefined ? {} : { tools: chat.tools }),
    add_generation_prompt: chat.addGenerationPrompt,
    chat_template_kwargs: chat.variables,
  };
  const asked = await askAt(TEMPLATE, body, post, absent);
  if (asked === 'refused') return { none: 'refused' };
  if (asked === 'absent') return { none: 'unable' };
  if (isJsonObject(asked.json) && typeof asked.json.prompt === 'string') return asked.json.prompt;
  throw new PointsmanError(
    'PM_ENGINE_FAILED',
    `the engine's answer to POST ${TEMPLATE} has no text "prompt"`,
  );
}

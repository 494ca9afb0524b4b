// Token ids from vLLM's own renderer: the `render` endpoints of newer servers, `/tokenize` of all.
import {
  askAt,
  idsOf,
  type Post,
  type TokensAnswer,
  type TokensQuestion,
  type TokensTruncation,
} from '../engine-tokens.ts';
import type { JsonObject } from '../json-value.ts';

const RENDER_CHAT = '/v1/chat/completions/render';
const RENDER_PROMPT = '/v1/completions/render';
const TOKENIZE = '/tokenize';

/** Asks the render endpoint, and `/tokenize` where there is none: it knows no truncation, so the asker shortens. */
export async function vllmTokens(
  question: TokensQuestion,
  servedAs: string,
  post: Post,
  absent: Set<string>,
): Promise<TokensAnswer> {
  const { path, render, tokenize } = bodiesOf(question, servedAs);
  const rendered = await askAt(path, render, post, absent);
  if (rendered === 'refused') return 'refused';
  if (rendered !== 'absent') {
    // A completion may hold several prompts, so its answer is a list; a chat's is one object.
    const answer: unknown = Array.isArray(rendered.json) ? rendered.json[0] : rendered.json;
    return idsOf(answer, 'token_ids', path);
  }
  const asked = await askAt(TOKENIZE, tokenize, post, absent);
  if (asked === 'refused') return 'refused';
  return asked === 'absent' ? 'unable' : idsOf(asked.json, 'tokens', TOKENIZE);
}

function bodiesOf(
  question: TokensQuestion,
  model: string,
): { readonly path: string; readonly render: JsonObject; readonly tokenize: JsonObject } {
  if (question.kind === 'prompt') {
    const prompt = { model, prompt: question.text, add_special_tokens: question.addSpecialTokens };
    return {
      path: RENDER_PROMPT,
      render: { ...prompt, ...truncationFields(question.truncation) },
      tokenize: prompt,
    };
  }
  const { chat } = question;
  const shared = {
    model,
    messages: chat.messages,
    ...(chat.tools === undefined ? {} : { tools: chat.tools }),
    add_generation_prompt: chat.addGenerationPrompt,
    continue_final_message: chat.continueFinalMessage === true,
    add_special_tokens: chat.addSpecialTokens,
    chat_template_kwargs: chat.variables,
    ...((chat.ownTemplate ?? null) === null ? {} : { chat_template: chat.ownTemplate }),
  };
  return {
    path: RENDER_CHAT,
    // Without the tensors of images, which are large and of no use here.
    render: { ...shared, ...truncationFields(chat.truncation ?? null), return_mm_kwargs: false },
    tokenize: shared,
  };
}

function truncationFields(truncation: TokensTruncation | null): JsonObject {
  if (truncation === null) return {};
  return { truncate_prompt_tokens: truncation.tokens, truncation_side: truncation.side };
}

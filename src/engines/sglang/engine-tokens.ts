// Token ids from SGLang's `/tokenize`. It takes prompts; newer servers take messages too, older ones refuse a body without a prompt.
import { askAt, idsOf, type Post, type TokensAnswer, type TokensQuestion } from '../engine-tokens.ts';

const TOKENIZE = '/tokenize';
/** Stands for messages at `/tokenize`, which not every server takes. */
const TOKENIZE_CHAT = '/tokenize (messages)';

/** Asks `/tokenize`. */
export async function sglangTokens(
  question: TokensQuestion,
  model: string,
  post: Post,
  absent: Set<string>,
): Promise<TokensAnswer> {
  if (question.kind === 'prompt') {
    const body = { model, prompt: question.text, add_special_tokens: question.addSpecialTokens };
    return answerOf(await askAt(TOKENIZE, body, post, absent));
  }
  if (absent.has(TOKENIZE_CHAT)) return 'unable';
  const { chat } = question;
  // What this body cannot say would come back as the ids of another prompt.
  if (chat.continueFinalMessage === true || (chat.ownTemplate ?? null) !== null) return 'unable';
  const body = {
    model,
    messages: chat.messages,
    ...(chat.tools === undefined ? {} : { tools: chat.tools }),
    add_generation_prompt: chat.addGenerationPrompt,
    add_special_tokens: chat.addSpecialTokens,
    chat_template_kwargs: chat.variables,
  };
  const asked = await askAt(TOKENIZE, body, post, absent);
  if (asked !== 'refused') return answerOf(asked);
  // A refusal does not say what it is about: this prompt, or messages of any kind.
  const ping = { model, messages: [{ role: 'user', content: 'ping' }] };
  if ((await askAt(TOKENIZE, ping, post, absent)) !== 'refused') return 'refused';
  absent.add(TOKENIZE_CHAT);
  return 'unable';
}

function answerOf(asked: Awaited<ReturnType<typeof askAt>>): TokensAnswer {
  if (asked === 'refused') return 'refused';
  if (asked === 'absent') return 'unable';
  return idsOf(asked.json, 'tokens', TOKENIZE);
}

// Holds the router's ids of a prompt against an engine's. Where they part, every block from there on has another hash, and the router
// finds nothing of what the engine has: so it is said where, and what most likely causes it.

/** What is known of the router's tokenizer. */
export interface TokenFacts {
  /** Number of token ids, special ones included. */
  readonly size: number;
  /** Ids that stand for special tokens. */
  readonly specialIds: ReadonlySet<number>;
}

/** What most likely makes two lists of ids differ. */
export type TokenDifference =
  /** The engine begins with a start token that the router leaves out. */
  | 'start_token_missing'
  /** The router begins with a start token that the engine leaves out. */
  | 'start_token_extra'
  /** The engine begins with its start token twice. */
  | 'start_token_doubled'
  /** One is the beginning or the end of the other. */
  | 'truncated'
  /** They end differently: the beginning of the answer, or a start token at the end. */
  | 'generation_prompt'
  /** They have hardly an id in common, or the engine has ids that the router's vocabulary does not. */
  | 'other_vocabulary'
  /** Other special tokens, or the same in another order. */
  | 'other_template'
  /** The same special tokens, but other text between them. */
  | 'other_text';

/** What a comparison found. */
export type TokenAgreement =
  | { readonly agrees: true; readonly tokens: number }
  | {
      readonly agrees: false;
      /** First place where they differ, from 0; the shorter length where one begins with the other. */
      readonly at: number;
      readonly routerTokens: number;
      readonly engineTokens: number;
      readonly cause: TokenDifference;
      /** Cause and remedy in a sentence without any text of the prompt. */
      readonly words: string;
    };

/** Fewer ids in common than this share of the shorter list are chance. */
const HARDLY_ANY = 0.2;
/** More than the beginning of an answer takes. */
const LONGEST_GENERATION_PROMPT = 24;

/**
 * Compares the ids of one prompt.
 * @param router ids of the router.
 * @param engine ids of the engine for the same prompt.
 * @param facts of the router's tokenizer; null = it has none, so that special tokens are not told from others.
 */
export function compareTokens(
  router: Uint32Array,
  engine: Uint32Array,
  facts: TokenFacts | null,
): TokenAgreement {
  const at = commonStart(router, engine);
  if (at === router.length && at === engine.length) return { agrees: true, tokens: at };
  const cause = causeOf(router, engine, facts, at);
  const words = `${WORDS[cause]} (first at token ${at} of ${router.length} here, ${engine.length} there)`;
  return { agrees: false, at, routerTokens: router.length, engineTokens: engine.length, cause, words };
}

const WORDS: Readonly<Record<TokenDifference, string>> = {
  start_token_missing:
    'the engine puts a start token before the prompt that the router does not: use the tokenizer_config.json and chat template that the engine was started with',
  start_token_extra:
    'the router puts a start token before the prompt that the engine does not: use the tokenizer_config.json and chat template that the engine was started with',
  start_token_doubled:
    'the engine puts its start token before a prompt whose template wrote one already: start it with a template without it, or send add_special_tokens: false',
  truncated:
    'one of the two cut the prompt off: compare the longest prompt of the engine with limits.prompt_tokens, and truncate_prompt_tokens of the request',
  generation_prompt:
    'they end differently: add_generation_prompt, continue_final_message or thinking is set otherwise on one side',
  other_vocabulary:
    'they have hardly a token in common: the tokenizer.json here belongs to another model, or to another revision of it',
  other_template:
    'the special tokens between the messages differ: the chat template here is not the one the engine uses; copy the one it was started with, or use tokens: { source: engine }',
  other_text:
    'the special tokens agree, but not the text between them: a date, tool schemas, or the way parts of a message are put together differ; set tokens.render_as to the engine, or use tokens: { source: engine }',
};

function causeOf(
  router: Uint32Array,
  engine: Uint32Array,
  facts: TokenFacts | null,
  at: number,
): TokenDifference {
  // From the most to the least certain.
  if (engine[0] !== undefined && engine[0] === engine[1] && same(engine.subarray(1), router))
    return 'start_token_doubled';
  if (same(engine.subarray(1), router)) return 'start_token_missing';
  if (same(router.subarray(1), engine)) return 'start_token_extra';
  const shorter = Math.min(router.length, engine.length);
  const longer = router.length > engine.length ? router : engine;
  if (at === shorter) {
    const rest = longer.subarray(at);
    const isMarked = facts === null || rest.some((id) => facts.specialIds.has(id));
    return rest.length <= LONGEST_GENERATION_PROMPT && isMarked ? 'generation_prompt' : 'truncated';
  }
  if (shorter > 0 && commonEnd(router, engine) === shorter) {
    // Cut exactly where a message begins, or one more message there: a system prompt that a template adds.
    const begins = (ids: Uint32Array): boolean => facts?.specialIds.has(ids[0] ?? -1) ?? false;
    return begins(router) && begins(engine) ? 'other_template' : 'truncated';
  }
  if (facts !== null && engine.some((id) => id >= facts.size)) return 'other_vocabulary';
  if (shared(router, engine) < HARDLY_ANY * shorter) return 'other_vocabulary';
  if (facts === null) return 'other_text';
  const specials = (ids: Uint32Array): Uint32Array => ids.filter((id) => facts.specialIds.has(id));
  return same(specials(router), specials(engine)) ? 'other_text' : 'other_template';
}

function commonStart(a: Uint32Array, b: Uint32Array): number {
  const end = Math.min(a.length, b.length);
  let at = 0;
  while (at < end && a[at] === b[at]) at += 1;
  return at;
}

function commonEnd(a: Uint32Array, b: Uint32Array): number {
  const end = Math.min(a.length, b.length);
  let count = 0;
  while (count < end && a[a.length - 1 - count] === b[b.length - 1 - count]) count += 1;
  return count;
}

/** Ids in both, each as often as the list that has it less often. */
function shared(a: Uint32Array, b: Uint32Array): number {
  const counts = new Map<number, number>();
  for (const id of a) counts.set(id, (counts.get(id) ?? 0) + 1);
  let common = 0;
  for (const id of b) {
    const left = counts.get(id) ?? 0;
    if (left === 0) continue;
    counts.set(id, left - 1);
    common += 1;
  }
  return common;
}

function same(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}

// Engines as tokenizers: the port between the questions of a dialect and the HTTP that carries them. What is asked and how the answer
// is read is the dialect's business.

import { PointsmanError } from '../plugin/index.ts';
import { isJsonObject, type JsonObject } from './json-value.ts';

/** A prompt whose token ids are asked for. */
export type TokensQuestion =
  | {
      readonly kind: 'prompt';
      readonly text: string;
      readonly addSpecialTokens: boolean;
      readonly truncation: TokensTruncation | null;
    }
  | {
      readonly kind: 'chat';
      readonly chat: {
        readonly messages: readonly unknown[];
        readonly tools: unknown;
        readonly addGenerationPrompt: boolean;
        readonly addSpecialTokens: boolean;
        readonly continueFinalMessage?: boolean;
        /** `chat_template_kwargs`. */
        readonly variables: Readonly<Record<string, unknown>>;
        readonly ownTemplate?: string | null;
        readonly truncation?: TokensTruncation | null;
      };
    };

/** How a prompt is shortened. */
export interface TokensTruncation {
  readonly tokens: number;
  readonly side: 'left' | 'right';
}

/** `refused` = it will not tokenize this prompt (4xx); `unable` = it has no endpoint for it. */
export type TokensAnswer = Uint32Array | 'refused' | 'unable';

/** What one engine answered to a POST. */
export interface PostAnswer {
  readonly status: number;
  /** Parsed; null where it is no JSON. */
  readonly json: unknown;
}

/** Posts JSON to one engine. @throws PointsmanError PM_ENGINE_UNREACHABLE */
export type Post = (path: string, body: JsonObject) => Promise<PostAnswer>;

/**
 * How the engines of one dialect are asked.
 * @param servedAs the model's name as the engine knows it.
 * @param absent paths that this engine was found not to have; readers add to it, so that each is tried once.
 * @throws PointsmanError PM_ENGINE_UNREACHABLE, PM_ENGINE_FAILED
 */
export type TokensReader = (
  question: TokensQuestion,
  servedAs: string,
  post: Post,
  absent: Set<string>,
) => Promise<TokensAnswer>;

/** `absent` = the engine has no such endpoint. */
export type Asked = { readonly json: unknown } | 'refused' | 'absent';

const NOT_THERE: ReadonlySet<number> = new Set([404, 405, 501]);
/** Says "not now", and nothing of the prompt. */
const NOT_NOW: ReadonlySet<number> = new Set([401, 403, 408, 429]);

/** Posts a question to a path that the engine may not have. @throws PointsmanError PM_ENGINE_UNREACHABLE, PM_ENGINE_FAILED */
export async function askAt(path: string, body: JsonObject, post: Post, absent: Set<string>): Promise<Asked> {
  if (absent.has(path)) return 'absent';
  const { status, json } = await post(path, body);
  if (status === 200) return { json };
  if (isUnknownModel(json)) {
    throw new PointsmanError(
      'PM_ENGINE_FAILED',
      `the engine answered POST ${path} that it has no such model`,
      {
        details: { engine_status: status },
      },
    );
  }
  if (NOT_THERE.has(status)) {
    absent.add(path);
    return 'absent';
  }
  if (status >= 400 && status < 500 && !NOT_NOW.has(status)) return 'refused';
  throw new PointsmanError('PM_ENGINE_FAILED', `the engine answered POST ${path} with status ${status}`, {
    details: { engine_status: status },
  });
}

/** vLLM's 404 for a name that it does not serve, an adapter not yet loaded maybe: of the path it says nothing. */
function isUnknownModel(json: unknown): boolean {
  if (!isJsonObject(json)) return false;
  const error = isJsonObject(json.error) ? json.error : json;
  // The simulated engine says the same of a path that it does not have.
  return error.type === 'NotFoundError' && /\bmodel\b/i.test(String(error.message));
}

const MAX_ID = 0xffffffff;

/**
 * The ids in one field of an answer.
 * @throws PointsmanError PM_ENGINE_FAILED for anything that is not a list of ids.
 */
export function idsOf(json: unknown, field: string, path: string): Uint32Array {
  const list: unknown = isJsonObject(json) ? json[field] : null;
  if (!Array.isArray(list)) throw unreadable(path, `has no list "${field}"`);
  const ids = new Uint32Array(list.length);
  for (let index = 0; index < list.length; index += 1) {
    const id: unknown = list[index];
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > MAX_ID)
      throw unreadable(path, `holds something else than a token id at ${field}[${index}]`);
    ids[index] = id;
  }
  return ids;
}

function unreadable(path: string, problem: string): PointsmanError {
  return new PointsmanError('PM_ENGINE_FAILED', `the engine's answer to POST ${path} ${problem}`);
}

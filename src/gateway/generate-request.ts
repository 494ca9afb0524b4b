// Checks what chat and completion requests have in common, and what the road must know of either. Fields that only the engine
// reads pass through unchecked.
import type { RequestApi } from '../engines/index.ts';
import type { Truncation } from '../tokens/index.ts';
import { type ChatPart, readChat } from './chat-request.ts';
import { readPrompt } from './completion-prompt.ts';
import {
  booleanField,
  integerField,
  invalidField,
  type JsonObject,
  objectField,
  textField,
} from './request-fields.ts';
import { readTruncation } from './truncation-fields.ts';

/** A well-formed request to generate. */
export interface GenerateRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly prompt:
    | { readonly api: 'chat'; readonly chat: ChatPart }
    | {
        readonly api: 'completions';
        readonly prompt: string | readonly unknown[];
        readonly addSpecialTokens: boolean;
        /** Absent = the prompt is not shortened. */
        readonly truncation?: Truncation;
      };
  readonly maxOutputTokens: number;
  readonly cacheSalt: string | null;
}

const MAX_OUTPUT = 0x7fffffff;
/** What OpenAI and vLLM generate for a completion that names no limit. */
const COMPLETION_OUTPUT_TOKENS = 16;
/** What the router reckons with for a chat that names no limit; the engine's own default decides. */
const CHAT_OUTPUT_TOKENS = 4096;
const MAX_MODEL_NAME = 512;
const MAX_SALT = 1024;

/** Reads a body after ingress. @throws PointsmanError PM_REQUEST_INVALID */
export function readGenerateRequest(api: RequestApi, body: JsonObject): GenerateRequest {
  const model = textField(body, 'model', MAX_MODEL_NAME);
  if (model === null) throw invalidField('model', 'is missing; it must name a model of GET /v1/models');
  const stream = booleanField(body, 'stream') ?? false;
  const options = objectField(body, 'stream_options');
  if (options !== null && !stream)
    throw invalidField('stream_options', 'is only allowed together with stream: true');
  if (options !== null) booleanField(options, 'include_usage');
  oneAnswer(body, 'n');
  oneAnswer(body, 'best_of');
  const maxTokens = integerField(body, 'max_tokens', 1, MAX_OUTPUT);
  const shared = { model, stream, cacheSalt: textField(body, 'cache_salt', MAX_SALT) };
  if (api === 'chat') {
    const limit = integerField(body, 'max_completion_tokens', 1, MAX_OUTPUT) ?? maxTokens;
    return {
      ...shared,
      prompt: { api, chat: readChat(body) },
      maxOutputTokens: limit ?? CHAT_OUTPUT_TOKENS,
    };
  }
  const truncation = readTruncation(body);
  return {
    ...shared,
    prompt: {
      api,
      prompt: readPrompt(body.prompt),
      addSpecialTokens: booleanField(body, 'add_special_tokens') ?? true,
      ...(truncation === null ? {} : { truncation }),
    },
    maxOutputTokens: maxTokens ?? COMPLETION_OUTPUT_TOKENS,
  };
}

/** Several answers to one prompt would be several loads under one booking. */
function oneAnswer(body: JsonObject, name: string): void {
  const value = body[name] ?? 1;
  if (value !== 1) throw invalidField(name, 'must be 1; send one request per answer');
}

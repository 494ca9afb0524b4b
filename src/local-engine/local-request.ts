// What a client asks of an engine in this process. What cannot be done is refused in words, never done half.
import type { EngineRequest } from '../engines/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { Sampling } from './types.ts';

const MAX_STOPS = 16;
const MAX_STOP_LENGTH = 1024;
const MAX_SALT = 1024;
/** llama.cpp's own defaults. */
const TEMPERATURE = 0.8;
const TOP_K = 40;
const TOP_P = 0.95;
const MIN_P = 0.05;
const MAX_SEED = 2 ** 32 - 1;

/** A request as the engine runs it. */
export interface LocalRequest {
  readonly tokens: Uint32Array;
  readonly maxOutputTokens: number;
  readonly sampling: Sampling;
  readonly stops: readonly string[];
  /** Only requests of the same one share KV; null = none was given. */
  readonly cacheSalt: string | null;
  /** Goes on where the model would end. */
  readonly ignoresEnd: boolean;
}

/** Fields that change what an answer is, and the values that ask for nothing. */
const UNSUPPORTED: readonly (readonly [string, (value: unknown) => boolean])[] = [
  ['n', (value) => value === 1],
  ['best_of', (value) => value === 1],
  ['logprobs', (value) => value === false || value === 0],
  ['top_logprobs', (value) => value === 0],
  ['echo', (value) => value === false],
  ['suffix', (value) => value === ''],
  ['logit_bias', isEmptyObject],
  [
    'response_format',
    (value) => typeof value === 'object' && value !== null && 'type' in value && value.type === 'text',
  ],
];

/**
 * Reads a request.
 * @param room most tokens of prompt and answer together.
 * @param seed what is drawn with where the client names none.
 * @throws PointsmanError PM_ENGINE_REFUSED, PM_ENGINE_REQUEST
 */
export function readLocalRequest(request: EngineRequest, room: number, seed: number): LocalRequest {
  const { api, tokens } = request;
  const body = request.body ?? {};
  if (tokens === null) {
    throw refused('the prompt has no exact token ids: this engine takes text only, and no images');
  }
  if ((request.handoff ?? null) !== null) throw refused('this engine hands no KV over');
  for (const [field, asksNothing] of UNSUPPORTED) {
    const value = body[field] ?? null;
    if (value !== null && !asksNothing(value)) throw refused(`${field} is not supported by this engine`);
  }
  if (tokens.length >= room) {
    throw refused(
      `the prompt has ${tokens.length} tokens, but a sequence of this engine holds ${room}, with at least one of answer`,
    );
  }
  const asked =
    body.max_completion_tokens ?? body.max_tokens ?? (api === 'completions' ? request.maxOutputTokens : room);
  return {
    tokens,
    maxOutputTokens: Math.min(whole(asked, 'max_tokens', 1, Number.MAX_SAFE_INTEGER), room - tokens.length),
    sampling: {
      temperature: decimal(body.temperature, 'temperature', 0, 2, TEMPERATURE),
      topP: decimal(body.top_p, 'top_p', 0, 1, TOP_P),
      topK: whole(body.top_k ?? TOP_K, 'top_k', -1, 1_000_000),
      minP: decimal(body.min_p, 'min_p', 0, 1, MIN_P),
      seed: whole(body.seed ?? seed, 'seed', 0, MAX_SEED),
      frequencyPenalty: decimal(body.frequency_penalty, 'frequency_penalty', -2, 2, 0),
      presencePenalty: decimal(body.presence_penalty, 'presence_penalty', -2, 2, 0),
    },
    stops: stopsOf(body.stop),
    cacheSalt: saltOf(body.cache_salt ?? null),
    ignoresEnd: body.ignore_eos === true,
  };
}

function saltOf(value: unknown): string | null {
  if (value === null) return null;
  if (typeof value === 'string' && value !== '' && value.length <= MAX_SALT) return value;
  throw refused(`cache_salt must be a text of 1 to ${MAX_SALT} characters`);
}

function stopsOf(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.filter((stop): stop is string => typeof stop === 'string' && stop !== '');
  const fits = texts.length === list.length && texts.length <= MAX_STOPS;
  if (fits && texts.every((stop) => stop.length <= MAX_STOP_LENGTH)) return texts;
  throw refused(
    `stop must be a text or up to ${MAX_STOPS} of them, each of 1 to ${MAX_STOP_LENGTH} characters`,
  );
}

function decimal(value: unknown, field: string, least: number, most: number, fallback: number): number {
  const number = value ?? fallback;
  if (typeof number === 'number' && number >= least && number <= most) return number;
  throw refused(`${field} must be a number from ${least} to ${most}`);
}

function whole(value: unknown, field: string, least: number, most: number): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number === 'number' && Number.isInteger(number) && number >= least)
    return Math.min(number, most);
  throw refused(`${field} must be a whole number of at least ${least}`);
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function refused(sentence: string): PointsmanError {
  return new PointsmanError('PM_ENGINE_REFUSED', sentence, { details: { engine_status: 400 } });
}

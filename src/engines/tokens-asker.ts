// Asks engines for token ids over HTTP, on connections of its own: a long answer to generate must not stand before a short question.
import { Agent, request } from 'undici';
import type { Worker } from '../fleet/index.ts';
import { errorText, exactJsonStringify, PointsmanError } from '../plugin/index.ts';
import { DIALECTS, dialectOf } from './dialects.ts';
import type { Post, TokensAnswer, TokensQuestion, TokensReader } from './engine-tokens.ts';
import { llamacppTokens } from './llamacpp/engine-tokens.ts';
import { sglangTokens } from './sglang/engine-tokens.ts';
import { vllmTokens } from './vllm/engine-tokens.ts';

/** Dialects whose engines can tokenize, by name. The simulated engine answers as vLLM does. */
const READERS: ReadonlyMap<string, TokensReader> = new Map([
  ['vllm', vllmTokens],
  ['sim', vllmTokens],
  ['sglang', sglangTokens],
  ['llamacpp', llamacppTokens],
]);

/** A million ids of seven digits, with what else a render answer holds. */
const MAX_ANSWER_BYTES = 16 * 2 ** 20;
/** Per engine. */
const MAX_CONNECTIONS = 16;
const CONNECT_TIMEOUT_MS = 2_000;
/** Engines drop idle connections after 5 s. */
const KEEP_ALIVE_MS = 4_000;

/** Asks engines for token ids. */
export interface TokensAsker {
  /** Whether the dialect of a worker has a way of tokenizing. */
  canAsk(worker: Worker): boolean;
  /**
   * Ids of a prompt from one worker's engine.
   * @param servedAs the model's name as the engine knows it.
   * @param signal ends the question early.
   * @throws PointsmanError PM_ENGINE_UNREACHABLE, PM_ENGINE_FAILED
   */
  ask(worker: Worker, servedAs: string, question: TokensQuestion, signal: AbortSignal): Promise<TokensAnswer>;
  /** Forgets what is known of an engine: another one may come at its address. */
  forget(url: string): void;
  close(): Promise<void>;
}

/** Creates one. */
export function createTokensAsker(): TokensAsker {
  const agent = new Agent({
    connections: MAX_CONNECTIONS,
    connect: { timeout: CONNECT_TIMEOUT_MS },
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  const absentAt = new Map<string, Set<string>>();
  return {
    canAsk: (worker) => readerOf(worker) !== null,
    async ask(worker, servedAs, question, signal) {
      const reader = readerOf(worker);
      if (reader === null) return 'unable';
      const { url } = worker.spec;
      let absent = absentAt.get(url);
      if (absent === undefined) {
        absent = new Set();
        absentAt.set(url, absent);
      }
      return reader(question, servedAs, postTo(url, agent, signal), absent);
    },
    forget: (url) => void absentAt.delete(url),
    close: () => agent.destroy(),
  };
}

function readerOf(worker: Worker): TokensReader | null {
  const { dialect } = worker.spec;
  const named = READERS.get(dialect);
  if (named !== undefined) return named;
  try {
    return READERS.get(dialectOf(worker, DIALECTS).name) ?? null;
  } catch {
    // What it speaks is not known yet.
    return null;
  }
}

function postTo(url: string, dispatcher: Agent, signal: AbortSignal): Post {
  const base = url.replace(/\/$/, '');
  return async (path, body) => {
    try {
      const { statusCode, body: answer } = await request(base + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: exactJsonStringify(body),
        dispatcher,
        signal,
      });
      const parts: Buffer[] = [];
      let size = 0;
      for await (const part of answer) {
        const bytes = Buffer.from(part);
        size += bytes.length;
        if (size > MAX_ANSWER_BYTES) throw new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
        parts.push(bytes);
      }
      return { status: statusCode, json: parsed(Buffer.concat(parts).toString('utf8')) };
    } catch (thrown) {
      throw new PointsmanError(
        'PM_ENGINE_UNREACHABLE',
        `the engine did not answer POST ${path}: ${errorText(thrown)}`,
        { cause: thrown },
      );
    }
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

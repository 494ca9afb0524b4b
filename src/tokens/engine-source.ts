// Asks a model's own engines for the ids of its prompts. Every wait and every memory has a bound, and whatever goes wrong ends as an
// estimate with its reason, never as a failed request.
import { hash } from 'node:crypto';
import type { Metrics } from '../observe/index.ts';
import { type Clock, exactJsonStringify } from '../plugin/index.ts';
import type { EngineAnswer, EngineQuestion, EngineTokenizer, TokenizingEngine } from './engine-tokenizer.ts';
import { IdCache } from './id-cache.ts';
import { truncated } from './truncation.ts';
import type { EstimateReason } from './types.ts';

/** What asking needs. */
export interface EngineSourceOptions {
  readonly model: string;
  readonly engines: EngineTokenizer;
  /** Most time from question to ids, waiting and second tries included, in ms. */
  readonly timeoutMs: number;
  /** Questions at once; further ones wait. */
  readonly concurrency: number;
  /** Memory for answers, in bytes; 0 = none. */
  readonly cacheBytes: number;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Why engines gave no ids. */
export type EngineFailure = Extract<
  EstimateReason,
  'engine_refused' | 'engine_silent' | 'engine_busy' | 'no_engine'
>;

/** Engines asked for one prompt. */
const TRIES = 2;
/** Questions that wait for one under way; beyond it prompts are estimated at once. */
const MAX_WAITING = 256;

/** The engines of one model as a tokenizer. */
export class EngineSource {
  readonly #options: EngineSourceOptions;
  readonly #cache: IdCache;
  readonly #waiting: (() => void)[] = [];
  /** Those under way; they end when the source closes. */
  readonly #running = new Set<AbortController>();
  /** Taken by questions under way; passed on to one that waits, so that no new one takes it before that has woken. */
  #places = 0;
  #next = 0;
  #lastFailure: EngineFailure | null = null;
  #closed = false;

  constructor(options: EngineSourceOptions) {
    this.#options = options;
    this.#cache = new IdCache(options.cacheBytes);
  }

  /** Memory of kept answers, in bytes. */
  get cachedBytes(): number {
    return this.#cache.bytes;
  }

  /** What is wrong now, in a sentence that follows the model's name; null = the latest question was answered, or there was none. */
  get trouble(): string | null {
    return this.#lastFailure === null ? null : TROUBLES[this.#lastFailure];
  }

  /** Ids, or why there are none. Never rejects. */
  async ask(question: EngineQuestion): Promise<Uint32Array | EngineFailure> {
    const key = keyOf(question);
    const kept = key === null ? undefined : this.#cache.get(key);
    if (kept !== undefined) {
      this.#count('cached');
      return kept;
    }
    const result = await this.#bounded(question);
    if (typeof result === 'string') {
      // A refusal is about the prompt: it says nothing of the engines.
      if (result !== 'engine_refused') this.#lastFailure = result;
      this.#count(result);
      return result;
    }
    this.#lastFailure = null;
    this.#count('answered');
    if (key !== null) this.#cache.set(key, result);
    return result;
  }

  /** Ends what is under way; what waits is not asked any more. */
  close(): void {
    this.#closed = true;
    for (const controller of this.#running) controller.abort();
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async #bounded(question: EngineQuestion): Promise<Uint32Array | EngineFailure> {
    const { clock, timeoutMs, concurrency } = this.#options;
    const deadline = clock.now() + timeoutMs;
    if (this.#places < concurrency) this.#places += 1;
    else if (!(await this.#turn(timeoutMs))) return 'engine_busy';
    const controller = new AbortController();
    this.#running.add(controller);
    try {
      return this.#closed ? 'engine_silent' : await this.#tries(question, controller, deadline);
    } finally {
      this.#running.delete(controller);
      const next = this.#waiting.shift();
      if (next === undefined) this.#places -= 1;
      else next();
    }
  }

  /** Waits for one under way to end; false = it took too long, or too many wait. */
  #turn(ms: number): Promise<boolean> {
    if (this.#waiting.length >= MAX_WAITING) return Promise.resolve(false);
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        resolve(true);
      };
      const cancel = this.#options.clock.schedule(ms, () => {
        const at = this.#waiting.indexOf(wake);
        if (at >= 0) this.#waiting.splice(at, 1);
        resolve(false);
      });
      this.#waiting.push(wake);
    });
  }

  async #tries(
    question: EngineQuestion,
    controller: AbortController,
    deadline: number,
  ): Promise<Uint32Array | EngineFailure> {
    const engines = this.#options.engines.engines(this.#options.model);
    // Round the fleet: no engine gets all questions.
    const first = this.#next;
    this.#next = (this.#next + 1) % Number.MAX_SAFE_INTEGER;
    let failure: EngineFailure = 'no_engine';
    let asked = 0;
    for (let index = 0; index < engines.length && asked < TRIES && !this.#closed; index += 1) {
      const engine = engines[(first + index) % engines.length];
      const left = deadline - this.#options.clock.now();
      if (engine === undefined || left <= 0) break;
      // The first of two leaves half of the time to the second.
      const isLast = asked === TRIES - 1 || index === engines.length - 1;
      const answer = await this.#one(engine, question, controller, isLast ? left : left / 2);
      if (answer instanceof Uint32Array) return answer;
      if (answer === 'refused') return 'engine_refused';
      // One that cannot answered at once, and cost nothing.
      if (answer === 'silent') {
        asked += 1;
        failure = 'engine_silent';
      }
    }
    return failure;
  }

  /** `silent` = it failed, or did not answer in time. */
  async #one(
    engine: TokenizingEngine,
    question: EngineQuestion,
    outer: AbortController,
    ms: number,
  ): Promise<EngineAnswer | 'silent'> {
    const inner = new AbortController();
    const abort = (): void => inner.abort();
    outer.signal.addEventListener('abort', abort, { once: true });
    let cancel: () => void = () => {};
    const late = new Promise<'silent'>((resolve) => {
      cancel = this.#options.clock.schedule(ms, () => resolve('silent'));
      inner.signal.addEventListener('abort', () => resolve('silent'), { once: true });
    });
    const answer = engine.tokenize(question, inner.signal).then(
      (ids) => (ids instanceof Uint32Array ? truncated(ids, truncationOf(question)) : ids),
      (): 'silent' => 'silent',
    );
    try {
      return await Promise.race([answer, late]);
    } finally {
      cancel();
      outer.signal.removeEventListener('abort', abort);
      abort();
    }
  }

  #count(outcome: 'answered' | 'cached' | EngineFailure): void {
    this.#options.metrics.count('pointsman_engine_tokenize_total', { model: this.#options.model, outcome });
  }
}

const TROUBLES: Readonly<Record<EngineFailure, string>> = {
  engine_refused: 'is refused token ids by its engines',
  engine_silent:
    'got no token ids from its engines in time, so prompts are routed by an estimate and find no cached blocks; look at their logs, or use tokens: { source: local }',
  engine_busy:
    'asks its engines for more token ids than they answer, so prompts are routed by an estimate; raise tokens.concurrency, or use tokens: { source: local }',
  no_engine:
    'has no ready worker that can tokenize its prompts, so they are routed by an estimate and find no cached blocks; use tokens: { source: local } or start its engines with a tokenize endpoint',
};

function truncationOf(question: EngineQuestion): Parameters<typeof truncated>[1] {
  return question.kind === 'prompt' ? question.truncation : (question.chat.truncation ?? null);
}

/** The digest of all that decides the ids; null for what JSON cannot hold without loss. */
function keyOf(question: EngineQuestion): string | null {
  try {
    // Half a surrogate pair is written as an escape, so that no two questions are written alike.
    return hash('sha256', exactJsonStringify(question), 'base64');
  } catch {
    return null;
  }
}

// One request on its way through an engine: what it asked, who listens, and whether anybody still does.
import type { EngineRequest, EngineSink } from '../engines/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import type { HintPlan } from '../simulator/index.ts';
import type { LocalAnswer } from './answer.ts';
import type { HintedRequest } from './hint-work.ts';
import type { LocalRequest } from './local-request.ts';
import type { NamedPrompt } from './sequence-slot.ts';

interface Accepted {
  readonly asked: LocalRequest;
  readonly prompt: NamedPrompt;
  readonly hinted: HintedRequest;
}

/** The state of one dispatched request. */
export class LocalRun {
  answer: LocalAnswer | null = null;
  readonly #sink: EngineSink;
  #accepted: Accepted | null = null;
  #over = false;
  #paused = false;
  #wake: () => void = () => {};

  constructor(sink: EngineSink) {
    this.#sink = sink;
  }

  /** Nobody listens any more. */
  get isOver(): boolean {
    return this.#over;
  }

  /** What was asked; only of an accepted run. */
  get asked(): LocalRequest {
    return this.#known().asked;
  }

  /** Its prompt with the names of its blocks. */
  get prompt(): NamedPrompt {
    return this.#known().prompt;
  }

  /** What its hints need to know. */
  get hinted(): HintedRequest {
    return this.#known().hinted;
  }

  /** The engine takes it. */
  accept(request: EngineRequest, asked: LocalRequest, prompt: NamedPrompt, hints: HintPlan): void {
    const hinted = {
      hints,
      sessionId: request.session?.sessionId ?? null,
      promptTokens: asked.tokens.length,
    };
    this.#accepted = { asked, prompt, hinted };
  }

  /** The sink, as long as somebody listens. */
  guarded(): EngineSink {
    const when = (tell: () => void): void => {
      if (!this.#over) tell();
    };
    return {
      head: (status, headers, outcomes) => when(() => this.#sink.head(status, headers, outcomes)),
      data: (bytes) => when(() => this.#sink.data(bytes)),
      tokens: (count) => when(() => this.#sink.tokens(count)),
      finished: (report) =>
        when(() => {
          this.#over = true;
          this.#sink.finished(report);
        }),
      failed: (error) => this.fail(error),
    };
  }

  /** Tells the end, unless nobody listens. */
  end(tell: () => void): void {
    if (!this.#over) tell();
  }

  fail(error: PointsmanError): void {
    if (this.#over) return;
    this.#over = true;
    this.#wake();
    this.#sink.failed(error);
  }

  abort(): void {
    this.#over = true;
    this.#wake();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#wake();
  }

  /** Resolves when the client takes more, or is gone. */
  async resumed(): Promise<void> {
    while (this.#paused && !this.#over) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #known(): Accepted {
    if (this.#accepted === null)
      throw new PointsmanError('PM_ENGINE_FAILED', 'the request was not accepted yet');
    return this.#accepted;
  }
}

// Who gets an output token at the end of a pass, and which one. One list, used again for every pass.
import { outputToken } from './output-tokens.ts';
import { isReadyToEmit } from './pass-scheduler.ts';
import type { RequestState } from './request-state.ts';

const DEFAULT_VOCABULARY = 32_768;

/** The output of one pass after the other. */
export class PassOutput {
  /** Those whose tokens were all computed, in order of admission. */
  readonly ready: RequestState[] = [];
  /** Whether one of them has all its output now. */
  finishes = false;
  readonly #vocabulary: number;

  /** @param vocabulary token ids are drawn from [0, vocabulary). */
  constructor(vocabulary = DEFAULT_VOCABULARY) {
    this.#vocabulary = vocabulary;
  }

  /** Gives each of `running` that is ready its next token. */
  generate(running: readonly RequestState[]): void {
    this.ready.length = 0;
    this.finishes = false;
    for (let index = 0; index < running.length; index += 1) {
      const request = running[index]!;
      if (!isReadyToEmit(request)) continue;
      this.ready.push(request);
      if (request.outputTarget > 0) this.#append(request);
      this.finishes ||= request.generated >= request.outputTarget;
    }
  }

  #append(request: RequestState): void {
    const { generated, outputSeed } = request;
    request.tokens.append(outputToken(outputSeed, generated, this.#vocabulary));
    request.generated = generated + 1;
  }
}

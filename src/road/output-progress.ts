// How far the answer of a request is, and who hears of it: load, beliefs of what the worker holds, record and metrics.
import { promptTokensOf } from './caller-part.ts';
import type { ExchangeBooking } from './exchange-booking.ts';
import type { RoadState } from './road-state.ts';
import type { RoadRequest } from './types.ts';

/** Tokens of output of one exchange. */
export class OutputProgress {
  readonly #state: RoadState;
  readonly #request: RoadRequest;
  #begun = false;
  #generated = 0;
  /** Tokens of output for which there is room in the blocks of prompt and output so far. */
  #fitting = 0;

  constructor(state: RoadState, request: RoadRequest) {
    this.#state = state;
    this.#request = request;
  }

  /** Whether the first token is out. */
  get begun(): boolean {
    return this.#begun;
  }

  /** Tokens that are out. */
  get generated(): number {
    return this.#generated;
  }

  /** Nothing is out yet: the blocks are those of the prompt. */
  booked({ blockSize }: ExchangeBooking): void {
    const promptTokens = promptTokensOf(this.#request);
    this.#fitting = Math.ceil(promptTokens / blockSize) * blockSize - promptTokens;
  }

  /** The first token is out; further calls change nothing. @param arrivedAt ms of the clock. */
  begin(booking: ExchangeBooking, arrivedAt: number): void {
    if (this.#begun) return;
    this.#begun = true;
    const { scheduler, clock, metrics, beliefs, loadFell, labelsOf } = this.#state;
    const now = clock.now();
    scheduler.prefillCompleted(booking.attempt);
    loadFell(booking.workerId);
    beliefs?.computed(booking.attempt);
    booking.decision?.firstToken(now);
    // Of a prompt that is computed for another worker, the client has no token yet.
    if (this.#request.role === 'prefill') return;
    const { model } = labelsOf(this.#request.partition.model);
    metrics.observe('pointsman_time_to_first_token_seconds', (now - arrivedAt) / 1000, model);
  }

  /** `count` more tokens are out, as the engine tells. */
  tokens(booking: ExchangeBooking, count: number): void {
    this.#generated += count;
    if (this.#generated <= this.#fitting) return;
    const { scheduler, beliefs } = this.#state;
    const blocks = Math.ceil((this.#generated - this.#fitting) / booking.blockSize);
    scheduler.outputBlock(booking.attempt, this.#generated, this.#request.expectedOutputTokens);
    beliefs?.generated(booking.attempt, blocks);
    this.#fitting += blocks * booking.blockSize;
  }

  /** One more block is out, as a caller tells. @param weight as of `Scheduler.toldOutputBlock`. */
  block(booking: ExchangeBooking, weight: number | null): void {
    this.#state.scheduler.toldOutputBlock(booking.attempt, weight);
    this.#state.beliefs?.generated(booking.attempt, 1);
  }
}

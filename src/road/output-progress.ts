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
  /** Blocks of prompt and output so far, the last one perhaps partly filled. */
  #blocks = 0;

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
    this.#blocks = Math.ceil(promptTokensOf(this.#request) / blockSize);
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
    const { scheduler, beliefs } = this.#state;
    this.#generated += count;
    const blocks = Math.ceil((promptTokensOf(this.#request) + this.#generated) / booking.blockSize);
    if (blocks <= this.#blocks) return;
    scheduler.outputBlock(booking.attempt, this.#generated, this.#request.expectedOutputTokens);
    beliefs?.generated(booking.attempt, blocks - this.#blocks);
    this.#blocks = blocks;
  }

  /** One more block is out, as a caller tells. @param weight as of `Scheduler.toldOutputBlock`. */
  block(booking: ExchangeBooking, weight: number | null): void {
    this.#state.scheduler.toldOutputBlock(booking.attempt, weight);
    this.#state.beliefs?.generated(booking.attempt, 1);
  }
}

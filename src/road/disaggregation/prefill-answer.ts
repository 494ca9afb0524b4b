// The answer of a prefill leg. Of most nothing is needed but what it says of its blocks; one that ended the request, as its first token
// was the last, is the client's answer.
import { type EngineReport, type EngineSink, streamedAnswer } from '../../engines/index.ts';
import { PointsmanError } from '../../plugin/index.ts';
import type { RoadRequest } from '../types.ts';

/** Most of an answer of one token that is kept: it may hold log probabilities of a long prompt. */
const MAX_BYTES = 8 * 1024 * 1024;

/** Keeps the answer until it is known what it is. */
export class PrefillAnswer {
  #status = 200;
  #headers: Readonly<Record<string, string>> = {};
  #parts: Uint8Array[] = [];
  #bytes = 0;

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status;
    this.#headers = headers;
  }

  data(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    if (this.#bytes <= MAX_BYTES) this.#parts.push(bytes);
    else this.#parts = [];
  }

  /** Whether it is all that the request gets: the model stopped, or the engine refused. */
  isWhole(report: EngineReport): boolean {
    if (this.#status >= 400) return true;
    return report.finishReason !== null && report.finishReason !== 'length';
  }

  /** Whether all of it is here. */
  get isKept(): boolean {
    return this.#bytes <= MAX_BYTES;
  }

  /** Gives it to the client, as a stream where one was asked for. */
  passOn(
    to: Pick<EngineSink, 'head' | 'data' | 'finished'>,
    request: Pick<RoadRequest, 'api' | 'body' | 'stream'>,
    report: EngineReport,
  ): void {
    const whole = Buffer.concat(this.#parts);
    const streamed = request.stream && whole.length > 0 ? streamedAnswer(whole, request) : null;
    if (streamed === null) to.head(this.#status, this.#headers, []);
    else {
      const headers = { ...this.#headers, 'content-type': 'text/event-stream; charset=utf-8' };
      to.head(this.#status, headers, []);
    }
    const bytes = streamed ?? whole;
    if (bytes.length > 0) to.data(bytes);
    to.finished(report);
  }

  /** Why decode cannot go on from it. */
  missingHandoff(workerId: bigint): PointsmanError {
    return new PointsmanError(
      'PM_DISAGG_HANDOFF',
      `prefill worker ${workerId} computed the prompt and did not say where its KV lies (kv_transfer_params); is its KV connector configured?`,
      { details: { worker_id: String(workerId) } },
    );
  }
  /** Why the client cannot get it. */
  tooLong(workerId: bigint): PointsmanError {
    return new PointsmanError(
      'PM_ENGINE_FAILED',
      `prefill worker ${workerId} ended the request with an answer of ${this.#bytes} bytes, and ${MAX_BYTES} are kept; ask for fewer log probabilities`,
      { details: { worker_id: String(workerId) } },
    );
  }
}

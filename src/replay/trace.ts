// A Mooncake trace in memory, as columns: timed requests whose prompts are lists of 512-token block ids. An id stands for its
// block and everything before it (kvcache-ai/Mooncake, FAST25-release/traces).

import type { SessionContext } from '../plugin/index.ts';

/** Tokens per id of a Mooncake trace. */
export const TRACE_BLOCK_SIZE = 512;

/** Requests in order of arrival. */
export interface Trace {
  readonly kind: 'requests';
  /** File name without folder. */
  readonly name: string;
  readonly requests: number;
  /** ms from the first request. */
  readonly arrivals: Float64Array;
  readonly inputLengths: Uint32Array;
  readonly outputLengths: Uint32Array;
  /** Ids of request i are `hashIds` [idOffsets[i], idOffsets[i + 1]). */
  readonly idOffsets: Uint32Array;
  readonly hashIds: Uint32Array;
  /** By request, of those that name one. */
  readonly sessions: ReadonlyMap<number, SessionContext>;
}

/** How prompts are made from ids: cut at the input length, or every id a whole block. */
export type PromptShape = 'cut' | 'whole-blocks';

/** Tokens of a prompt: each id repeated for its whole block. */
export function promptTokens(trace: Trace, request: number, shape: PromptShape): Uint32Array {
  const from = trace.idOffsets[request]!;
  const to = trace.idOffsets[request + 1]!;
  const length = shape === 'cut' ? trace.inputLengths[request]! : (to - from) * TRACE_BLOCK_SIZE;
  const tokens = promptMemory(length);
  for (let index = from; index < to; index += 1) {
    const start = (index - from) * TRACE_BLOCK_SIZE;
    tokens.fill(trace.hashIds[index]!, start, start + TRACE_BLOCK_SIZE);
  }
  return tokens.fill(0, (to - from) * TRACE_BLOCK_SIZE);
}

/** Memory of a prompt as it comes, for whoever writes every token of it: zeros would cost as much as the tokens do. */
export function promptMemory(length: number): Uint32Array {
  const { buffer, byteOffset } = Buffer.allocUnsafeSlow(4 * length);
  return new Uint32Array(buffer, byteOffset, length);
}

/** Grows columns line by line. */
export class TraceBuilder {
  #requests = 0;
  #ids = 0;
  #arrivals = new Float64Array(1024);
  #inputLengths = new Uint32Array(1024);
  #outputLengths = new Uint32Array(1024);
  #idOffsets = new Uint32Array(1025);
  #hashIds = new Uint32Array(16_384);
  readonly #sessions = new Map<number, SessionContext>();

  get requests(): number {
    return this.#requests;
  }

  get ids(): number {
    return this.#ids;
  }

  /** Timestamp of the last request as written; −∞ before the first. */
  lastTimestamp = Number.NEGATIVE_INFINITY;

  add(
    timestamp: number,
    inputLength: number,
    outputLength: number,
    hashIds: readonly number[],
    session: SessionContext | null = null,
  ): void {
    const row = this.#requests;
    if (session !== null) this.#sessions.set(row, session);
    if (row === this.#arrivals.length) {
      this.#arrivals = widened(this.#arrivals, new Float64Array(2 * row));
      this.#inputLengths = widened(this.#inputLengths, new Uint32Array(2 * row));
      this.#outputLengths = widened(this.#outputLengths, new Uint32Array(2 * row));
      this.#idOffsets = widened(this.#idOffsets, new Uint32Array(2 * row + 1));
    }
    while (this.#ids + hashIds.length > this.#hashIds.length) {
      this.#hashIds = widened(this.#hashIds, new Uint32Array(2 * this.#hashIds.length));
    }
    this.#hashIds.set(hashIds, this.#ids);
    this.#ids += hashIds.length;
    this.#arrivals[row] = timestamp;
    this.#inputLengths[row] = inputLength;
    this.#outputLengths[row] = outputLength;
    this.#idOffsets[row + 1] = this.#ids;
    this.#requests += 1;
    this.lastTimestamp = timestamp;
  }

  /** The trace, with times from its first request on. */
  build(name: string): Trace {
    const rows = this.#requests;
    const first = this.#arrivals[0] ?? 0;
    return {
      kind: 'requests',
      name,
      requests: rows,
      arrivals: this.#arrivals.slice(0, rows).map((timestamp) => timestamp - first),
      inputLengths: this.#inputLengths.slice(0, rows),
      outputLengths: this.#outputLengths.slice(0, rows),
      idOffsets: this.#idOffsets.slice(0, rows + 1),
      hashIds: this.#hashIds.slice(0, this.#ids),
      sessions: this.#sessions,
    };
  }
}

function widened<T extends Float64Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

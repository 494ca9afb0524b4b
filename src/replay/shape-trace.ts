// What of a request trace is replayed, and when: a part of it, with rows of one time spread out.
import { seededRng } from '../plugin/index.ts';
import { promptMs, type TimingName } from '../simulator/index.ts';
import { TRACE_BLOCK_SIZE, type Trace } from './trace.ts';

/** The trace without its first `skip` requests, which must be fewer than it has; times count from the first that is left. */
export function withoutFirst(trace: Trace, skip: number): Trace {
  if (skip === 0) return trace;
  const firstAt = trace.arrivals[skip]!;
  const firstId = trace.idOffsets[skip]!;
  return {
    ...trace,
    requests: trace.requests - skip,
    arrivals: trace.arrivals.slice(skip).map((at) => at - firstAt),
    inputLengths: trace.inputLengths.slice(skip),
    outputLengths: trace.outputLengths.slice(skip),
    idOffsets: trace.idOffsets.slice(skip).map((offset) => offset - firstId),
    hashIds: trace.hashIds.slice(firstId),
    sessions: new Map(
      [...trace.sessions].filter(([row]) => row >= skip).map(([row, session]) => [row - skip, session]),
    ),
  };
}

/**
 * Rows that share a time come at random moments, uniformly distributed, before the next time in the trace, in their order. Traces whose
 * clock is coarse say that they came together, which no router is to be judged by. The last rows stay where they are.
 */
export function spreadArrivals(trace: Trace, seed: number): Trace {
  const rng = seededRng(seed);
  const arrivals = trace.arrivals.slice();
  for (let from = 0; from < arrivals.length; ) {
    const at = trace.arrivals[from]!;
    let to = from;
    while (to < arrivals.length && trace.arrivals[to] === at) to += 1;
    if (to < arrivals.length) {
      const gap = trace.arrivals[to]! - at;
      for (let row = from; row < to; row += 1) arrivals[row] = at + rng.next() * gap;
      arrivals.subarray(from, to).sort();
    }
    from = to;
  }
  return { ...trace, arrivals };
}

/** Different blocks of the prompts, in blocks of the trace; those at the end of a prompt count although they may be partly filled. */
export function differentBlocks(trace: Trace): number {
  return new Set(trace.hashIds).size;
}

/** Blocks of an engine that the largest request needs with its answer. */
export function largestRequest({ inputLengths, outputLengths }: Trace, blockSize: number): number {
  let most = 0;
  for (const [row, length] of inputLengths.entries()) {
    most = Math.max(most, Math.ceil((length + outputLengths[row]!) / blockSize));
  }
  return most;
}

/**
 * The offered load of a trace played at its own pace: time that engines would need for its prompts if nothing were cached and each were
 * computed alone, over the time that the workers have until the last request comes. At 1 a fleet without any reuse would be busy with
 * prompts alone; decoding comes on top. NaN for a trace that takes no time.
 * @param budget tokens per pass.
 */
export function offeredLoad(trace: Trace, workers: number, timing: TimingName, budget: number): number {
  let workMs = 0;
  for (const length of trace.inputLengths) workMs += promptMs(timing, length, budget);
  const durationMs = trace.arrivals.at(-1) ?? 0;
  return durationMs === 0 ? Number.NaN : workMs / (workers * durationMs);
}

/** Engine blocks in one block of the trace. */
export function blocksPerId(blockSize: number): number {
  return TRACE_BLOCK_SIZE / blockSize;
}

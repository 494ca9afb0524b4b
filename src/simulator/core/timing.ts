// How long a pass takes: the polynomials of the Dynamo mocker (lib/mocker, polynomial timing), fitted on a real GPU. Times are
// milliseconds. Plain multiplications only, so that every Node version computes the same bits.

/** Prompt work of one pass, summed over the requests that got prompt tokens. */
export interface PrefillBatch {
  requests: number;
  /** Σ (tokens computed before + prompt tokens of this pass). */
  totalIsl: number;
  /** Σ tokens computed before. */
  totalPrefix: number;
}

/** Time of a batch's prompt work; means are whole numbers, as in the source. 0 when there is none. */
export function prefillMs(batch: PrefillBatch): number {
  const { requests } = batch;
  if (requests === 0) return 0;
  const newTokens = Math.floor(batch.totalIsl / requests) - Math.floor(batch.totalPrefix / requests);
  if (newTokens <= 0) return 0;
  const tokens = requests * newTokens;
  return 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;
}

/**
 * Time of one decode step, at least 1 ms.
 * @param activeBlocks blocks held by requests.
 * @param totalBlocks pool size; null = unlimited, which counts as empty.
 */
export function decodeMs(activeBlocks: number, totalBlocks: number | null): number {
  const fill = totalBlocks === null ? 0 : Math.min(1, activeBlocks / totalBlocks);
  return Math.max(1, -25.74 * fill * fill + 54.01 * fill + 5.74);
}

// How many prompt tokens the router expects the engine to find cached.
import type { KvHint } from '../plugin/index.ts';

/**
 * Cached tokens of a prompt whose first `blocks` full blocks are resident: engines compute at least the last token, and reuse
 * full blocks only, so min(blocks, floor((tokens − 1) / block size)) × block size.
 */
export function predictedTokens(blocks: number, promptTokens: number, blockSize: number): number {
  return Math.min(blocks, Math.floor((promptTokens - 1) / blockSize)) * blockSize;
}

/** Of so many expected cached tokens those that lie in host memory: what is on the device is used first. */
export function hostTokens(expected: number, deviceBlocks: number, blockSize: number): number {
  return Math.max(0, expected - deviceBlocks * blockSize);
}

/**
 * Whole blocks that an engine had of a prompt when it reports so many cached tokens; null = it did not say. One that had all reports
 * less, as it computes the last token.
 */
export function reportedBlocks(
  cachedTokens: number | null,
  promptTokens: number,
  blockSize: number,
): number | null {
  if (cachedTokens === null) return null;
  const most = predictedTokens(promptTokens, promptTokens, blockSize);
  return Math.floor((cachedTokens >= most ? promptTokens : cachedTokens) / blockSize);
}

/** Blocks from the root of the prompt that an envelope has fetched once all went well; 0 when it fetches nothing. */
export function fetchedBlocks(hint: KvHint): number {
  let blocks = 0;
  for (const action of hint.actions) {
    if (action.action_type !== 'kv.fetch') continue;
    const hashes = action.payload.block_hashes;
    if (hashes instanceof BigUint64Array || Array.isArray(hashes)) blocks = Math.max(blocks, hashes.length);
  }
  return blocks;
}

// The bounds every block hasher keeps, and the checks both implementations share.
import { PointsmanError } from '../../plugin/index.ts';
import type { HashPairs } from './types.ts';
import { requireWholePairs } from './u64.ts';

/** Tokens of the longest prompt, and blocks of the longest chain: 4 Mi. */
export const MAX_PROMPT_TOKENS: number = 4 * 1024 * 1024;
/** Bytes of the longest byte string: as many as the longest prompt has. */
export const MAX_HASH_BYTES: number = 4 * MAX_PROMPT_TOKENS;

/**
 * The number of full blocks in a prompt.
 * @throws PM_KV_TOO_LONG above `MAX_PROMPT_TOKENS`; PM_KV_ARGUMENT for a block size that is no integer ≥ 1.
 */
export function fullBlocks(tokens: number, blockSize: number): number {
  if (!Number.isSafeInteger(blockSize) || blockSize < 1) {
    throw new PointsmanError('PM_KV_ARGUMENT', `a block has 1 token or more, not ${blockSize}`, {
      details: { block_size: blockSize },
    });
  }
  refuseAbove(tokens, MAX_PROMPT_TOKENS, 'a prompt', 'tokens');
  return Math.floor(tokens / blockSize);
}

/**
 * Checks the arrays of a chain.
 * @throws PM_KV_ARGUMENT for an odd length or an `out` of another length; PM_KV_TOO_LONG above `MAX_PROMPT_TOKENS` blocks.
 */
export function checkChain(local: HashPairs, out: HashPairs): void {
  requireWholePairs(local);
  if (out.length !== local.length) {
    throw new PointsmanError(
      'PM_KV_ARGUMENT',
      `a chain of ${local.length / 2} hashes needs an output of ${local.length} entries, not ${out.length}`,
      { details: { local: local.length, out: out.length } },
    );
  }
  refuseAbove(local.length / 2, MAX_PROMPT_TOKENS, 'a chain', 'blocks');
}

/**
 * Checks the length of a byte string.
 * @throws PM_KV_TOO_LONG above `MAX_HASH_BYTES`.
 */
export function checkByteLength(bytes: number): void {
  refuseAbove(bytes, MAX_HASH_BYTES, 'a byte string', 'bytes');
}

function refuseAbove(count: number, limit: number, what: string, unit: string): void {
  if (count <= limit) return;
  throw new PointsmanError('PM_KV_TOO_LONG', `${what} to hash has at most ${limit} ${unit}, not ${count}`, {
    details: { count, limit },
  });
}

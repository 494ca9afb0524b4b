// How far into a prompt the index knows the blocks of a rank.
import { blockHashSeed, hashBlocks, matchedRow, TIERS } from '../kv/index.ts';
import type { AnsweredRequest, ParityMonitorOptions } from './parity-types.ts';
import type { PromptDepths } from './prompt-verdict.ts';

/** What is looked up in. */
export type DepthSources = Pick<ParityMonitorOptions, 'blockSizeOf' | 'hasher' | 'index' | 'pairsOf'>;

/** Leading blocks of a prompt that the index holds on its rank, with its adapter and salt and without. */
export function promptDepths(request: AnsweredRequest, sources: DepthSources): PromptDepths {
  const { loraName, cacheSalt } = request;
  const own = depthOf(request, sources, loraName, cacheSalt);
  const isPlain = loraName === null && cacheSalt === null;
  return { own, plain: isPlain ? own : depthOf(request, sources, null, null) };
}

function depthOf(
  { slot, tokens }: AnsweredRequest,
  { blockSizeOf, hasher, index, pairsOf }: DepthSources,
  loraName: string | null,
  cacheSalt: string | null,
): number {
  const blockSize = blockSizeOf(slot);
  if (blockSize === null) return 0;
  const seed = blockHashSeed({ loraName, cacheSalt });
  const { local, sequence } = hashBlocks(hasher, tokens, blockSize, seed, { bigrams: pairsOf(slot) });
  const match = index.find(local, sequence, TIERS);
  const row = matchedRow(match, slot);
  let depth = 0;
  if (row >= 0) for (const tier of match.depthPerTier) depth += tier[row] ?? 0;
  return depth;
}

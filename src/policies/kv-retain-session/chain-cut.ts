// Which blocks of a session are named when not all may be.
import type { SessionLineage, WorkerRank } from '../../plugin/index.ts';

/**
 * At most `most` blocks of a session on a worker, each once and none before its parent: where there are more, the end of every chain
 * is cut, so that what is kept can be used.
 */
export function leadingBlocks(
  lineage: SessionLineage,
  sessionId: string,
  worker: WorkerRank,
  most: number,
): BigUint64Array {
  const all = lineage.uniqueBlocks(sessionId, worker);
  if (all.length <= most) return all;
  const paths = lineage.paths(sessionId, worker);
  if (paths.length === 1) return all.slice(0, most);
  const cut = new BigUint64Array(most);
  const seen = new Set<bigint>();
  for (let depth = 0; seen.size < most; depth += 1) {
    let deeper = false;
    for (const path of paths) {
      const hash = path[depth];
      if (hash === undefined) continue;
      deeper = true;
      if (seen.has(hash) || seen.size === most) continue;
      cut[seen.size] = hash;
      seen.add(hash);
    }
    if (!deeper) break;
  }
  return cut.subarray(0, seen.size);
}

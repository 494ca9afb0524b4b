// Executes `kv.retain@1.0`: named blocks that are resident at admission are kept longer than others. The smallest form: nothing
// is pinned, and what happens to the blocks later is not reported.
import { fromBigUint64Array } from '../../kv/index.ts';
import type { KvPool } from './kv-pool.ts';
import type { RequestState } from './request-state.ts';

/** Applies the retain actions of a request's envelope and sets their outcomes. */
export function executeRetains(request: RequestState, pool: KvPool, now: number): void {
  for (const plan of request.hints.retains) {
    const hashes = fromBigUint64Array(plan.blockHashes);
    const asked = plan.blockHashes.length;
    let done = 0;
    for (let index = 0; index < asked; index += 1) {
      if (pool.retain(hashes[2 * index]!, hashes[2 * index + 1]!, plan.priority, now + plan.ttlMs)) done += 1;
    }
    request.outcomes[plan.position] = {
      action_id: plan.actionId,
      outcome: done === asked ? 'accepted' : done > 0 ? 'clipped' : 'missing',
      blocks_asked: asked,
      blocks_done: done,
    };
  }
}

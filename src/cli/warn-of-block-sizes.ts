// Says in the log which workers have blocks of another size than their model's.
import { type BlockSizes, type Fleet, saidBlockSize, type Worker } from '../fleet/index.ts';
import type { Logger } from '../plugin/index.ts';

/** An engine with other blocks than the model's never matches anything: say so. */
export function warnOfBlockSizes(fleet: Fleet, blockSizes: BlockSizes, log: Logger): void {
  const compare = (worker: Worker): void => {
    const { spec } = worker;
    const own = saidBlockSize(worker);
    const expected = blockSizes.ofModel(spec.model, fleet.groupOf(spec));
    // Smaller ones that divide the model's are put together.
    if (own === null || expected === null || expected % own === 0) return;
    log.warn("a worker's KV blocks have another size than its model's: nothing it caches will be found", {
      worker: spec.id,
      model: spec.model,
      worker_block_size: own,
      model_block_size: expected,
    });
  };
  fleet.listen({ added: compare, capabilitiesChanged: compare });
}

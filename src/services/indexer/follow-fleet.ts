// Registers a router's own workers with an indexer in the same process, as they come and go.
import { type BlockSizes, type Fleet, kvEventsOf, type Worker } from '../../fleet/index.ts';
import { errorText, type Logger } from '../../plugin/index.ts';
import type { IndexerRegistry } from './registry.ts';

/** What is followed. */
export interface FollowedFleet {
  readonly fleet: Fleet;
  readonly blockSizes: BlockSizes;
  readonly log: Logger;
}

/** Follows a fleet; the function returned ends it. */
export function followFleet(registry: IndexerRegistry, followed: FollowedFleet): () => void {
  const { blockSizes, fleet, log } = followed;
  const endpoints = new Map<string, string>();
  const take = (worker: Worker): void => {
    const { id, model, ranks } = worker.spec;
    const routingGroup = fleet.groupOf(worker.spec);
    const blockSize = blockSizes.ofModel(model, routingGroup);
    for (let rank = ranks.first; rank < ranks.first + ranks.count; rank++) {
      const endpoint = kvEventsOf(worker, rank);
      const key = `${id}/${rank}`;
      // Where the router listens itself, or takes events out of a queue, nobody else can.
      if (
        endpoint === null ||
        endpoint.binds ||
        endpoint.polled === true ||
        blockSize === null ||
        endpoints.get(key) === endpoint.address
      )
        continue;
      if (endpoints.has(key)) registry.unregister(id, model, routingGroup, rank);
      endpoints.set(key, endpoint.address);
      const { address, replay: replayEndpoint } = endpoint;
      registry
        .register({ instance: id, rank, model, routingGroup, blockSize, endpoint: address, replayEndpoint })
        .catch((thrown: unknown) => {
          log.warn(`the indexer does not listen to a worker: ${errorText(thrown)}`, { worker: id, rank });
        });
    }
  };
  const drop = ({ spec }: Worker): void => {
    let was = false;
    for (const key of [...endpoints.keys()]) {
      if (key.startsWith(`${spec.id}/`)) was = endpoints.delete(key) || was;
    }
    if (!was) return;
    try {
      registry.unregister(spec.id, spec.model, null, null);
    } catch (thrown) {
      log.warn(`the indexer did not know a worker: ${errorText(thrown)}`, { worker: spec.id });
    }
  };
  const unlisten = fleet.listen({ added: take, capabilitiesChanged: take, removed: drop });
  for (const worker of fleet.workers()) take(worker);
  return unlisten;
}

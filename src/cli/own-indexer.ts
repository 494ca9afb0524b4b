// The standalone indexer inside `serve`.
import type { RouterConfig } from '../config/index.ts';
import {
  followFleet,
  type RunningIndexer,
  type StartIndexerOptions,
  startIndexer,
} from '../services/index.ts';
import type { ComposedRouter } from './compose-router.ts';

/** The standalone indexer in this process, listening to the router's workers. It has no login, so it stays on this machine. */
export async function indexerOf(
  core: Pick<ComposedRouter, 'fleet' | 'blockSizes' | 'hasher'>,
  port: number,
  config: RouterConfig,
  parts: Pick<StartIndexerOptions, 'clock' | 'metrics' | 'log'>,
): Promise<RunningIndexer> {
  const { log } = parts;
  const service = await startIndexer({
    host: '127.0.0.1',
    port,
    workers: [],
    peers: [],
    indexBytes: config.limits.indexBytes,
    testEndpoints: false,
    ...parts,
    hasher: core.hasher,
  });
  const unfollow = followFleet(service.registry, {
    fleet: core.fleet,
    blockSizes: core.blockSizes,
    log,
  });
  log.info('the indexer is up', { url: service.url });
  return {
    ...service,
    stop() {
      unfollow();
      return service.stop();
    },
  };
}

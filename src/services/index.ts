// Other doors onto the router's parts: the standalone indexer and the selection service.
export { AccessLog, type AccessLogOptions } from './indexer/access-log.ts';
export { followFleet } from './indexer/follow-fleet.ts';
export type { Registration } from './indexer/registry.ts';
export { peerUrl } from './indexer/routes.ts';
export { type RunningIndexer, type StartIndexerOptions, startIndexer } from './indexer/start-indexer.ts';
export {
  type RunningSelection,
  type StartSelectionOptions,
  startSelection,
} from './selection/start-selection.ts';
export { readWorker } from './selection/worker-fields.ts';

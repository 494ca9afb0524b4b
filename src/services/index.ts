// Other doors onto the router's parts: the standalone indexer.
export { AccessLog, type AccessLogOptions } from './indexer/access-log.ts';
export { followFleet } from './indexer/follow-fleet.ts';
export type { Registration } from './indexer/registry.ts';
export { peerUrl } from './indexer/routes.ts';
export { type RunningIndexer, type StartIndexerOptions, startIndexer } from './indexer/start-indexer.ts';

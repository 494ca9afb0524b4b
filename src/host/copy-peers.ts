// Which worker may serve blocks to which: the one place that says so, for selection and for hints.
import type { WorkerCapabilities } from '../fleet/index.ts';
import type { HintWorker } from './copy-locations.ts';

/** Workers of one group can use each other's blocks: same model, block size, hash scheme and worker type. */
export function peerGroupOf({ model, blockSize, hashScheme, workerType }: WorkerCapabilities): string {
  return JSON.stringify([model, blockSize, hashScheme, workerType]);
}

/** Whether two workers are of one group. */
export function arePeers(a: WorkerCapabilities, b: WorkerCapabilities): boolean {
  return (
    a.model === b.model &&
    a.blockSize === b.blockSize &&
    a.hashScheme === b.hashScheme &&
    a.workerType === b.workerType
  );
}

/**
 * Whether a rank can be asked for blocks now, its endpoint aside: its worker is in reach, draining included. What is estimated of a rank
 * has no engine hashes to ask for.
 */
export function isInReach({ state, approximate }: HintWorker, rank: number): boolean {
  return state !== 'gone' && state !== 'suspect' && !approximate?.has(rank);
}

/** Whether a rank can be asked for blocks now: it is in reach and names an endpoint. */
export function isUsableSource(worker: HintWorker, rank: number): boolean {
  return isInReach(worker, rank) && Boolean(worker.capabilities?.ranks.get(rank)?.sourceControlEndpoint);
}

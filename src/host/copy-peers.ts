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

/** Whether a worker can be asked for blocks now, draining included. */
export function isInReach({ state }: HintWorker): boolean {
  return state !== 'gone' && state !== 'suspect';
}

/** Whether a rank can be asked for blocks now: its worker is in reach and names an endpoint. */
export function isUsableSource(worker: HintWorker, rank: number): boolean {
  return isInReach(worker) && Boolean(worker.capabilities?.ranks.get(rank)?.sourceControlEndpoint);
}

// Workers: records, life cycle, capabilities, slots.
export { AdapterModels, holdsAdapter } from './adapters.ts';
export { BlockSizes } from './block-sizes.ts';
export { parseCapabilities } from './capabilities.ts';
export { Fleet, type FleetListener, type FleetOptions } from './fleet.ts';
export { WorkerHealth } from './health.ts';
export type { PartitionCandidates } from './partition-candidates.ts';
export {
  HealthProber,
  type Probe,
  type ProbeContext,
  type ProbeResult,
  type ProberOptions,
} from './prober.ts';
export type {
  ApproximateReason,
  KvEventEndpoints,
  RankCapabilities,
  Worker,
  WorkerCapabilities,
  WorkerSpec,
  WorkerState,
} from './types.ts';
export { workerSpecOf } from './worker-spec.ts';

// Workers: records, life cycle, capabilities, slots.
export { AdapterModels, holdsAdapter } from './adapters.ts';
export { BlockSizes } from './block-sizes.ts';
export { parseCapabilities } from './capabilities.ts';
export {
  type EngineDescription,
  kvEventsOf,
  maxNumBatchedTokensOf,
  type RecognizedEngine,
  saidBlockSize,
  totalKvBlocksOf,
} from './engine-description.ts';
export { Fleet, type FleetListener, type FleetOptions } from './fleet.ts';
export { handoffOf } from './handoff.ts';
export { WorkerHealth } from './health.ts';
export type { PartitionCandidates } from './partition-candidates.ts';
export {
  HealthProber,
  type Probe,
  type ProbeContext,
  type ProbeResult,
  type ProberOptions,
} from './prober.ts';
export { topologyTaint } from './topology-taints.ts';
export type {
  ApproximateReason,
  KvEventEndpoints,
  KvTransferRule,
  RankCapabilities,
  Worker,
  WorkerCapabilities,
  WorkerHandoff,
  WorkerSpec,
  WorkerState,
} from './types.ts';
export { workerSpecOf } from './worker-spec.ts';

// Workers: records, life cycle, capabilities, slots.
export type {
  KvEventEndpoints,
  RankCapabilities,
  Worker,
  WorkerCapabilities,
  WorkerSpec,
  WorkerState,
} from './types.ts';

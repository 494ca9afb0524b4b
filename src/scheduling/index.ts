// Load projection and booking.
export { SessionAffinity } from './affinity/session-affinity.ts';
export type { SessionBinding } from './affinity/session-binding.ts';
export { rankBlocks } from './busy-workers.ts';
export { DefaultChoice } from './default-choice.ts';
export type { EngineLoad, EngineLoads } from './engine-loads.ts';
export type { PlacementOverrides } from './placement-overrides.ts';
export { type PrefillModel, throughputModel } from './prefill-model.ts';
export {
  hasThreshold,
  type LimitKind,
  OPEN_PROFILE,
  type PinnedLane,
  PolicyQueue,
  profileOf,
  type QueueClass,
  type QueueEntry,
  QueueProfile,
  type QueueSnapshot,
  type ReachedLimit,
  reachedLimit,
  type TurnForecast,
} from './queue/index.ts';
export { type GatedRequest, QueueGate } from './queue-gate.ts';
export { Scheduler } from './scheduler.ts';
export type { SchedulerOptions } from './scheduler-options.ts';
export type { SlotLoads } from './slot-loads.ts';
export { LinkTimes } from './timing/link-times.ts';
export {
  type CostOverride,
  EXCLUSION_REASONS,
  type ExcludedRows,
  type ExclusionReason,
  type Placement,
  type PlacementConstraints,
  type PlacementRequest,
  type PlacementTable,
  type PlacementTarget,
} from './types.ts';

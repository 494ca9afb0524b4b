// Load projection and booking.
export { DefaultChoice } from './default-choice.ts';
export type { PlacementOverrides } from './placement-overrides.ts';
export { type PrefillModel, throughputModel } from './prefill-model.ts';
export { Scheduler } from './scheduler.ts';
export type { SchedulerOptions } from './scheduler-options.ts';
export type { SlotLoads } from './slot-loads.ts';
export {
  EXCLUSION_REASONS,
  type ExcludedRows,
  type ExclusionReason,
  type Placement,
  type PlacementConstraints,
  type PlacementRequest,
  type PlacementTable,
} from './types.ts';

// Load projection and booking.
export { DefaultChoice } from './default-choice.ts';
export { Scheduler, type SchedulerOptions } from './scheduler.ts';
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

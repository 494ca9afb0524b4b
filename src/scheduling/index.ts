// Load projection and booking.
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

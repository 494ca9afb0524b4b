// Admission queues: pure structures, no clock and no workers.
export type { IsDispatchable, QueueEntry } from './class-queue.ts';
export { type LimitKind, type ReachedLimit, reachedLimit } from './limits.ts';
export { PolicyQueue } from './policy-queue.ts';
export { hasThreshold, OPEN_PROFILE, profileOf, QueueProfile } from './profile.ts';
export type { PinnedLane, QueueClass, QueueRequest, QueueSnapshot, QueueStats } from './types.ts';

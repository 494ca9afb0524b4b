// What a scheduler is made of.
import type { Fleet } from '../fleet/index.ts';
import type { Metrics } from '../observe/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { DefaultChoice } from './default-choice.ts';
import type { PrefillModel } from './prefill-model.ts';

/** Options of a scheduler. */
export interface SchedulerOptions {
  readonly fleet: Fleet;
  /** What decides when a role's own policy is broken; null = nothing does, such requests fail. */
  readonly fallback: DefaultChoice | null;
  /** Worth of a block on the host tier in device blocks, 0 to 1, where the policy states none; default 0.75. */
  readonly hostCacheHitWeight?: number;
  /** Worth of a block on the disk and external tiers, 0 to 1; default 0.25. */
  readonly diskCacheHitWeight?: number;
  /** Whether blocks of output count as load; default false. */
  readonly tracksOutputBlocks?: boolean;
  /**
   * How the load of a prompt falls while it is computed. Absent or null = not before its first token: then no time is read and
   * nothing is kept of it.
   */
  readonly prefill?: { readonly model: PrefillModel; readonly clock: Clock } | null;
  /** Times releases, for `Retry-After`; absent = time stands still and nothing is measured. */
  readonly clock?: Pick<Clock, 'now'>;
  readonly metrics?: Metrics;
}

/** Options that a reload may change. */
export type ChangeableOptions = Required<
  Pick<SchedulerOptions, 'fallback' | 'hostCacheHitWeight' | 'diskCacheHitWeight' | 'tracksOutputBlocks'>
>;

// What the queue keys of a file become: profiles of classes, and the one class where there is no profile.
import type { QueueProfile } from './queue-profile.ts';
import { decimal, orNull, word } from './values.ts';

/** How requests of one class take their turns. */
export type QueuePolicy = 'fcfs' | 'wspt';

/** One policy class. Tokens are whole and ≥ 0. */
export interface QueueClassSettings {
  readonly name: string;
  /** Null = a class that is named by itself, whatever is cached. */
  readonly family: string | null;
  /** Of its family, the requests of this bucket of uncached tokens; null = a class without a family. */
  readonly bucket: string | null;
  readonly policy: QueuePolicy;
  /** Tokens granted per round, ≥ 1: classes that wait get tokens in this proportion. */
  readonly quantum: number;
  /** A rank with more prompt tokens to compute is busy; null = not tested. */
  readonly prefillBusyThreshold: number | null;
  /** The same as a multiple of the tokens of a rank's pass; null = not tested. */
  readonly prefillBusyThresholdFrac: number | null;
  /** Share of the eligible workers, above 0 to 1, that are busy when requests begin to wait; null = all. */
  readonly busyWorkerRatio: number | null;
  /** Limits per worker of what waits; null = none. */
  readonly requestLimit: number | null;
  readonly rawIslLimit: number | null;
  readonly cachedLimit: number | null;
}

/** A profile: its classes in the order of the ring. */
export interface QueueProfileSettings {
  readonly defaultFamily: string;
  readonly classes: readonly QueueClassSettings[];
  /** Rising, the first from 0. */
  readonly buckets: readonly { readonly minTokens: number; readonly bucket: string }[];
}

/** All that a configuration says of queues. */
export interface QueueSettings {
  /** Null = models without a profile of their own have none. */
  readonly root: QueueProfileSettings | null;
  /** Profiles of models that have their own. */
  readonly models: ReadonlyMap<string, QueueProfileSettings>;
  /** Of models without any profile: busy threshold in multiples of the tokens of a rank's pass; null = they do not queue. */
  readonly threshold: number | null;
  readonly policy: QueuePolicy;
}

/** The keys under `router`, for models without a profile. */
export const routerQueueKeys = () => ({
  router_queue_threshold: orNull(decimal(0)),
  router_queue_policy: orNull(word(['fcfs', 'wspt'])),
});

/** From the file's names to the program's; null = there is no profile. */
export function buildQueueProfile(file: QueueProfile): QueueProfileSettings | null {
  const {
    default_policy_family: defaultFamily,
    policy_classes: classes,
    uncached_isl_buckets: buckets,
  } = file;
  if (defaultFamily === null || classes === null || buckets === null) return null;
  return {
    defaultFamily,
    classes: classes.map((one) => ({
      name: one.name,
      family: one.policy_family,
      bucket: one.cache_bucket,
      policy: one.queue_policy,
      quantum: one.quantum,
      prefillBusyThreshold: one.prefill_busy_threshold,
      prefillBusyThresholdFrac: one.prefill_busy_threshold_frac,
      busyWorkerRatio: one.busy_worker_ratio,
      requestLimit: one.request_queue_limit_per_worker,
      rawIslLimit: one.raw_isl_token_queue_limit_per_worker,
      cachedLimit: one.cached_token_queue_limit_per_worker,
    })),
    buckets: buckets.map(({ min_tokens: minTokens, bucket }) => ({ minTokens, bucket })),
  };
}

/** What a configuration says of queues. */
export function queueSettingsOf(config: {
  readonly router: { readonly queueThreshold: number | null; readonly queuePolicy: QueuePolicy };
  readonly queueProfile: QueueProfileSettings | null;
  readonly models: ReadonlyMap<string, { readonly queueProfile?: QueueProfileSettings | null }>;
}): QueueSettings {
  const models = new Map<string, QueueProfileSettings>();
  for (const [name, { queueProfile }] of config.models) {
    if (queueProfile) models.set(name, queueProfile);
  }
  const { queueThreshold: threshold, queuePolicy: policy } = config.router;
  return { root: config.queueProfile, models, threshold, policy };
}

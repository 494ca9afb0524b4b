// What `pointsman check` says of admission queues: which classes each model has, when their requests wait, and what limits them.
import { type QueueClassSettings, queueSettingsOf, type RouterConfig } from '../config/index.ts';

/** One class of one model, as it is resolved. */
export interface QueueClassRow {
  readonly model: string;
  readonly class: string;
  /** Null = it is named by itself. */
  readonly family: string | null;
  readonly bucket: string | null;
  readonly queue_policy: string;
  readonly quantum: number;
  /** In words; null = nobody waits in it. */
  readonly waits: string | null;
  readonly limits_per_worker: {
    readonly requests: number | null;
    readonly raw_isl_tokens: number | null;
    readonly cached_tokens: number | null;
  };
}

/** What stands for the models in a file that names none. */
const ANY_MODEL = '(any)';

/** The classes of every model; a model without a queue has none. */
export function queueRows(config: RouterConfig): QueueClassRow[] {
  const { models, policy, root, threshold } = queueSettingsOf(config);
  const names = config.models.size === 0 ? [ANY_MODEL] : [...config.models.keys()];
  return names.flatMap((model) => {
    const profile = models.get(model) ?? root;
    if (profile !== null) return profile.classes.map((one) => rowOf(model, one));
    return threshold === null ? [] : [rowOf(model, defaultClass(policy, threshold))];
  });
}

/** Columns for a table. */
export const QUEUE_TITLES = [
  'queue of',
  'class',
  'taken by',
  'order',
  'quantum',
  'waits',
  'limits per worker',
];

/** A row in words. */
export function queueCells(row: QueueClassRow): string[] {
  const { raw_isl_tokens: raw, cached_tokens: cached, requests } = row.limits_per_worker;
  const limits = [
    ...(requests === null ? [] : [`${requests} requests`]),
    ...(raw === null ? [] : [`${raw} prompt tokens`]),
    ...(cached === null ? [] : [`${cached} cached tokens`]),
  ];
  const takenBy = row.family === null ? 'its name' : `family ${row.family}, bucket ${row.bucket}`;
  return [
    row.model,
    row.class,
    takenBy,
    row.queue_policy,
    String(row.quantum),
    row.waits ?? 'never',
    limits.join(', ') || 'none',
  ];
}

function defaultClass(policy: QueueClassSettings['policy'], threshold: number): QueueClassSettings {
  return {
    name: 'default',
    family: null,
    bucket: null,
    policy,
    quantum: 1,
    prefillBusyThreshold: null,
    prefillBusyThresholdFrac: threshold,
    busyWorkerRatio: null,
    requestLimit: null,
    rawIslLimit: null,
    cachedLimit: null,
  };
}

function rowOf(model: string, one: QueueClassSettings): QueueClassRow {
  return {
    model,
    class: one.name,
    family: one.family,
    bucket: one.bucket,
    queue_policy: one.policy,
    quantum: one.quantum,
    waits: waitsOf(one),
    limits_per_worker: {
      requests: one.requestLimit,
      raw_isl_tokens: one.rawIslLimit,
      cached_tokens: one.cachedLimit,
    },
  };
}

function waitsOf({
  busyWorkerRatio: ratio,
  prefillBusyThreshold: tokens,
  prefillBusyThresholdFrac: share,
}: QueueClassSettings): string | null {
  const above = [
    ...(tokens === null ? [] : [`${tokens} prompt tokens`]),
    ...(share === null ? [] : [`${share} × max_num_batched_tokens`]),
  ];
  if (above.length === 0) return null;
  return `${ratio === null ? 'all workers' : `${ratio} of the workers`} above ${above.join(' or ')}`;
}

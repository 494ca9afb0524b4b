// What holds between the keys of a queue profile: `default_policy_family`, `policy_classes` and `uncached_isl_buckets`, at the root or
// for one model. The rules are the Rust router's, so that its policy files mean the same here.
import { didYouMean } from './nearest.ts';
import type { FileValue } from './schema.ts';
import type { ConfigPath, ProblemAnchor } from './types.ts';

/** The three keys of a profile. */
export const QUEUE_KEYS = ['default_policy_family', 'policy_classes', 'uncached_isl_buckets'] as const;

/** A profile in the names of the file. */
export type QueueProfile = Pick<FileValue, (typeof QUEUE_KEYS)[number]>;

type Report = (path: ConfigPath, message: string, anchor?: ProblemAnchor) => void;
type PolicyClass = NonNullable<QueueProfile['policy_classes']>[number];

/** Names stand in headers and metrics. */
const NAME = /^[A-Za-z0-9_.-]+$/;

/** Reports what is wrong with a profile that stands under `path`. */
export function checkQueueProfile(profile: QueueProfile, path: ConfigPath, report: Report): void {
  const given = QUEUE_KEYS.filter((key) => profile[key] !== null);
  const { default_policy_family: family, policy_classes: classes, uncached_isl_buckets: buckets } = profile;
  if (family === null || classes === null || buckets === null) {
    const missing = QUEUE_KEYS.filter((key) => profile[key] === null).join(' and ');
    const first = given[0];
    if (first !== undefined)
      report([...path, first], `needs ${missing} beside it; a queue profile has all three keys`, 'key');
    return;
  }
  checkBuckets(buckets, [...path, 'uncached_isl_buckets'], report);
  checkClasses(classes, [...path, 'policy_classes'], report);
  const families = new Set(classes.flatMap((one) => one.policy_family ?? []));
  if (!families.has(family)) {
    report(
      [...path, 'default_policy_family'],
      `no policy class has policy_family ${family}${didYouMean(family, families)}`,
    );
  }
  checkMatrix(profile, families, [...path, 'policy_classes'], report);
}

function checkBuckets(
  buckets: NonNullable<QueueProfile['uncached_isl_buckets']>,
  path: ConfigPath,
  report: Report,
): void {
  if (buckets.length === 0) report(path, 'needs at least one bucket');
  const names = new Set<string>();
  for (const [index, { min_tokens: floor, bucket }] of buckets.entries()) {
    const before = buckets[index - 1]?.min_tokens;
    if (before === undefined && floor !== 0)
      report([...path, index, 'min_tokens'], 'the first bucket starts at 0');
    if (before !== undefined && floor <= before) {
      report(
        [...path, index, 'min_tokens'],
        `buckets are in rising order, and ${floor} is not above ${before}`,
      );
    }
    if (names.has(bucket)) report([...path, index, 'bucket'], `bucket "${bucket}" is given twice`);
    names.add(bucket);
    checkName(bucket, [...path, index, 'bucket'], report);
  }
}

function checkClasses(classes: readonly PolicyClass[], path: ConfigPath, report: Report): void {
  const families = new Set(classes.flatMap((one) => one.policy_family ?? []));
  const names = new Set<string>();
  for (const [index, { name, policy_family: family, cache_bucket: bucket }] of classes.entries()) {
    if (names.has(name)) report([...path, index, 'name'], `policy class "${name}" is given twice`);
    names.add(name);
    checkName(name, [...path, index, 'name'], report);
    if (family !== null) checkName(family, [...path, index, 'policy_family'], report);
    checkRatio(classes[index]!, [...path, index, 'busy_worker_ratio'], report);
    if ((family === null) !== (bucket === null)) {
      report([...path, index], 'has policy_family and cache_bucket both, or neither');
    } else if (family === null && families.has(name)) {
      report(
        [...path, index, 'name'],
        `"${name}" is a policy family, so a class without one cannot have that name`,
      );
    }
  }
}

function checkName(name: string, path: ConfigPath, report: Report): void {
  if (!NAME.test(name)) report(path, `"${name}" is no name of letters, digits, "_", "." and "-"`);
}

function checkRatio(
  {
    busy_worker_ratio: ratio,
    prefill_busy_threshold: tokens,
    prefill_busy_threshold_frac: share,
  }: PolicyClass,
  path: ConfigPath,
  report: Report,
): void {
  if (ratio === null) return;
  if (ratio === 0) report(path, 'expected a number above 0, up to 1, found 0');
  else if (tokens === null && share === null) {
    report(
      path,
      'needs prefill_busy_threshold or prefill_busy_threshold_frac beside it, which say who is busy',
      'key',
    );
  }
}

/** Exactly one class per family and bucket. */
function checkMatrix(
  { policy_classes: classes, uncached_isl_buckets: buckets }: QueueProfile,
  families: ReadonlySet<string>,
  path: ConfigPath,
  report: Report,
): void {
  const bucketNames = new Set((buckets ?? []).map(({ bucket }) => bucket));
  const seen = new Map<string, Set<string>>();
  for (const [index, { policy_family: family, cache_bucket: bucket }] of (classes ?? []).entries()) {
    if (family === null || bucket === null) continue;
    if (!bucketNames.has(bucket)) {
      report(
        [...path, index, 'cache_bucket'],
        `no bucket is named "${bucket}"${didYouMean(bucket, bucketNames)}`,
      );
    }
    const ofFamily = seen.get(family) ?? new Set<string>();
    if (ofFamily.has(bucket)) {
      report([...path, index], `another class already stands for family ${family} and bucket ${bucket}`);
    }
    seen.set(family, ofFamily.add(bucket));
  }
  for (const family of families) {
    const missing = [...bucketNames].find((bucket) => !seen.get(family)?.has(bucket));
    if (missing !== undefined) report(path, `family ${family} has no class for bucket ${missing}`);
  }
}

// Starts the threads of isolated plugins before anything is served, and has each create its policies once for every partition, so
// that a start fails with what a plugin says rather than a request without hints.
import { type Logger, type Partition, PointsmanError, type Role } from '../plugin/index.ts';
import type { ResolvedClassifier } from './classifier-resolution.ts';
import { type ClassifierFleet, classifierSite } from './classifier-site.ts';
import type { ThreadSite } from './isolation/isolated-policy.ts';
import type { ThreadInstances, ThreadPlan } from './isolation/thread-instances.ts';
import type { ProblemList } from './problem-list.ts';
import { type CreationSite, hintPart, threadSiteOf } from './role-creation.ts';
import type { ResolvedRole } from './role-resolution.ts';

/** What is started. */
export interface ThreadStartPlan {
  readonly roles: readonly ResolvedRole[];
  /** Where a role is to be created. */
  readonly sitesOf: (role: Role) => readonly CreationSite[];
  readonly classifier: ResolvedClassifier | null;
  /** Where the classifier is to be created. */
  readonly classified: readonly Partition[];
  /** Null = isolated plugins run in process; the log says so once. */
  readonly threads: ThreadInstances | null;
  readonly fleet: ClassifierFleet | null;
  /** Tokens per block of a model as configured; null = not configured. */
  readonly blockSizeOf: (partition: Partition) => number | null;
  readonly seed: number;
  readonly log: Logger;
}

/** A plugin to be tried in its thread. */
interface Trial {
  readonly thread: ThreadPlan;
  readonly path: readonly (string | number)[];
  readonly site: ThreadSite;
  /** What `create` did, when it threw: up to the plugin's own words. */
  readonly threw: string;
}

/** Starts; what fails goes to the list, at the plugin's place. */
export async function startThreads(plan: ThreadStartPlan, problems: ProblemList): Promise<void> {
  const { threads, log } = plan;
  const trials = trialsOf(plan);
  if (threads === null) {
    const plugins = [...new Set(trials.map(({ thread }) => thread.name))].join(', ');
    if (plugins === '') return;
    log.info('isolated plugins run in process here: threads have no part in virtual time', { plugins });
    return;
  }
  /** What cannot be started is not tried, and what failed for one partition not for the next. */
  const failed = new Set<string>();
  const started = new Set<string>();
  for (const { thread, path, site, threw } of trials) {
    const place = path.join('.');
    if (failed.has(thread.key) || failed.has(`${place} tried`)) continue;
    try {
      if (!started.has(thread.key)) await threads.start(thread);
      started.add(thread.key);
    } catch (thrown) {
      if (!(thrown instanceof PointsmanError)) throw thrown;
      failed.add(thread.key);
      problems.error(thrown.code, path, 'key', thrown.message);
      continue;
    }
    const fault = await threads.try(thread, site);
    if (fault === null) continue;
    failed.add(`${place} tried`);
    problems.error('PM_PLUGIN_THREW', path, 'key', `${threw}: ${fault}`);
  }
}

function trialsOf({
  roles,
  sitesOf,
  classifier,
  classified,
  fleet,
  blockSizeOf,
  seed,
}: ThreadStartPlan): Trial[] {
  const trials: Trial[] = [];
  for (const resolved of roles) {
    for (const { name, prepared, path, thread } of resolved.hints) {
      if (thread == null) continue;
      const threw = `create of hint policy ${name} threw for role ${resolved.role}`;
      for (const site of sitesOf(resolved.role)) {
        const threadSite = threadSiteOf(prepared, hintPart(name), resolved, site, { seed });
        trials.push({ thread, path, site: threadSite, threw });
      }
    }
  }
  const { thread = null, prepared } = classifier ?? {};
  if (thread === null || prepared === undefined) return trials;
  for (const partition of classified) {
    const site = classifierSite(seed, prepared, partition, blockSizeOf(partition), fleet);
    const threw = `create of request classifier ${prepared.type} threw for model ${partition.model}`;
    trials.push({ thread, path: ['request_classifier'], site, threw });
  }
  return trials;
}

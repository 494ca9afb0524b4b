// Starts the threads of isolated plugins before anything is served, and has each create its policies once for every partition, so
// that a start fails with what a plugin says rather than a request without hints.
import { type Logger, PointsmanError, type Role } from '../plugin/index.ts';
import type { ThreadInstances } from './isolation/thread-instances.ts';
import type { ProblemList } from './problem-list.ts';
import { type CreationSite, hintPart, threadSiteOf } from './role-creation.ts';
import type { ResolvedRole } from './role-resolution.ts';

/** What is started. */
export interface ThreadStartPlan {
  readonly roles: readonly ResolvedRole[];
  /** Where a role is to be created. */
  readonly sitesOf: (role: Role) => readonly CreationSite[];
  /** Null = isolated plugins run in process; the log says so once. */
  readonly threads: ThreadInstances | null;
  readonly seed: number;
  readonly log: Logger;
}

/** Starts; what fails goes to the list, at the hint's place. */
export async function startThreads(plan: ThreadStartPlan, problems: ProblemList): Promise<void> {
  const { roles, sitesOf, threads, seed, log } = plan;
  const failed = new Set<string>();
  const named = new Set<string>();
  for (const resolved of roles) {
    for (const { name, prepared, path, thread } of resolved.hints) {
      if (thread == null || failed.has(thread.key)) continue;
      named.add(name);
      if (threads === null) continue;
      try {
        await threads.start(thread);
      } catch (thrown) {
        if (!(thrown instanceof PointsmanError)) throw thrown;
        failed.add(thread.key);
        problems.error(thrown.code, path, 'key', thrown.message);
        continue;
      }
      for (const site of sitesOf(resolved.role)) {
        const fault = await threads.try(
          thread,
          threadSiteOf(prepared, hintPart(name), resolved, site, { seed }),
        );
        if (fault === null) continue;
        const message = `create of hint policy ${name} threw for role ${resolved.role}: ${fault}`;
        problems.error('PM_PLUGIN_THREW', path, 'key', message);
        break;
      }
    }
  }
  if (threads === null && named.size > 0) {
    const hints = [...named].join(', ');
    log.info('isolated hint policies run in process here: threads have no part in virtual time', { hints });
  }
}

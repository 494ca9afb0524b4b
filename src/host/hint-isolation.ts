// Which hint policies run in threads of their own: as their author says, unless the configuration decides otherwise.
import type { HintEntry } from '../config/index.ts';
import { BUILT_IN_VERSION, type PreparedHint } from './catalog.ts';
import type { ThreadPlan } from './isolation/thread-instances.ts';
import type { ProblemList } from './problem-list.ts';

/** How long the answer of a thread is waited for where the configuration does not say; ms. */
export const DEFAULT_DEADLINE_MS = 50;

/** The thread of a listed policy, or null when it runs in process; what does not fit goes to the list. */
export function threadPlanOf(
  entry: HintEntry,
  prepared: PreparedHint,
  problems: ProblemList,
): ThreadPlan | null {
  const { name, parameters, path } = entry;
  const isolation = entry.isolation ?? prepared.isolation;
  if (isolation === 'in-process') {
    if (entry.deadlineMs !== null) {
      const message = `${name} runs in process, where nothing is waited for: deadline has no effect; add isolation: thread, or remove it`;
      problems.warning('PM_CONFIG_NO_EFFECT', [...path, 'deadline'], 'key', message);
    }
    return null;
  }
  if (prepared.origin.version === BUILT_IN_VERSION) {
    const message = `${prepared.type} is built in and runs in process; remove isolation, which is for plugins`;
    problems.error('PM_CONFIG_CONFLICT', [...path, 'isolation'], 'value', message);
    return null;
  }
  return plan(path.join('.'), name, prepared, parameters, entry.deadlineMs ?? DEFAULT_DEADLINE_MS);
}

/** The thread of a policy that runs by default: one for all roles. */
export function defaultThreadPlan(prepared: PreparedHint): ThreadPlan | null {
  if (prepared.isolation === 'in-process') return null;
  return plan(`default ${prepared.type}`, prepared.type, prepared, {}, DEFAULT_DEADLINE_MS);
}

function plan(
  key: string,
  name: string,
  { origin, type }: PreparedHint,
  parameters: unknown,
  deadlineMs: number,
): ThreadPlan {
  const { name: specifier, files = new Map<string, string>() } = origin;
  return { key, name, specifier, files, type, parameters, deadlineMs };
}

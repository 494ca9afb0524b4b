// Which hint policies and classifiers run in threads of their own: as their author says, unless the configuration decides otherwise.
import type { ClassifierEntry, HintEntry } from '../config/index.ts';
import { BUILT_IN_VERSION, type PreparedClassifier, type PreparedHint } from './catalog.ts';
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
  if (!runsInThread(entry, entry.name, prepared, problems)) return null;
  return plan('hint', entry.path.join('.'), entry.name, prepared, entry);
}

/** The thread of the request classifier, as of {@link threadPlanOf}. */
export function classifierThreadPlan(
  entry: ClassifierEntry,
  prepared: PreparedClassifier,
  problems: ProblemList,
): ThreadPlan | null {
  if (!runsInThread(entry, prepared.type, prepared, problems)) return null;
  return plan('classifier', entry.path.join('.'), prepared.type, prepared, entry);
}

/** The thread of a policy that runs by default: one for all roles. */
export function defaultThreadPlan(prepared: PreparedHint): ThreadPlan | null {
  if (prepared.isolation === 'in-process') return null;
  const said = { parameters: {}, deadlineMs: null };
  return plan('hint', `default ${prepared.type}`, prepared.type, prepared, said);
}

function runsInThread(
  { deadlineMs, isolation, path }: Pick<HintEntry, 'deadlineMs' | 'isolation' | 'path'>,
  name: string,
  prepared: PreparedHint | PreparedClassifier,
  problems: ProblemList,
): boolean {
  if ((isolation ?? prepared.isolation) === 'in-process') {
    if (deadlineMs !== null) {
      const message = `${name} runs in process, where nothing is waited for: deadline has no effect; add isolation: thread, or remove it`;
      problems.warning('PM_CONFIG_NO_EFFECT', [...path, 'deadline'], 'key', message);
    }
    return false;
  }
  if (prepared.origin.version !== BUILT_IN_VERSION) return true;
  const message = `${prepared.type} is built in and runs in process; remove isolation, which is for plugins`;
  problems.error('PM_CONFIG_CONFLICT', [...path, 'isolation'], 'value', message);
  return false;
}

function plan(
  kind: ThreadPlan['kind'],
  key: string,
  name: string,
  { origin, type }: PreparedHint | PreparedClassifier,
  { parameters, deadlineMs }: { readonly parameters: unknown; readonly deadlineMs: number | null },
): ThreadPlan {
  return {
    kind,
    key,
    name,
    specifier: origin.name,
    files: origin.files ?? new Map<string, string>(),
    type,
    parameters,
    deadlineMs: deadlineMs ?? DEFAULT_DEADLINE_MS,
  };
}

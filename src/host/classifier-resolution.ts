// Finds the request classifier of a configuration in the catalog, its parameters read.
import { nameList, type RouterConfig } from '../config/index.ts';
import type { Clock } from '../plugin/index.ts';
import { type PolicyCatalog, type PreparedClassifier, prepareWithin } from './catalog.ts';
import type { ThreadPlan } from './isolation/thread-instances.ts';
import type { ProblemList } from './problem-list.ts';
import { classifierThreadPlan } from './thread-plans.ts';
import { insteadOf } from './unknown-type.ts';

/** What `default` stands for. */
const DEFAULT_CLASSIFIER = 'pass-through';

/** A classifier with its parameters read, and what the configuration says of it. */
export interface ResolvedClassifier {
  readonly prepared: PreparedClassifier;
  readonly maxWaitMs: number;
  /** Null = it runs in process. */
  readonly thread: ThreadPlan | null;
}

/** Finds the configured classifier; null = there is none, or a problem was noted. */
export async function resolveClassifier(
  config: RouterConfig,
  catalog: PolicyCatalog,
  problems: ProblemList,
  clock: Clock,
): Promise<ResolvedClassifier | null> {
  const entry = config.requestClassifier;
  if (entry === null) return null;
  const type = entry.type === 'default' ? DEFAULT_CLASSIFIER : entry.type;
  const found = catalog.classifiers.get(type);
  if (found === undefined) {
    const known = [...catalog.classifiers.keys()];
    const other = catalog.hints.has(type)
      ? 'a hint policy; list it under the hints of a role'
      : catalog.selections.has(type)
        ? 'a worker-selection policy; name it under worker_selection'
        : null;
    const message =
      other === null
        ? `unknown request classifier "${type}"; ${insteadOf(type, catalog, known)}`
        : `${type} is ${other}, and choose a request classifier: ${nameList(known)}`;
    problems.error('PM_POLICY_UNKNOWN', entry.typePath, 'value', message);
    return null;
  }
  const preparation = await prepareWithin(clock, found, entry.parameters);
  if (preparation.faults !== null) {
    problems.parameters('error', entry.path, preparation.faults, type);
    return null;
  }
  const { prepared } = preparation;
  const thread = classifierThreadPlan(entry, prepared, problems);
  return { prepared, maxWaitMs: entry.maxWaitMs, thread };
}

// Checks what a classifier's `create` returned and takes it apart.
import type { ClassifierEvent, ClassifyRequest } from '../plugin/index.ts';
import { checkMembers, disposer, invalid, readable } from './created-policy.ts';

/** A created classifier, bound. */
export interface CreatedClassifier {
  readonly classify: ((request: ClassifyRequest) => unknown) | null;
  readonly onEvent: ((event: ClassifierEvent) => unknown) | null;
  readonly dispose: () => unknown;
}

const MEMBERS = ['classify', 'onEvent', 'dispose'];

/** @throws PointsmanError PM_PLUGIN_INVALID. */
export function checkClassifier(created: unknown, label: string): CreatedClassifier {
  return readable(label, () => {
    const classifier = checkMembers(created, MEMBERS, label);
    return {
      classify: method(classifier, 'classify', label),
      onEvent: method(classifier, 'onEvent', label),
      dispose: disposer(classifier, label),
    };
  });
}

function method<T>(classifier: object, name: string, label: string): ((argument: T) => unknown) | null {
  const found: unknown = Reflect.get(classifier, name);
  if (found === undefined) return null;
  if (typeof found !== 'function') throw invalid(`create of ${label}: ${name} must be a function`);
  return (argument) => Reflect.apply(found, classifier, [argument]);
}

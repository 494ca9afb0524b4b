// Checks what a policy's `create` returned, member by member, before anything uses it.
import { didYouMean } from '../config/index.ts';
import {
  type AnyHintPolicy,
  type Commitment,
  type LinearCost,
  PointsmanError,
  type TimeCost,
  type WorkerFilter,
  type WorkerPicker,
  type WorkerScorer,
} from '../plugin/index.ts';
import { checkWorkerInputs } from './definition-check.ts';
import type { PolicyParts } from './policy-components.ts';
import { absorbPromise, describeValue } from './selection-errors.ts';

/** A cost that a policy declares and the host evaluates. */
export type DeclaredCost = LinearCost<Commitment> | TimeCost;

/** A created worker-selection policy, taken apart. */
export interface CreatedSelection extends PolicyParts {
  readonly cost: DeclaredCost | null;
  readonly dispose: () => unknown;
}

const SELECTION_MEMBERS = ['filters', 'scorers', 'picker', 'cost', 'dispose'];
const HINT_MEMBERS = ['buildHints', 'dispose'];

/** Takes a worker-selection policy apart. @throws PointsmanError PM_PLUGIN_INVALID. */
export function checkSelection(created: unknown, label: string, commits: boolean): CreatedSelection {
  return readable(label, () => partsOf(created, label, commits));
}

function partsOf(created: unknown, label: string, commits: boolean): CreatedSelection {
  const policy = checkMembers(created, SELECTION_MEMBERS, label);
  const filters = components<WorkerFilter>(policy, 'filters', 'filter', 'keep', label);
  const scorers = components<WorkerScorer>(policy, 'scorers', 'scorer', 'score', label);
  const dispose = disposer(policy, label);
  const cost = Reflect.get(policy, 'cost');
  const picker = Reflect.get(policy, 'picker');
  if (cost !== undefined) {
    if (picker !== undefined || scorers.length > 0) {
      throw invalid(
        `create of ${label} returned cost together with scorers or a picker; a declared cost brings its own`,
      );
    }
    if (isComponent(cost, 'time-cost')) {
      return { filters, scorers, picker: null, cost: cost as TimeCost, commits, dispose };
    }
    if (!isComponent(cost, 'linear-cost'))
      throw invalid(`create of ${label}: cost must be made with linearCost or timeCost`);
    const made = cost as LinearCost<Commitment>;
    // One made with an older copy of the package says nothing of commitments or of blocks in flight.
    const declared =
      Reflect.has(made, 'commits') && Reflect.has(made, 'inFlight')
        ? made
        : { ...made, commits: made.commits ?? [], inFlight: made.inFlight ?? false };
    if (!commits && declared.commits.length > 0) {
      throw invalid(
        `create of ${label} returned linearCostWithCopies without the commitment; declare commitments: ['kv-copy'], and commitsWhen where it depends`,
      );
    }
    return { filters, scorers, picker: null, cost: declared, commits, dispose };
  }
  if (picker === undefined) {
    throw invalid(
      `create of ${label} returned no picker; add picker: pickWorker({...}) or pickLowestCost(rng)`,
    );
  }
  if (!isComponent(picker, 'picker') || typeof Reflect.get(picker, 'pick') !== 'function') {
    throw invalid(`create of ${label}: picker must be made with pickWorker or pickLowestCost`);
  }
  checkComponentInputs(picker, `picker of ${label}`);
  return { filters, scorers, picker: picker as WorkerPicker<Commitment>, cost: null, commits, dispose };
}

/** Checks a created hint policy. @throws PointsmanError PM_PLUGIN_INVALID. */
export function checkHintPolicy(created: unknown, label: string): AnyHintPolicy {
  return readable(label, () => {
    const policy = checkMembers(created, HINT_MEMBERS, label);
    if (typeof Reflect.get(policy, 'buildHints') !== 'function') {
      throw invalid(`create of ${label} returned no buildHints function`);
    }
    disposer(policy, label);
    return policy as AnyHintPolicy;
  });
}

/** Reads a created object, whose getters and traps may throw anything. @throws PointsmanError PM_PLUGIN_INVALID. */
export function readable<T>(label: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof PointsmanError) throw thrown;
    // What it threw is for operators: clients may read the message.
    throw new PointsmanError(
      'PM_PLUGIN_INVALID',
      `create of ${label} returned an object that cannot be read`,
      {
        cause: thrown,
      },
    );
  }
}

/** The created object, its members known. @throws PointsmanError PM_PLUGIN_INVALID. */
export function checkMembers(created: unknown, members: readonly string[], label: string): object {
  if (typeof created !== 'object' || created === null || created instanceof Promise) {
    absorbPromise(created);
    throw invalid(`create of ${label} must return a policy, got ${describeValue(created)}`);
  }
  // An instance of a class may keep its state in fields of any name; a plain object says what it offers.
  const prototype: unknown = Object.getPrototypeOf(created);
  if (prototype !== Object.prototype && prototype !== null) return created;
  for (const name of Object.keys(created)) {
    if (members.includes(name)) continue;
    const hint = didYouMean(name, members) || `; known: ${members.join(', ')}`;
    throw invalid(`create of ${label} returned the unknown member "${name}"${hint}`);
  }
  return created;
}

function components<T>(
  policy: object,
  list: string,
  kind: string,
  method: string,
  label: string,
): readonly T[] {
  const found: unknown = Reflect.get(policy, list) ?? [];
  if (!Array.isArray(found))
    throw invalid(`create of ${label}: ${list} must be a list, got ${describeValue(found)}`);
  for (const [at, component] of found.entries()) {
    if (!isComponent(component, kind) || typeof Reflect.get(component, method) !== 'function') {
      const maker = kind === 'filter' ? 'filterWorkers' : 'scoreWorkers or scoreEachWorker';
      throw invalid(`create of ${label}: ${list}[${at}] must be made with ${maker}`);
    }
    checkComponentInputs(component, `${list}[${at}] of ${label}`);
  }
  return found as T[];
}

function checkComponentInputs(component: object, label: string): void {
  const fault = checkWorkerInputs(Reflect.get(component, 'inputs'), label);
  if (fault !== null) throw invalid(fault);
}

/** Its `dispose`, or one that does nothing. @throws PointsmanError PM_PLUGIN_INVALID. */
export function disposer(policy: object, label: string): () => unknown {
  const dispose: unknown = Reflect.get(policy, 'dispose');
  if (dispose === undefined) return () => undefined;
  if (typeof dispose !== 'function') throw invalid(`create of ${label}: dispose must be a function`);
  return () => Reflect.apply(dispose, policy, []);
}

function isComponent(value: unknown, kind: string): value is object {
  return typeof value === 'object' && value !== null && Reflect.get(value, 'component') === kind;
}

/** The error of a created object that breaks the contract. */
export function invalid(message: string): PointsmanError {
  return new PointsmanError('PM_PLUGIN_INVALID', message);
}

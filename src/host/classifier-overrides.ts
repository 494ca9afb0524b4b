// Checks what a classifier answered and copies it: nothing of the classifier's own object goes further.
import { didYouMean } from '../config/index.ts';
import type { CheckedOverrides } from './classifier-types.ts';
import { describeValue } from './selection-errors.ts';

const MEMBERS: readonly string[] = ['policyClass', 'dueAt', 'schedulingCostTokens', 'workerTarget'];
const TARGET_MEMBERS: readonly string[] = ['workerId', 'rank'];
const MAX_COST_TOKENS = 2 ** 31 - 1;
const MAX_WORKER_ID = 2n ** 64n - 1n;
const MAX_RANK = 2 ** 32 - 1;
/** No class has a longer name, and an error quotes no more. */
const MAX_NAME = 128;

/** An answer that changes nothing. */
export const NO_OVERRIDES: CheckedOverrides = Object.freeze({});

/** What is wrong with an answer; the text is for the log alone. */
export class InvalidOverrides extends Error {}

type Checked = { -readonly [K in keyof CheckedOverrides]: CheckedOverrides[K] };

/**
 * Reads each member once.
 * @param classes what may be named as a policy class
 * @throws InvalidOverrides, or whatever a getter or a proxy among it throws
 */
export function checkOverrides(answer: unknown, classes: ReadonlySet<string>): CheckedOverrides {
  if (answer === undefined) return NO_OVERRIDES;
  const given = recordOf(answer, MEMBERS, 'classify must answer an object with overrides or undefined');
  const checked: Checked = {};
  const policyClass = given.get('policyClass');
  if (policyClass !== undefined)
    checked.policyClass = orNull(policyClass, (name) => className(name, classes));
  const dueAt = given.get('dueAt');
  if (dueAt !== undefined) checked.dueAt = orNull(dueAt, finiteTime);
  const cost = given.get('schedulingCostTokens');
  if (cost !== undefined) checked.schedulingCostTokens = orNull(cost, costTokens);
  const target = given.get('workerTarget');
  if (target !== undefined) checked.workerTarget = orNull(target, workerTarget);
  return Object.freeze(checked);
}

function orNull<T>(value: unknown, read: (value: unknown) => T): T | null {
  return value === null ? null : read(value);
}

/** The members of an object by name, read once; undefined counts as missing. */
function recordOf(value: unknown, known: readonly string[], rule: string): ReadonlyMap<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidOverrides(`${rule}, got ${describeValue(value)}`);
  }
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === 'string' && known.includes(key)) continue;
    const name = typeof key === 'string' ? key.slice(0, MAX_NAME) : 'a symbol';
    throw new InvalidOverrides(
      `classify answered the unknown member "${name}"${didYouMean(name, known) || `; known: ${known.join(', ')}`}`,
    );
  }
  return new Map(known.map((name) => [name, Reflect.get(value, name)]));
}

function className(value: unknown, classes: ReadonlySet<string>): string {
  if (typeof value !== 'string') {
    throw new InvalidOverrides(`policyClass must be the name of a class, got ${describeValue(value)}`);
  }
  if (classes.has(value)) return value;
  const known = [...classes];
  throw new InvalidOverrides(
    `policyClass names "${value.slice(0, MAX_NAME)}", which is no policy family and no class without one; known: ${known.join(', ')}${didYouMean(value.slice(0, MAX_NAME), known)}`,
  );
}

function finiteTime(value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new InvalidOverrides(`dueAt must be a time in ms, got ${describeValue(value)}`);
}

function costTokens(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_COST_TOKENS) {
    return value;
  }
  throw new InvalidOverrides(
    `schedulingCostTokens must be a whole number from 1 to ${MAX_COST_TOKENS}, got ${describeValue(value)}`,
  );
}

function workerTarget(value: unknown): NonNullable<CheckedOverrides['workerTarget']> {
  const given = recordOf(value, TARGET_MEMBERS, 'workerTarget must be { workerId, rank? }');
  const workerId = given.get('workerId');
  if (typeof workerId !== 'bigint' || workerId < 0n || workerId > MAX_WORKER_ID) {
    throw new InvalidOverrides(
      `workerTarget.workerId must be a bigint of 64 bits, got ${describeValue(workerId)}`,
    );
  }
  const rank = given.get('rank') ?? null;
  if (
    rank !== null &&
    !(typeof rank === 'number' && Number.isInteger(rank) && rank >= 0 && rank <= MAX_RANK)
  ) {
    throw new InvalidOverrides(`workerTarget.rank must be a whole number from 0, got ${describeValue(rank)}`);
  }
  return Object.freeze({ workerId, rank });
}

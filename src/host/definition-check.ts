// Checks the shape of what plugins hand over: definitions at load, and what their `create` returned. The compiler checks most of
// it for authors who use it; JavaScript authors and typing mistakes are caught here.
import { didYouMean } from '../config/index.ts';
import {
  HINT_INPUTS,
  type HintPolicyDefinition,
  ISOLATIONS,
  PLUGIN_API_VERSION,
  type RequestClassifierDefinition,
  WORKER_INPUTS,
  type WorkerSelectionPolicyDefinition,
} from '../plugin/index.ts';
import { checkCommitments } from './commitments.ts';
import { describeValue } from './selection-errors.ts';

/** Any definition. */
export type AnyDefinition =
  | WorkerSelectionPolicyDefinition
  | HintPolicyDefinition
  | RequestClassifierDefinition;

const KINDS: readonly string[] = ['worker-selection', 'hint-policy', 'request-classifier'];
const TYPE_PATTERN = /^[A-Za-z0-9_.-]+$/;
const ACTION_PATTERN = /^[^@\s]+@[^@\s]+$/;

/** Whether a value carries the brand of a definition, of whatever kind and version. */
export function isBranded(value: unknown): value is { readonly '~pointsman': unknown } {
  return typeof value === 'object' && value !== null && '~pointsman' in value;
}

/** Checks a branded value; answers what is wrong with it, or the definition. */
export function checkDefinition(
  value: { readonly '~pointsman': unknown },
  label: string,
): AnyDefinition | string {
  const brand = value['~pointsman'];
  const kind = property(brand, 'kind');
  const version = property(brand, 'apiVersion');
  if (typeof kind !== 'string' || typeof version !== 'string') return `${label} has a broken brand`;
  if (major(version) !== major(PLUGIN_API_VERSION)) {
    return `${label} was written for plugin API ${version}, this Pointsman offers ${PLUGIN_API_VERSION}; use a plugin built for ${major(PLUGIN_API_VERSION)}.x`;
  }
  if (!KINDS.includes(kind)) {
    return `${label} is a ${kind}; this Pointsman knows the kinds ${KINDS.join(', ')}`;
  }
  const typeFault = checkType(property(value, 'type'), label);
  if (typeFault !== null) return typeFault;
  if (typeof property(value, 'create') !== 'function') return `${label} has no create function`;
  const schema = property(value, 'parameters');
  if (schema !== undefined && typeof property(property(schema, '~standard'), 'validate') !== 'function') {
    return `${label}: parameters must be a Standard Schema, got ${describeValue(schema)}`;
  }
  const commitments = checkCommitments(value, label);
  if (commitments !== null) return commitments;
  if (kind === 'hint-policy') {
    const fault = checkHintDeclarations(value, label);
    if (fault !== null) return fault;
  } else if (kind === 'worker-selection' && property(value, 'isolation') !== undefined) {
    return `${label}: worker selection cannot be isolated, as selecting and booking are one synchronous step; remove isolation`;
  }
  if (kind === 'request-classifier') {
    const fault = checkClassifierDeclarations(value, label);
    if (fault !== null) return fault;
  }
  // Every member the host reads was checked above.
  return value as AnyDefinition;
}

/** What is wrong with a type name, or null. */
export function checkType(type: unknown, label: string): string | null {
  if (typeof type !== 'string' || !TYPE_PATTERN.test(type)) {
    const got = typeof type === 'string' ? `"${type}"` : describeValue(type);
    return `${label}: type must consist of letters, digits, "_", "." and "-", got ${got}`;
  }
  if (type === 'default') return `${label}: the type default is reserved; choose another name`;
  return null;
}

/** What is wrong with the inputs, actions and default hosts of a hint policy, or null. */
export function checkHintDeclarations(value: object, label: string): string | null {
  const inputs = checkInputs(property(value, 'inputs') ?? [], HINT_INPUTS, `${label}: inputs`);
  if (inputs !== null) return inputs;
  const actions = property(value, 'actions');
  if (actions !== undefined && !(Array.isArray(actions) && actions.every(isActionName))) {
    return `${label}: actions must be a list of type@version`;
  }
  const hosts = property(value, 'defaultHosts') ?? [];
  if (!Array.isArray(hosts) || !hosts.every(isDefaultHost)) {
    return `${label}: defaultHosts must be a list of { workerSelection: TYPE } or 'any-worker-selection'`;
  }
  return checkIsolation(value, label);
}

/** What is wrong with where a plugin is to run, or null. */
export function checkIsolation(value: object, label: string): string | null {
  const isolation = property(value, 'isolation');
  if (isolation === undefined || ISOLATIONS.some((one) => one === isolation)) return null;
  return `${label}: isolation must be one of ${ISOLATIONS.join(', ')}, got ${describeValue(isolation)}`;
}

/** What is wrong with what a request classifier declares, or null: it reads nothing that others would have to prepare. */
function checkClassifierDeclarations(value: object, label: string): string | null {
  for (const name of ['inputs', 'commitments']) {
    const list = property(value, name);
    if (list === undefined || (Array.isArray(list) && list.length === 0)) continue;
    return `${label}: a request classifier has no ${name}; leave them out`;
  }
  return checkIsolation(value, label);
}

/** What is wrong with a list of inputs, or null. */
export function checkInputs(inputs: unknown, known: readonly string[], label: string): string | null {
  if (!Array.isArray(inputs)) return `${label} must be a list, got ${describeValue(inputs)}`;
  for (const input of inputs) {
    if (typeof input === 'string' && known.includes(input)) continue;
    const name = typeof input === 'string' ? input : describeValue(input);
    return `${label}: unknown input "${name}"; known: ${known.join(', ')}${didYouMean(name, known)}`;
  }
  return null;
}

/** Names the inputs worker-selection components may declare. */
export function checkWorkerInputs(inputs: unknown, label: string): string | null {
  return checkInputs(inputs, WORKER_INPUTS, label);
}

function isActionName(action: unknown): boolean {
  return typeof action === 'string' && ACTION_PATTERN.test(action);
}

function isDefaultHost(host: unknown): boolean {
  return host === 'any-worker-selection' || typeof property(host, 'workerSelection') === 'string';
}

function major(version: string): string {
  return version.split('.', 1)[0] ?? '';
}

function property(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

// Parses the parameters of one configured policy with its schema and turns what the schema says into faults with a path. Works with
// any Standard Schema; suggestions need one that can list its keys (Standard JSON Schema, as in zod and arktype).
import { type ConfigPath, didYouMean, type ProblemAnchor } from '../config/index.ts';
import { errorText, type ParameterSchema, type SchemaIssue } from '../plugin/index.ts';

/** One thing wrong with parameters; the path starts at the parameters. */
export interface ParameterFault {
  readonly path: ConfigPath;
  readonly anchor: ProblemAnchor;
  readonly message: string;
}

/** Parsed parameters, or what is wrong with them. */
export type ParsedParameters =
  | { readonly value: unknown; readonly faults: null }
  | { readonly faults: readonly ParameterFault[] };

/** Parses raw YAML parameters; absent and null are `{}`. Never rejects. */
export async function parseParameters(
  schema: ParameterSchema | undefined,
  given: unknown,
): Promise<ParsedParameters> {
  const raw = given ?? {};
  if (!isMapping(raw)) return { faults: [{ path: [], anchor: 'value', message: 'must be a mapping' }] };
  if (schema === undefined) {
    const faults = Object.keys(raw).map((key) => unknownKey([], key, []));
    return faults.length > 0 ? { faults } : { value: {}, faults: null };
  }
  try {
    const result = await schema['~standard'].validate(raw);
    if (!result.issues) return { value: result.value, faults: null };
    const faults = result.issues.flatMap((issue) => faultsOf(schema, raw, issue));
    if (faults.length > 0) return { faults };
    return { faults: [{ path: [], anchor: 'key', message: 'the schema refuses them without a reason' }] };
  } catch (thrown) {
    return { faults: [{ path: [], anchor: 'key', message: `the schema threw: ${errorText(thrown)}` }] };
  }
}

function faultsOf(schema: ParameterSchema, raw: unknown, issue: SchemaIssue): ParameterFault[] {
  const path = pathOf(issue);
  // zod names unknown keys beside the path of their parent.
  const unknown = field(issue, 'code') === 'unrecognized_keys' ? field(issue, 'keys') : undefined;
  if (Array.isArray(unknown)) {
    return unknown.map((key) => unknownKey(path, String(key), knownKeys(schema, path)));
  }
  if (path.length === 0) return [{ path, anchor: 'key', message: issue.message }];
  const parent = path.slice(0, -1);
  const last = path.at(-1)!;
  if (!hasKey(at(raw, parent), last)) return [{ path, anchor: 'parent', message: issue.message }];
  const known = knownKeys(schema, parent);
  const isUnknown =
    field(issue, 'expected') === 'never' ||
    (known.length > 0 && typeof last === 'string' && !known.includes(last));
  if (isUnknown) return [unknownKey(parent, String(last), known)];
  return [{ path, anchor: 'value', message: issue.message }];
}

function unknownKey(parent: ConfigPath, key: string, known: readonly string[]): ParameterFault {
  const list = known.length > 0 ? `; known: ${known.join(', ')}` : '';
  return {
    path: [...parent, key],
    anchor: 'key',
    message: `unknown key "${key}"${didYouMean(key, known) || list}`,
  };
}

/** The keys a schema allows at a path, empty where it cannot tell. */
function knownKeys(schema: ParameterSchema, path: ConfigPath): readonly string[] {
  const jsonSchema = field(schema['~standard'], 'jsonSchema');
  const input = field(jsonSchema, 'input');
  if (typeof input !== 'function') return [];
  try {
    let node: unknown = input.call(jsonSchema, {
      target: 'draft-2020-12',
      // zod refuses bigint and dates otherwise; only the names of the keys matter here.
      libraryOptions: { unrepresentable: 'any' },
    });
    for (const step of path) {
      node = mappingOf(
        typeof step === 'number' ? field(node, 'items') : field(field(node, 'properties'), step),
      );
    }
    const properties = field(node, 'properties');
    return isMapping(properties) ? Object.keys(properties) : [];
  } catch {
    // A schema with transforms may not have a JSON form; then there are no suggestions.
    return [];
  }
}

/** Of a choice, the alternative that lists keys: what may be null is written as one. */
function mappingOf(node: unknown): unknown {
  const choice = field(node, 'anyOf');
  return Array.isArray(choice) ? choice.find((one) => field(one, 'properties') !== undefined) : node;
}

function pathOf(issue: SchemaIssue): ConfigPath {
  return (issue.path ?? []).map((step) => {
    const key = typeof step === 'object' ? step.key : step;
    return typeof key === 'number' ? key : String(key);
  });
}

function at(value: unknown, path: ConfigPath): unknown {
  return path.reduce<unknown>((node, step) => field(node, step), value);
}

function field(value: unknown, key: PropertyKey): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

function hasKey(value: unknown, key: PropertyKey): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key);
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Every policy type this process knows, built-ins first, then plugins in the order they were listed. Types are unique over all kinds.
import {
  type AnyClassifierCreateContext,
  type AnyCreateContext,
  type Clock,
  type DefaultHost,
  type ErrorCode,
  errorText,
  type HintInput,
  type Isolation,
  type Scope,
} from '../plugin/index.ts';
import { commitsKvCopy } from './commitments.ts';
import type { AnyDefinition } from './definition-check.ts';
import { type ParameterFault, parseParameters } from './parameters.ts';
import { readInputs } from './read-inputs.ts';
import { LOAD_LIMIT_MS, withinLimit } from './time-limit.ts';

/** Version of what comes with the program. */
export const BUILT_IN_VERSION = 'builtin';

/** Where a type came from. */
export interface Origin {
  /** `built in`, a file or a package, for messages. */
  readonly name: string;
  /** `builtin`, or a short content hash. */
  readonly version: string;
  /** Digest of each file that went into that hash, by absolute path; absent = there is none. */
  readonly files?: ReadonlyMap<string, string>;
}

/** A policy with its parameters read, ready to be created for partitions; `C` is what its `create` is given. */
export interface Prepared<C = AnyCreateContext> {
  readonly type: string;
  readonly origin: Origin;
  readonly scope: Scope;
  readonly create: (context: C) => unknown;
}

/** A prepared request classifier. */
export interface PreparedClassifier extends Prepared<AnyClassifierCreateContext> {
  /** Where it runs unless the configuration says otherwise. */
  readonly isolation: Isolation;
}

/** A prepared worker-selection policy. */
export interface PreparedSelection extends Prepared {
  readonly exclusiveAffinity: boolean;
  /** Whether its choices may commit KV copies. */
  readonly commits: boolean;
}

/** A prepared hint policy. */
export interface PreparedHint extends Prepared {
  readonly inputs: readonly HintInput[];
  /** Null = any. */
  readonly actions: ReadonlySet<string> | null;
  /** Whether it declares the commitment `kv-copy`, which shapes its context. */
  readonly seesCommits: boolean;
  /** Whether it sends the copies that its role's worker-selection policy commits. */
  readonly sends: boolean;
  /** Where it runs unless the configuration says otherwise. */
  readonly isolation: Isolation;
}

/** A prepared policy, or what is wrong with its parameters. */
export type Preparation<P extends Prepared<never>> =
  | { readonly prepared: P; readonly faults: null }
  | { readonly faults: readonly ParameterFault[] };

/** A registered type of one kind. */
export interface CatalogEntry<P extends Prepared<never>> {
  readonly type: string;
  readonly origin: Origin;
  /** Hint policies only. */
  readonly defaultHosts: readonly DefaultHost[];
  /** Parses parameters; once per configured instance. */
  prepare(parameters: unknown): Promise<Preparation<P>>;
}

/** Prepares under the limit for plugins: a schema or provider that never answers is a fault. */
export async function prepareWithin<P extends Prepared<never>>(
  clock: Clock,
  entry: CatalogEntry<P>,
  parameters: unknown,
): Promise<Preparation<P>> {
  try {
    return await withinLimit(clock, LOAD_LIMIT_MS, 'reading them', entry.prepare(parameters));
  } catch (thrown) {
    return { faults: [{ path: [], anchor: 'key', message: errorText(thrown) }] };
  }
}

/** Something wrong with what a plugin registers. */
export interface RegistrationFault {
  readonly code: ErrorCode;
  readonly message: string;
}

/** The known types. */
export class PolicyCatalog {
  readonly selections = new Map<string, CatalogEntry<PreparedSelection>>();
  readonly hints = new Map<string, CatalogEntry<PreparedHint>>();
  readonly classifiers = new Map<string, CatalogEntry<PreparedClassifier>>();
  /** Plugins that did not load, so that what they define is not known. */
  readonly missing: string[] = [];

  /**
   * Adds a checked definition; answers what is wrong, or null.
   * @param defaults parameters it takes where a configuration leaves them out
   */
  add(
    definition: AnyDefinition,
    origin: Origin,
    defaults: Readonly<Record<string, unknown>> = {},
  ): RegistrationFault | null {
    const fault = this.collision(definition.type, origin);
    if (fault !== null) return fault;
    const common = { type: definition.type, origin };
    const parse = async (given: unknown) => {
      // Only a mapping can be merged; anything else is refused by the parser.
      const isMapping = typeof given === 'object' && given !== null && !Array.isArray(given);
      return parseParameters(
        definition.parameters,
        isMapping || given == null ? { ...defaults, ...given } : given,
      );
    };
    const scope = definition.scope ?? 'partition';
    if (isClassifier(definition)) {
      const { isolation = 'in-process' } = definition;
      this.classifiers.set(definition.type, {
        ...common,
        defaultHosts: [],
        async prepare(given) {
          const parsed = await parse(given);
          if (parsed.faults) return parsed;
          const create = (context: AnyClassifierCreateContext) =>
            definition.create({ ...context, parameters: parsed.value });
          return { prepared: { ...common, scope, isolation, create }, faults: null };
        },
      });
      return null;
    }
    const creator = (parameters: unknown) => ({
      ...common,
      scope,
      create: (context: AnyCreateContext) => definition.create({ ...context, parameters }),
    });
    if (isHint(definition)) {
      const { isolation = 'in-process' } = definition;
      const actions = definition.actions ? new Set(definition.actions) : null;
      const seesCommits = definition.commitments?.includes('kv-copy') === true;
      this.hints.set(definition.type, {
        ...common,
        defaultHosts: definition.defaultHosts ?? [],
        async prepare(given) {
          const parsed = await parse(given);
          if (parsed.faults) return parsed;
          const sends = commitsKvCopy(definition, parsed.value);
          if (typeof sends !== 'boolean') return { faults: [sends] };
          const { reads, fault } = readInputs(definition, parsed.value);
          if (fault !== null) return { faults: [fault] };
          const prepared = {
            ...creator(parsed.value),
            inputs: reads,
            actions,
            seesCommits,
            sends,
            isolation,
          };
          return { prepared, faults: null };
        },
      });
      return null;
    }
    const exclusiveAffinity = definition.exclusiveAffinity === true;
    this.selections.set(definition.type, {
      ...common,
      defaultHosts: [],
      async prepare(given) {
        const parsed = await parse(given);
        if (parsed.faults) return parsed;
        const commits = commitsKvCopy(definition, parsed.value);
        if (typeof commits !== 'boolean') return { faults: [commits] };
        return { prepared: { ...creator(parsed.value), exclusiveAffinity, commits }, faults: null };
      },
    });
    return null;
  }

  /** What is wrong with taking a type, or null. */
  collision(type: string, origin: Origin): RegistrationFault | null {
    const taken = this.selections.get(type) ?? this.hints.get(type) ?? this.classifiers.get(type);
    if (!taken) return null;
    const where =
      taken.origin.name === origin.name
        ? `twice in ${origin.name}`
        : `by ${taken.origin.name} and by ${origin.name}`;
    return {
      code: 'PM_PLUGIN_DUPLICATE_TYPE',
      message: `the policy type ${type} is registered ${where}; types must be unique, rename one of them`,
    };
  }
}

function isHint(
  definition: AnyDefinition,
): definition is Extract<AnyDefinition, { '~pointsman': { kind: 'hint-policy' } }> {
  return definition['~pointsman'].kind === 'hint-policy';
}

function isClassifier(
  definition: AnyDefinition,
): definition is Extract<AnyDefinition, { '~pointsman': { kind: 'request-classifier' } }> {
  return definition['~pointsman'].kind === 'request-classifier';
}

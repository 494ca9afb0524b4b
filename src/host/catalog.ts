// Every policy type this process knows, built-ins first, then plugins in the order they were listed. Types are unique over all kinds.
import type { RouterSettings } from '../config/index.ts';
import {
  type AnyCreateContext,
  type DefaultHost,
  type ErrorCode,
  errorText,
  type HintInput,
  type PluginRegistry,
  type Scope,
} from '../plugin/index.ts';
import {
  type AnyDefinition,
  checkHintDeclarations,
  checkType,
  type AnyDefinition as Definition,
} from './definition-check.ts';
import { type ParameterFault, parseParameters } from './parameters.ts';

/** Where a type came from. */
export interface Origin {
  /** `built in`, a file or a package, for messages. */
  readonly name: string;
  /** `builtin`, or a short content hash. */
  readonly version: string;
}

/** A policy with its parameters read, ready to be created for partitions. */
export interface Prepared {
  readonly type: string;
  readonly origin: Origin;
  readonly scope: Scope;
  readonly create: (context: AnyCreateContext) => unknown;
}

/** A prepared worker-selection policy. */
export interface PreparedSelection extends Prepared {
  readonly exclusiveAffinity: boolean;
}

/** A prepared hint policy. */
export interface PreparedHint extends Prepared {
  readonly inputs: readonly HintInput[];
  /** Null = any. */
  readonly actions: ReadonlySet<string> | null;
}

/** A prepared policy, or what is wrong with its parameters. */
export type Preparation<P extends Prepared> =
  | { readonly prepared: P; readonly faults: null }
  | { readonly faults: readonly ParameterFault[] };

/** A registered type of one kind. */
export interface CatalogEntry<P extends Prepared> {
  readonly type: string;
  readonly origin: Origin;
  /** Hint policies only. */
  readonly defaultHosts: readonly DefaultHost[];
  /** Parses parameters; once per configured instance. */
  prepare(parameters: unknown): Promise<Preparation<P>>;
}

/** Something wrong with what a plugin registers. */
export interface RegistrationFault {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Parameters a built-in takes from the `router` section where a role leaves them out. */
export type RouterDefaults = (router: RouterSettings) => Readonly<Record<string, unknown>>;

/** The known types. */
export class PolicyCatalog {
  readonly selections = new Map<string, CatalogEntry<PreparedSelection>>();
  readonly hints = new Map<string, CatalogEntry<PreparedHint>>();

  /** Adds a checked definition; answers what is wrong, or null. */
  add(
    definition: Definition,
    origin: Origin,
    defaults: Readonly<Record<string, unknown>> = {},
  ): RegistrationFault | null {
    const fault = this.#collision(definition.type, origin);
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
    const creator = (parameters: unknown) => ({
      ...common,
      scope: definition.scope ?? 'partition',
      create: (context: AnyCreateContext) => definition.create({ ...context, parameters }),
    });
    if (isHint(definition)) {
      const inputs = definition.inputs ?? [];
      const actions = definition.actions ? new Set(definition.actions) : null;
      this.hints.set(definition.type, {
        ...common,
        defaultHosts: definition.defaultHosts ?? [],
        async prepare(given) {
          const parsed = await parse(given);
          if (parsed.faults) return parsed;
          return { prepared: { ...creator(parsed.value), inputs, actions }, faults: null };
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
        return { prepared: { ...creator(parsed.value), exclusiveAffinity }, faults: null };
      },
    });
    return null;
  }

  /** The registry handed to a module's `register`; what is wrong with a registration is reported, not thrown. */
  registry(origin: Origin, report: (fault: RegistrationFault) => void): PluginRegistry {
    const admit = (type: string, provider: unknown, hosts: readonly DefaultHost[]): boolean => {
      const label = `a registration in ${origin.name}`;
      const message =
        checkType(type, label) ??
        (typeof provider === 'function' ? null : `${label}: the provider of ${type} must be a function`) ??
        checkHintDeclarations({ defaultHosts: hosts }, label);
      const fault =
        message === null
          ? this.#collision(type, origin)
          : { code: 'PM_PLUGIN_INVALID' as const, message: message };
      if (fault !== null) report(fault);
      return fault === null;
    };
    return {
      registerWorkerSelection: (type, provider) => {
        if (!admit(type, provider, [])) return;
        this.selections.set(type, {
          type,
          origin,
          defaultHosts: [],
          prepare: async (given) =>
            provide(() => provider(given ?? {})).then((made) =>
              made.faults
                ? made
                : {
                    faults: null,
                    prepared: {
                      type,
                      origin,
                      scope: 'partition',
                      exclusiveAffinity: made.value.exclusiveAffinity === true,
                      create: (context) => made.value.create(context),
                    },
                  },
            ),
        });
      },
      registerHintPolicy: (type, provider, hosts = []) => {
        if (!admit(type, provider, hosts)) return;
        this.hints.set(type, {
          type,
          origin,
          defaultHosts: hosts,
          prepare: async (given) =>
            provide(() => provider(given ?? {})).then((made) => {
              if (made.faults) return made;
              const fault = checkHintDeclarations(made.value, `hint policy ${type}`);
              if (fault !== null) return wrong(fault);
              const { inputs = [], actions } = made.value;
              return {
                faults: null,
                prepared: {
                  type,
                  origin,
                  scope: 'partition',
                  inputs,
                  actions: actions ? new Set(actions) : null,
                  create: (context) => made.value.create(context),
                },
              };
            }),
        });
      },
    };
  }

  #collision(type: string, origin: Origin): RegistrationFault | null {
    const taken = this.selections.get(type) ?? this.hints.get(type);
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

type Provided<T> =
  | { readonly value: T; readonly faults: null }
  | { readonly faults: readonly ParameterFault[] };

/** Asks a provider for its factory; a provider says that parameters are wrong by throwing. */
async function provide<T>(ask: () => T): Promise<Provided<T>> {
  try {
    const value = await ask();
    if (typeof value === 'object' && value !== null && typeof Reflect.get(value, 'create') === 'function') {
      return { value, faults: null };
    }
    return wrong('the provider must return an object with a create function');
  } catch (thrown) {
    return wrong(errorText(thrown));
  }
}

function wrong(message: string): { readonly faults: readonly ParameterFault[] } {
  return { faults: [{ path: [], anchor: 'key', message }] };
}

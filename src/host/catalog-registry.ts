// The imperative way into the catalog: what a module's `register` is given. Providers read their parameters themselves and say that these are
// wrong by throwing.
import { type DefaultHost, errorText, type PluginRegistry } from '../plugin/index.ts';
import type { CatalogEntry, Origin, PolicyCatalog, Prepared, RegistrationFault } from './catalog.ts';
import { checkCommitments, type DeclaredCommitments } from './commitments.ts';
import { checkHintDeclarations, checkIsolation, checkType } from './definition-check.ts';
import type { ParameterFault } from './parameters.ts';

/** A registry that writes to the catalog; what is wrong with a registration is reported, not thrown. */
export function catalogRegistry(
  catalog: PolicyCatalog,
  origin: Origin,
  report: (fault: RegistrationFault) => void,
): PluginRegistry {
  const admits = (type: string, provider: unknown, hosts: readonly DefaultHost[]): boolean => {
    const fault = registrationFault(catalog, origin, type, provider, hosts);
    if (fault !== null) report(fault);
    return fault === null;
  };
  return {
    registerWorkerSelection(type, provider) {
      if (!admits(type, provider, [])) return;
      catalog.selections.set(
        type,
        entry(type, origin, [], provider, (factory) => ({
          exclusiveAffinity: factory.exclusiveAffinity === true,
          commits: committing(factory, `worker-selection policy ${type}`),
        })),
      );
    },
    registerHintPolicy(type, provider, hosts = []) {
      if (!admits(type, provider, hosts)) return;
      catalog.hints.set(
        type,
        entry(type, origin, hosts, provider, (factory) => {
          const fault = checkHintDeclarations(factory, `hint policy ${type}`);
          if (fault !== null) throw new TypeError(fault);
          const { inputs = [], actions, isolation = 'in-process' } = factory;
          const sends = committing(factory, `hint policy ${type}`);
          return { inputs, actions: actions ? new Set(actions) : null, seesCommits: sends, sends, isolation };
        }),
      );
    },
    registerRequestClassifier(type, provider) {
      if (!admits(type, provider, [])) return;
      catalog.classifiers.set(
        type,
        entry(type, origin, [], provider, (factory) => {
          const fault = checkIsolation(factory, `request classifier ${type}`);
          if (fault !== null) throw new TypeError(fault);
          return { isolation: factory.isolation ?? 'in-process' };
        }),
      );
    },
  };
}

/** Whether a factory commits KV copies. */
function committing(factory: DeclaredCommitments, label: string): boolean {
  const fault = checkCommitments(factory, label);
  if (fault !== null) throw new TypeError(fault);
  return factory.commitments?.includes('kv-copy') === true;
}

function registrationFault(
  catalog: PolicyCatalog,
  origin: Origin,
  type: string,
  provider: unknown,
  hosts: readonly DefaultHost[],
): RegistrationFault | null {
  const label = `a registration in ${origin.name}`;
  const message =
    checkType(type, label) ??
    (typeof provider === 'function' ? null : `${label}: the provider of ${type} must be a function`) ??
    checkHintDeclarations({ defaultHosts: hosts }, label);
  return message === null ? catalog.collision(type, origin) : { code: 'PM_PLUGIN_INVALID', message };
}

/** A catalog entry around a provider; `extend` adds what its kind declares beyond `create`. */
function entry<C, X extends object, F extends { create(context: C): unknown }>(
  type: string,
  origin: Origin,
  defaultHosts: readonly DefaultHost[],
  provider: (parameters: unknown) => F,
  extend: (factory: F) => X,
): CatalogEntry<Prepared<C> & X> {
  return {
    type,
    origin,
    defaultHosts,
    async prepare(given) {
      try {
        const factory = await provider(given ?? {});
        if (typeof factory?.create !== 'function') {
          return wrong(`the provider of ${type} must return an object with a create function`);
        }
        const common = { type, origin, scope: 'partition' } as const;
        const prepared = { ...common, ...extend(factory), create: (context: C) => factory.create(context) };
        return { prepared, faults: null };
      } catch (thrown) {
        return wrong(errorText(thrown));
      }
    },
  };
}

function wrong(message: string): { readonly faults: readonly ParameterFault[] } {
  return { faults: [{ path: [], anchor: 'key', message }] };
}

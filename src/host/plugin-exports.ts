// Finds the definitions in a loaded module and puts them into the catalog.
import { type Clock, errorText, type PluginRegistry } from '../plugin/index.ts';
import type { Origin, PolicyCatalog, RegistrationFault } from './catalog.ts';
import { catalogRegistry } from './catalog-registry.ts';
import { checkDefinition, isBranded } from './definition-check.ts';
import type { LoadedModule } from './plugin-loader.ts';
import { LOAD_LIMIT_MS, withinLimit } from './time-limit.ts';

/** Takes definitions out of modules; one collector per load, as an object exported twice counts once. */
export class ExportCollector {
  readonly #catalog: PolicyCatalog;
  readonly #clock: Clock;
  readonly #seen = new Set<unknown>();

  constructor(catalog: PolicyCatalog, clock: Clock) {
    this.#catalog = catalog;
    this.#clock = clock;
  }

  /** Registers everything a module offers; answers what is wrong, nothing when all is well. */
  async collect(
    module: Pick<LoadedModule, 'specifier' | 'exports' | 'version'> & Partial<Pick<LoadedModule, 'files'>>,
  ): Promise<readonly RegistrationFault[]> {
    const { specifier, version, files } = module;
    const origin: Origin = { name: specifier, version, ...(files === undefined ? {} : { files }) };
    const faults: RegistrationFault[] = [];
    let found = 0;
    try {
      for (const [name, value] of offered(module.exports)) {
        if (isBranded(value)) {
          found += 1;
          const fault = this.#take(name, value, origin);
          if (fault !== null) faults.push(fault);
        } else if (name === 'register' && typeof value === 'function') {
          found += 1;
          await this.#register(value, origin, faults);
        }
      }
    } catch (thrown) {
      // A getter or a proxy among the exports.
      const message = `the exports of ${module.specifier} cannot be read: ${errorText(thrown)}`;
      faults.push({ code: 'PM_PLUGIN_INVALID', message });
      return faults;
    }
    if (found === 0) {
      faults.push({
        code: 'PM_PLUGIN_INVALID',
        message: `${module.specifier} exports no definitions; export what defineWorkerSelectionPolicy, defineHintPolicy or defineRequestClassifier returns, or a register function`,
      });
    }
    return faults;
  }

  /** Has a function register what it offers; answers what is wrong, nothing when all is well. */
  async registerFrom(
    register: (registry: PluginRegistry) => unknown,
    origin: Origin,
  ): Promise<readonly RegistrationFault[]> {
    const faults: RegistrationFault[] = [];
    await this.#register(register, origin, faults);
    return faults;
  }

  #take(name: string, value: { readonly '~pointsman': unknown }, origin: Origin): RegistrationFault | null {
    if (this.#seen.has(value)) return null;
    this.#seen.add(value);
    const definition = checkDefinition(value, `export ${name} of ${origin.name}`);
    if (typeof definition === 'string') return { code: 'PM_PLUGIN_INVALID', message: definition };
    return this.#catalog.add(definition, origin);
  }

  async #register(register: object, origin: Origin, faults: RegistrationFault[]): Promise<void> {
    if (this.#seen.has(register) || typeof register !== 'function') return;
    this.#seen.add(register);
    try {
      const registering: unknown = Reflect.apply(register, undefined, [
        catalogRegistry(this.#catalog, origin, (fault) => faults.push(fault)),
      ]);
      await withinLimit(this.#clock, LOAD_LIMIT_MS, 'it', registering);
    } catch (thrown) {
      faults.push({
        code: 'PM_PLUGIN_LOAD',
        message: `register of ${origin.name} failed: ${errorText(thrown)}`,
      });
    }
  }
}

/** Exports by name; those of a CommonJS module stand in its default export. */
function offered(exports: object): readonly (readonly [string, unknown])[] {
  const named = Object.entries(exports);
  const main: unknown = Reflect.get(exports, 'default');
  const isContainer = typeof main === 'object' && main !== null && !isBranded(main);
  return isContainer ? [...named, ...Object.entries(main)] : named;
}

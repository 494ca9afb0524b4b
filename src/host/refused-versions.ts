// What was rolled back and must not be tried again: a plugin by its content, or, where only settings had changed, those settings.
import { isDeepStrictEqual } from 'node:util';
import type { ConfigProblem, RouterConfig } from '../config/index.ts';
import type { Clock } from '../plugin/index.ts';
import type { PluginGuard } from './plugin-guard.ts';
import type { PluginOutcome } from './plugin-library.ts';
import type { LoadedModule } from './plugin-loader.ts';

/** One entry. */
export interface RefusedVersion {
  /** As it stands in the configuration; null = the plugin was the old one, and settings were refused. */
  readonly specifier: string | null;
  readonly version: string | null;
  readonly reason: string;
  /** When it was rolled back, on the router's clock. */
  readonly atMs: number;
}

/** What a refusal looks at in a generation. */
interface Generation {
  readonly config: RouterConfig;
  readonly modules: readonly LoadedModule[];
}

/** The refusals; the latest one per plugin, and the latest of settings. */
export class RefusedVersions {
  readonly #clock: Clock;
  readonly #modules = new Map<string, { readonly entry: RefusedVersion; readonly module: LoadedModule }>();
  #settings: { readonly entry: RefusedVersion; readonly policies: object } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes what made a generation fail. */
  add(guard: PluginGuard, failed: Generation, before: Generation, reason: string): void {
    const atMs = this.#clock.now();
    const module = failed.modules.find(({ specifier }) => specifier === guard.origin?.name);
    if (module === undefined || before.modules.includes(module)) {
      const entry = { specifier: null, version: null, reason, atMs };
      this.#settings = { entry, policies: policiesOf(failed.config) };
      return;
    }
    const { specifier, version } = module;
    this.#modules.set(specifier, { module, entry: { specifier, version, reason, atMs } });
  }

  /** What of it a reload would try again. */
  problems(config: RouterConfig, plugins: readonly PluginOutcome[]): readonly ConfigProblem[] {
    const problems: ConfigProblem[] = [];
    for (const [index, { specifier, module }] of plugins.entries()) {
      const refused = this.#modules.get(specifier)?.entry;
      if (refused === undefined || module === null || module.version !== refused.version) continue;
      const message = `version ${module.version} is not tried again until the file changes: ${refused.reason}`;
      problems.push(refusal(config.plugins[index]?.path ?? ['plugins'], message));
    }
    const settings = this.#settings;
    if (settings !== null && isDeepStrictEqual(policiesOf(config), settings.policies)) {
      const message = `these settings are not tried again until they change: ${settings.entry.reason}`;
      problems.push(refusal(['worker_selection'], message));
    }
    return problems;
  }

  list(): readonly RefusedVersion[] {
    const modules = [...this.#modules.values()].map(({ entry }) => entry);
    return this.#settings === null ? modules : [...modules, this.#settings.entry];
  }

  /** Files of refused versions of file plugins. */
  files(): readonly string[] {
    return [...this.#modules.values()].flatMap(({ module }) =>
      module.kind === 'file' ? [...module.files.keys()] : [],
    );
  }
}

/** The part of a configuration that a generation is made of: everything but what belongs to doors and fleet. */
export function policiesOf(config: RouterConfig): object {
  const {
    listen: _1,
    admin: _2,
    auth: _3,
    limits: _4,
    workers: _5,
    models: _6,
    observe: _7,
    ...rest
  } = config;
  return rest;
}

/** Whether two configurations make the same generation: classifiers know the classes of models, too. */
export function samePolicies(a: RouterConfig, b: RouterConfig): boolean {
  return (
    isDeepStrictEqual(policiesOf(a), policiesOf(b)) && isDeepStrictEqual(classesByModel(a), classesByModel(b))
  );
}

function classesByModel({ models }: RouterConfig): readonly unknown[] {
  return [...models].map(([name, { policyClasses }]) => [name, policyClasses ?? null]);
}

function refusal(path: ConfigProblem['path'], message: string): ConfigProblem {
  return { severity: 'error', code: 'PM_PLUGIN_REFUSED', path, anchor: 'value', message };
}

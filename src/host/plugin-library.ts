// The modules of a whole configuration, loaded together: what did not change since the last time is taken as it is, everything else is
// evaluated anew. Which modules are in use is the caller's business; the module cache follows what it is told.
import type { Clock } from '../plugin/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import { evictPlugins, putBack } from './module-cache.ts';
import { digestOf, type LoadedModule, PluginLoader, versionOf } from './plugin-loader.ts';
import type { HostModules } from './plugin-transpiler.ts';

/** What became of one listed plugin. */
export type PluginOutcome =
  | { readonly specifier: string; readonly module: LoadedModule }
  | { readonly specifier: string; readonly module: null; readonly error: PointsmanError };

/** How modules are loaded. */
export interface LibraryRequest {
  readonly specifiers: readonly string[];
  /** The modules in use. */
  readonly base: readonly LoadedModule[];
  /** Whether packages are looked at as well; otherwise those in use stay as they are. */
  readonly packages: boolean;
  readonly modules: HostModules;
}

/** Loads relative to one folder. */
export class PluginLibrary {
  readonly #folder: string;
  readonly #clock: Clock;

  /** As of {@link PluginLoader}. */
  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  /** Loads everything that is listed, in order; what fails keeps nothing else from being tried. */
  async load({ specifiers, base, packages, modules }: LibraryRequest): Promise<readonly PluginOutcome[]> {
    const kept = unchanged(base, new Set(specifiers), packages);
    this.use([...kept.values()]);
    const loader = new PluginLoader(this.#folder, this.#clock, modules);
    const loaded = new Map<string, LoadedModule>(kept);
    const outcomes: PluginOutcome[] = [];
    for (const specifier of specifiers) {
      try {
        const before = base.find((module) => module.specifier === specifier)?.files;
        const fresh = before && new Map([...before.keys()].map((path) => [path, digestOf(path)]));
        const module =
          loaded.get(specifier) ?? withBorrowed(await loader.load(specifier, fresh), loaded.values());
        loaded.set(specifier, module);
        outcomes.push({ specifier, module });
      } catch (thrown) {
        if (!(thrown instanceof PointsmanError)) throw thrown;
        outcomes.push({ specifier, module: null, error: thrown });
      }
    }
    return outcomes;
  }

  /** Makes these the modules that further imports of their files find. */
  use(modules: readonly LoadedModule[]): void {
    evictPlugins();
    for (const { evaluated } of modules) putBack(evaluated);
  }
}

/** Modules none of whose files changed. Those that share a file are one: they share its state, so they stay or go together. */
function unchanged(
  base: readonly LoadedModule[],
  listed: ReadonlySet<string>,
  packages: boolean,
): Map<string, LoadedModule> {
  const stale = new Set<string>();
  const isStale = ({ specifier, kind, files }: LoadedModule): boolean =>
    !listed.has(specifier) ||
    [...files].some(
      ([path, digest]) => stale.has(path) || ((kind === 'file' || packages) && digestOf(path) !== digest),
    );
  let kept = base;
  for (let before = -1; before !== kept.length; ) {
    before = kept.length;
    kept = kept.filter((module) => {
      if (!isStale(module)) return true;
      for (const path of module.files.keys()) stale.add(path);
      return false;
    });
  }
  return new Map(kept.map((module) => [module.specifier, module]));
}

/** What an earlier module evaluated may import anything that module does: the borrower counts all of it as its own. */
function withBorrowed(module: LoadedModule, earlier: Iterable<LoadedModule>): LoadedModule {
  if (module.borrowed.size === 0) return module;
  const files = new Map(module.files);
  for (const other of earlier) {
    if (![...module.borrowed].some((path) => other.evaluated.has(path))) continue;
    for (const [path, digest] of other.files) files.set(path, digest);
  }
  const [entry = ''] = module.files.keys();
  return { ...module, files, version: versionOf(entry, files) };
}

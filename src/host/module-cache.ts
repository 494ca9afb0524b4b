// The modules of plugins in this process's module cache: which a load added, which it came upon, and how to take them out. The cache
// belongs to everybody in the process; only what plugins brought is touched.
import { createRequire } from 'node:module';

/** An evaluated module as the system keeps it. */
export type CachedModule = NodeJS.Module;

const cache = createRequire(import.meta.url).cache;

/** Every module that a load brought in; held no longer than others hold them. */
const pluginModules = new WeakSet<object>();

/** What happened in the cache while a module was loaded. */
export interface CacheTrace {
  /** New modules of the plugin, by absolute path. */
  readonly added: ReadonlyMap<string, CachedModule>;
  /** Paths of modules that earlier loads had added and this one used. */
  readonly used: ReadonlySet<string>;
}

/** Takes the modules of all plugins out. Who holds them goes on using them. */
export function evictPlugins(): void {
  for (const path of pluginPaths()) delete cache[path];
}

/** Puts modules back that a load had added. */
export function putBack(modules: ReadonlyMap<string, CachedModule>): void {
  for (const [path, module] of modules) cache[path] = module;
}

/**
 * Runs a load and notes what it adds and uses; a load that fails leaves nothing of its own behind. Loads follow one another: two at
 * the same time would be taken for one.
 * @param entry absolute path of the module that is loaded, as the cache names it
 * @param isPluginFile as of the loader
 */
export async function traced<T>(
  entry: string,
  isPluginFile: (path: string) => boolean,
  load: () => Promise<T>,
): Promise<{ readonly loaded: T; readonly trace: CacheTrace }> {
  const before = new Set(Object.keys(cache));
  const used = new Set<string>();
  const untrap = pluginPaths().map((path) => trap(path, used));
  const added = (): Map<string, CachedModule> => addedSince(before, entry, isPluginFile);
  try {
    const loaded = await load();
    return { loaded, trace: { added: added(), used } };
  } catch (thrown) {
    // A module that failed half-way must not be found half-made next time.
    for (const path of added().keys()) delete cache[path];
    throw thrown;
  } finally {
    for (const step of untrap) step();
  }
}

function pluginPaths(): readonly string[] {
  return Object.keys(cache).filter((path) => isPlugins(cache[path]));
}

/** Whether a plugin brought a module, perhaps long after it was loaded: then one of those that led to it is known. */
function isPlugins(module: CachedModule | undefined): boolean {
  let current: unknown = module;
  for (let depth = 0; depth < 64 && typeof current === 'object' && current !== null; depth += 1) {
    if (pluginModules.has(current)) return true;
    current = Reflect.get(current, 'parent');
  }
  return false;
}

/** Notes when the module at a path is read from the cache. */
function trap(path: string, used: Set<string>): () => void {
  const module = cache[path];
  Object.defineProperty(cache, path, {
    configurable: true,
    enumerable: true,
    get() {
      used.add(path);
      return module;
    },
    set(value: CachedModule) {
      Object.defineProperty(cache, path, { configurable: true, enumerable: true, writable: true, value });
    },
  });
  return () => {
    // Somebody may have taken it out or replaced it meanwhile.
    const now = Object.getOwnPropertyDescriptor(cache, path);
    if (now?.get === undefined) return;
    Object.defineProperty(cache, path, {
      configurable: true,
      enumerable: true,
      writable: true,
      value: module,
    });
  };
}

/** The new modules that the entry led to; what others loaded at the same time is not among them. */
function addedSince(
  before: ReadonlySet<string>,
  entry: string,
  isPluginFile: (path: string) => boolean,
): Map<string, CachedModule> {
  const fresh = Object.keys(cache).filter((path) => !before.has(path) && isPluginFile(path));
  const added = new Map<string, CachedModule>();
  for (let size = -1; size !== added.size; ) {
    size = added.size;
    for (const path of fresh) {
      const module = cache[path];
      if (module === undefined || added.has(path)) continue;
      const parent: unknown = Reflect.get(Object(Reflect.get(module, 'parent')), 'filename');
      const known =
        path === entry || (typeof parent === 'string' && (added.has(parent) || isPlugins(cache[parent])));
      if (!known) continue;
      added.set(path, module);
      pluginModules.add(module);
    }
  }
  return added;
}

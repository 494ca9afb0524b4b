// Loads plugin modules: files next to the configuration, or npm packages it can resolve. One loader on every Node version, so that a
// plugin behaves the same everywhere; `.ts`, `.js` and `.mjs` alike, no package.json needed.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as contract from '../plugin/index.ts';
import { type Clock, errorText, PointsmanError, systemReason } from '../plugin/index.ts';
import { type CachedModule, traced } from './module-cache.ts';
import { createTranspiler, type HostModules } from './plugin-transpiler.ts';
import { LOAD_LIMIT_MS, withinLimit } from './time-limit.ts';

type Jiti = import('jiti').Jiti;

/** A loaded module. */
export interface LoadedModule {
  /** As it stands in the configuration. */
  readonly specifier: string;
  readonly kind: 'file' | 'package';
  readonly exports: object;
  /** First 12 hex digits of a SHA-256 over its entry and the files of its own that it imports. */
  readonly version: string;
  /** Digest of each of those files, by absolute path. */
  readonly files: ReadonlyMap<string, string>;
  /** Those among them that this load evaluated; the others an earlier load had. */
  readonly evaluated: ReadonlyMap<string, CachedModule>;
  /** Modules that an earlier load had evaluated and this one imports. */
  readonly borrowed: ReadonlySet<string>;
}

/** What stands for the content of a file that is not there. */
const NO_FILE = 'none';

/** Loads modules relative to one folder. */
export class PluginLoader {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #modules: HostModules;
  #bare: Jiti | null = null;

  /**
   * @param folder absolute; where relative specifiers and packages are looked up
   * @param clock ends the wait for a module that never finishes loading
   * @param modules beyond `pointsman/plugin` and `zod`, which the loader hands over itself
   */
  constructor(folder: string, clock: Clock, modules: HostModules = {}) {
    this.#folder = folder;
    this.#clock = clock;
    this.#modules = modules;
  }

  /**
   * Loads and evaluates a module; what the module cache holds of it is not evaluated again.
   * @param before digests taken before, where there are any: a file that changes while it is loaded keeps the older one, so that
   *   the next look at it finds it changed
   * @throws PointsmanError PM_PLUGIN_LOAD saying what is wrong and where.
   */
  async load(specifier: string, before: ReadonlyMap<string, string> = new Map()): Promise<LoadedModule> {
    this.#bare ??= this.#loader({}, () => false);
    const kind = isPath(specifier) ? 'file' : 'package';
    const named = kind === 'file' ? this.#pathOf(specifier) : this.#packageEntry(specifier, this.#bare);
    const known = new Map([[named, this.#digest(specifier, named)], ...before]);
    const entry = realpathSync(named);
    const root = kind === 'file' ? null : packageRoot(entry);
    const isOwn = (path: string): boolean => isOwnFile(path, root);
    // A folder that has zod of its own keeps it; a bare one gets the host's.
    const hasZod = this.#bare.esmResolve('zod', { try: true, parentURL: pathToFileURL(named) }) !== undefined;
    const loader = this.#loader(hasZod ? {} : { zod: await import('zod') }, isOwn);
    try {
      const { loaded, trace } = await traced(entry, isOwn, () =>
        withinLimit(this.#clock, LOAD_LIMIT_MS, 'its top level', loader.import<object>(named)),
      );
      const paths = [...new Set([named, ...trace.added.keys(), ...trace.used])];
      const files = new Map(paths.map((path) => [path, known.get(path) ?? digestOf(path)]));
      return {
        specifier,
        kind,
        exports: loaded,
        version: versionOf(named, files),
        files,
        evaluated: trace.added,
        borrowed: trace.used,
      };
    } catch (thrown) {
      throw this.#failed(specifier, this.#explain(thrown), thrown);
    }
  }

  #loader(extra: HostModules, isOwn: (path: string) => boolean): Jiti {
    return createTranspiler(
      pathToFileURL(resolve(this.#folder, 'router.yaml')).href,
      { ...this.#modules, ...extra, 'pointsman/plugin': contract },
      isOwn,
    );
  }

  #pathOf(specifier: string): string {
    const path = specifier.startsWith('file:') ? fileURLToPath(specifier) : specifier;
    return resolve(this.#folder, path);
  }

  #packageEntry(specifier: string, loader: Jiti): string {
    const url = loader.esmResolve(specifier, { try: true });
    if (url?.startsWith('file:')) return fileURLToPath(url);
    throw this.#failed(
      specifier,
      `no such package; install it in or above the folder of the configuration file, or write ./${specifier} for a file`,
    );
  }

  #digest(specifier: string, file: string): string {
    try {
      if (statSync(file).isDirectory()) throw new Error('it is a folder; name the file in it');
      return sha256(readFileSync(file));
    } catch (thrown) {
      throw this.#failed(specifier, systemReason(thrown), thrown);
    }
  }

  #failed(specifier: string, reason: string, cause?: unknown): PointsmanError {
    return new PointsmanError('PM_PLUGIN_LOAD', `cannot load ${specifier}: ${reason}`, {
      ...(cause === undefined ? {} : { cause }),
      details: { plugin: specifier },
    });
  }

  /** What went wrong in one line, with files relative to the folder. */
  #explain(thrown: unknown): string {
    const text = errorText(thrown).trim();
    const missing = /^Cannot find (?:module|package) '([^']+)'.*?Require stack:\s*- (\S+)/s.exec(text);
    if (missing) return `${this.#shorten(missing[2]!)} imports ${missing[1]}, which cannot be found`;
    const [first = '', ...rest] = text.split('\n').map((line) => line.trim());
    // The transpiler puts file:line:column on a line of its own.
    const place = rest.find((line) => /:\d+:\d+$/.test(line));
    if (place !== undefined) return `${first} at ${this.#shorten(place)}`;
    const origin = this.#origin(thrown);
    return origin === null ? first : `${first} (thrown at ${origin})`;
  }

  /** First line of the stack inside the folder, as `file:line`; columns are the transpiled text's. */
  #origin(thrown: unknown): string | null {
    const stack = thrown instanceof Error ? (thrown.stack ?? '') : '';
    for (const line of stack.split('\n')) {
      const frame = /((?:file:\/\/)?[^\s()]+):(\d+):\d+\)?$/.exec(line);
      if (frame?.[1]?.includes(this.#folder)) {
        return `${this.#shorten(frame[1].replace('file://', ''))}:${frame[2]}`;
      }
    }
    return null;
  }

  #shorten(path: string): string {
    const short = relative(this.#folder, path);
    return short.startsWith(`..${sep}`) || isAbsolute(short) ? path : short;
  }
}

function isPath(specifier: string): boolean {
  return /^\.{0,2}[\\/]/.test(specifier) || specifier.startsWith('file:') || isAbsolute(specifier);
}

/** The files of a plugin lie outside of node_modules; those of a package anywhere below its root but in packages of its own. */
function isOwnFile(path: string, root: string | null): boolean {
  const inner = root === null ? path : relative(root, path);
  if (root !== null && (inner.startsWith(`..${sep}`) || isAbsolute(inner))) return false;
  return !inner.split(sep).includes('node_modules');
}

/** The nearest folder above a file that has a package.json. */
function packageRoot(file: string): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json')) || folder === dirname(folder)) return folder;
  }
}

/** Digest of what a file holds now. */
export function digestOf(path: string): string {
  try {
    return sha256(readFileSync(path));
  } catch {
    return NO_FILE;
  }
}

/** The version of a module made of these files; the same wherever they lie. */
export function versionOf(entry: string, files: ReadonlyMap<string, string>): string {
  const folder = dirname(entry);
  const lines = [...files].map(([path, digest]) => `${relative(folder, path)}\n${digest}\n`).sort();
  return sha256(lines.join('')).slice(0, 12);
}

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

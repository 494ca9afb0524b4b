// Loads plugin modules: files next to the configuration, or npm packages it can resolve. One loader on every Node version, so that a
// plugin behaves the same everywhere; `.ts`, `.js` and `.mjs` alike, no package.json needed.
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as contract from '../plugin/index.ts';
import { type Clock, errorText, PointsmanError, systemReason } from '../plugin/index.ts';
import { LOAD_LIMIT_MS, withinLimit } from './time-limit.ts';

type Jiti = import('jiti').Jiti;

/** A loaded module. */
export interface LoadedModule {
  /** As it stands in the configuration. */
  readonly specifier: string;
  readonly exports: object;
  /** First 12 hex digits of the SHA-256 of its entry file. */
  readonly version: string;
}

/** Modules that plugins get from the host instead of from disk, by specifier. */
export type HostModules = Readonly<Record<string, object>>;

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

  /** Loads and evaluates a module. @throws PointsmanError PM_PLUGIN_LOAD saying what is wrong and where. */
  async load(specifier: string): Promise<LoadedModule> {
    this.#bare ??= await this.#loader({});
    const file = isPath(specifier) ? this.#pathOf(specifier) : this.#packageEntry(specifier, this.#bare);
    const version = createHash('sha256').update(this.#read(specifier, file)).digest('hex').slice(0, 12);
    // A folder that has zod of its own keeps it; a bare one gets the host's.
    const hasZod = this.#bare.esmResolve('zod', { try: true, parentURL: pathToFileURL(file) }) !== undefined;
    const loader = await this.#loader(hasZod ? {} : { zod: await import('zod') });
    const cached = new Set(Object.keys(loader.cache));
    try {
      const importing = loader.import<object>(isPath(specifier) ? file : specifier);
      const exports = await withinLimit(this.#clock, LOAD_LIMIT_MS, 'its top level', importing);
      return { specifier, exports, version };
    } catch (thrown) {
      // A module that failed half-way must not be found half-made next time.
      for (const key of Object.keys(loader.cache)) if (!cached.has(key)) delete loader.cache[key];
      throw this.#failed(specifier, this.#explain(thrown), thrown);
    }
  }

  async #loader(extra: HostModules): Promise<Jiti> {
    // Loaded here, not at the top: starting the transpiler costs half a second that a start without plugins need not pay.
    const { createJiti } = await import('jiti');
    return createJiti(pathToFileURL(resolve(this.#folder, 'router.yaml')).href, {
      virtualModules: { ...this.#modules, ...extra, 'pointsman/plugin': contract },
      // With the default every imported function is called through a proxy.
      interopDefault: false,
      fsCache: false,
    });
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

  #read(specifier: string, file: string): Buffer {
    try {
      if (statSync(file).isDirectory()) throw new Error('it is a folder; name the file in it');
      return readFileSync(file);
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

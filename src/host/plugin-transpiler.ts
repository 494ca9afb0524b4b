// The transpiler that evaluates plugin modules. It evaluates every file of a plugin itself, as the system never forgets a module that
// it imported: such a file could not be reloaded. Packages that plugins use are the system's business.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PointsmanError } from '../plugin/index.ts';

type Jiti = import('jiti').Jiti;

/** Modules that plugins get from the host instead of from disk, by specifier. */
export type HostModules = Readonly<Record<string, object>>;

const nodeRequire = createRequire(import.meta.url);

/**
 * A loader for modules of plugins.
 * @param base file url; where relative specifiers and packages are looked up
 * @param modules handed over instead of what lies on disk
 * @param isPluginFile whether an absolute path belongs to the plugin rather than to a package it uses
 */
export function createTranspiler(
  base: string,
  modules: HostModules,
  isPluginFile: (path: string) => boolean,
): Jiti {
  // The package's own entry imports `.mjs`, and `.js` below `"type": "module"`, through the system; what it is built on lets its
  // user decide. The version is fixed in package.json.
  const folder = join(dirname(nodeRequire.resolve('jiti')), '..', 'dist');
  const create: unknown = nodeRequire(join(folder, 'jiti.cjs'));
  if (typeof create !== 'function') {
    throw new PointsmanError(
      'PM_PLUGIN_LOAD',
      'the transpiler of plugins is not the version this program needs',
    );
  }
  const nativeImport = (id: string | URL): Promise<unknown> => {
    const path = pathOf(id);
    // It falls back to evaluating the file itself.
    if (path !== null && isPluginFile(path)) return Promise.reject(new Error('a plugin file'));
    return import(String(id));
  };
  const options = {
    virtualModules: modules,
    // With the default every imported function is called through a proxy.
    interopDefault: false,
    fsCache: false,
    // Loaded at its first use: starting it costs half a second that a start without plugins need not pay.
    transform: (...args: unknown[]): unknown =>
      Reflect.apply(nodeRequire(join(folder, 'babel.cjs')), undefined, args),
  };
  const onError = (thrown: unknown): never => {
    throw thrown;
  };
  return Reflect.apply(create, undefined, [base, options, { onError, nativeImport, createRequire }]) as Jiti;
}

function pathOf(id: string | URL): string | null {
  const text = String(id);
  if (text.startsWith('file:')) return fileURLToPath(text);
  return text.startsWith('/') || /^[a-z]:[\\/]/i.test(text) ? text : null;
}

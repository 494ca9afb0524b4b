// Gives an editor and tsc the types of the contract in a folder without node_modules: copies of the declaration files, and a
// tsconfig that finds them.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PointsmanError, systemReason } from '../plugin/index.ts';
import { isThere } from './scaffold.ts';

/** Where the copies go, below the author's folder; tracked by nobody. */
const PLACE = '.pointsman';

/** What was done. */
export interface AuthorTypes {
  /** The files an author may look at, relative to the folder. */
  readonly written: readonly string[];
  /** Declaration files copied. */
  readonly copied: number;
  /** False when the folder's own tsconfig.json does not take up the written one. */
  readonly connected: boolean;
}

/** A module whose declarations are copied. */
interface Source {
  readonly specifier: string;
  /** Absolute path of its entry. */
  readonly entry: string;
  /** Absolute; what lies below it keeps its place relative to it. */
  readonly root: string;
}

/**
 * Writes `.pointsman/` (declarations, the schema of router.yaml, tsconfig) and, where there is none, a tsconfig.json that extends it.
 * @throws PointsmanError PM_PLUGIN_FOLDER when the folder cannot be written, or the program has not been built.
 */
export function writeAuthorTypes(folder: string): AuthorTypes {
  const place = join(folder, PLACE);
  const modules = sources(folder).map((module) => ({ ...module, files: declarationsFrom(module.entry) }));
  const schema = read(packageFile('docs/router.schema.json'));
  // All anew: nothing is left of an older version, and no link leads what is written elsewhere.
  remove(place);
  const paths: Record<string, readonly string[]> = {};
  const copied = new Set<string>();
  for (const { entry, files, root, specifier } of modules) {
    for (const file of files) {
      if (copied.has(file)) continue;
      copied.add(file);
      write(join(place, 'types', relative(root, file)), read(file));
    }
    paths[specifier] = [`./types/${relative(root, entry)}`];
  }
  write(join(place, 'router.schema.json'), schema);
  write(
    join(place, 'tsconfig.json'),
    `${JSON.stringify({ compilerOptions: { ...OPTIONS, paths } }, null, 2)}\n`,
  );
  const own = join(folder, 'tsconfig.json');
  const isNew = !isThere(own);
  if (isNew) write(own, OWN_TSCONFIG);
  return {
    written: [`${PLACE}/`, ...(isNew ? ['tsconfig.json'] : [])],
    copied: copied.size,
    connected: isNew || read(own).includes(`${PLACE}/tsconfig.json`),
  };
}

/** With `nodenext` and no package.json every import would be an error; `dom` brings what Node has too: console, timers, URL. */
const OPTIONS = {
  target: 'es2023',
  lib: ['es2023', 'dom'],
  module: 'esnext',
  moduleResolution: 'bundler',
  allowImportingTsExtensions: true,
  strict: true,
  skipLibCheck: true,
  noEmit: true,
  types: [],
} as const;

const OWN_TSCONFIG = `{
  "extends": "./${PLACE}/tsconfig.json",
  "compilerOptions": { "strict": true },
  "include": ["**/*.ts"]
}
`;

function sources(folder: string): readonly Source[] {
  const dist = packageFile('dist');
  const node = packageFile('assets/author-types');
  const found = [
    { specifier: 'pointsman/plugin', entry: join(dist, 'plugin/index.d.ts'), root: dist },
    { specifier: 'pointsman/testing', entry: join(dist, 'testing/index.d.ts'), root: dist },
  ];
  for (const name of ['node:test', 'node:assert/strict']) {
    found.push({ specifier: name, entry: join(node, `${name.replace(/\W/g, '-')}.d.ts`), root: node });
  }
  // The loader prefers a zod that the folder has, and so do its types.
  if (!has(folder, 'zod')) {
    const zod = dirname(createRequire(import.meta.url).resolve('zod/package.json'));
    found.push({ specifier: 'zod', entry: join(zod, 'index.d.ts'), root: dirname(zod) });
  }
  return found;
}

function has(folder: string, name: string): boolean {
  try {
    createRequire(pathToFileURL(resolve(folder, 'tsconfig.json'))).resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** A declaration file and all it imports by relative paths. */
function declarationsFrom(entry: string): ReadonlySet<string> {
  const found = new Set([entry]);
  for (const file of found) {
    for (const [, specifier = ''] of read(file).matchAll(/(?:\bfrom|\bimport\()\s*["'](\.[^"']+)["']/g)) {
      found.add(resolve(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts')));
    }
  }
  return found;
}

function packageFile(path: string): string {
  // Two folders up both from src/cli and from dist/cli.
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw failed(`cannot read ${path}: ${systemReason(cause)}`, cause);
  }
}

function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch (cause) {
    throw failed(`cannot write ${path} anew: ${systemReason(cause)}`, cause);
  }
}

/** Writes a file that is not there yet. */
function write(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: 'wx' });
  } catch (cause) {
    throw failed(`cannot write ${path}: ${systemReason(cause)}`, cause);
  }
}

function failed(message: string, cause: unknown): PointsmanError {
  return new PointsmanError('PM_PLUGIN_FOLDER', message, { cause });
}

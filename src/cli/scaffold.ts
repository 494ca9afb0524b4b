// Writes new plugins from the templates in assets/scaffolds, which are plugins that work themselves, named `my-policy`.
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defaultConfig, didYouMean } from '../config/index.ts';
import { builtinTypes } from '../host/index.ts';
import { PointsmanError, systemReason } from '../plugin/index.ts';

/** Roles with a template. */
export const SCAFFOLD_ROLES: readonly string[] = ['hint-policy', 'worker-selection', 'request-classifier'];

/** The name the templates carry, in files and in their names. */
const TEMPLATE_NAME = 'my-policy';
const LONGEST_NAME = 64;

/**
 * Writes a plugin; answers the files, relative to the folder.
 * @throws PointsmanError PM_USAGE for a role or name that cannot be; PM_PLUGIN_FOLDER when a file is there already or cannot be written.
 */
export function writeScaffold(role: string, name: string, folder: string): readonly string[] {
  if (!SCAFFOLD_ROLES.includes(role)) {
    const hint = didYouMean(role, SCAFFOLD_ROLES) || `; known: ${SCAFFOLD_ROLES.join(', ')}`;
    throw new PointsmanError('PM_USAGE', `unknown role "${role.slice(0, LONGEST_NAME)}"${hint}`);
  }
  checkName(name);
  const templates = templateFolder(role);
  const files = readdirSync(templates)
    .sort()
    .map((file) => {
      const text = readFileSync(join(templates, file), 'utf8');
      return { file: rename(file, name), text: text.replaceAll(TEMPLATE_NAME, name) };
    });
  writeNewFiles(folder, files);
  return files.map(({ file }) => file);
}

/** Writes files that must not be there yet: all of them or none. */
function writeNewFiles(
  folder: string,
  files: readonly { readonly file: string; readonly text: string }[],
): void {
  const taken = files.filter(({ file }) => isThere(join(folder, file)));
  if (taken.length > 0) {
    const names = taken.map(({ file }) => join(folder, file)).join(', ');
    throw new PointsmanError(
      'PM_PLUGIN_FOLDER',
      `nothing is overwritten, and there is already ${names}; choose another name, or another folder with --folder`,
    );
  }
  for (const { file, text } of files) {
    const path = join(folder, file);
    try {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text, { flag: 'wx' });
    } catch (cause) {
      throw new PointsmanError('PM_PLUGIN_FOLDER', `cannot write ${path}: ${systemReason(cause)}`, { cause });
    }
  }
}

/** Whether a name is taken, be it by a link that leads nowhere. */
export function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Its own name in the folder; what npm would treat as its own file in a package is stored without the dot. */
function rename(file: string, name: string): string {
  return file === 'gitignore' ? '.gitignore' : file.replaceAll(TEMPLATE_NAME, name);
}

function templateFolder(role: string): string {
  // Two folders up both from src/cli and from dist/cli.
  return fileURLToPath(new URL(`../../assets/scaffolds/${role}/`, import.meta.url));
}

function checkName(name: string): void {
  const refuse = (why: string): never => {
    throw new PointsmanError(
      'PM_USAGE',
      `"${name.slice(0, LONGEST_NAME)}" cannot be a plugin's name: ${why}`,
    );
  };
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) {
    refuse('letters, digits, dots, dashes and underscores may stand in it, and at least one must');
  }
  if (/^[.-]/.test(name)) refuse('it is a file name too, so it cannot begin with a dot or a dash');
  if (name.length > LONGEST_NAME)
    refuse(`it has ${name.length} characters, at most ${LONGEST_NAME} are possible`);
  if (name === 'default') refuse('default stands for the default policy; choose another');
  if (builtinTypes(defaultConfig().config.router).includes(name)) {
    refuse('a built-in policy has it; choose another');
  }
}

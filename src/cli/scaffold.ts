// Writes new plugins from the templates in assets/scaffolds, which are plugins that work themselves, named `my-policy`. Hint policies
// have one per action that the simulated engine executes, and one for any other, which sends `acme.action@0.0`.
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defaultConfig, didYouMean } from '../config/index.ts';
import { builtinTypes } from '../host/index.ts';
import { PointsmanError, systemReason } from '../plugin/index.ts';

/** Roles with a template. */
export const SCAFFOLD_ROLES: readonly string[] = ['hint-policy', 'worker-selection', 'request-classifier'];

/** Actions with a template of their own. */
const ACTION_TEMPLATES: Readonly<Record<string, string>> = {
  'kv.fetch@1.0': 'hint-policy',
  'kv.retain@1.0': 'hint-policy-retain',
  'kv.retain@1.1': 'hint-policy-retain-ranges',
  'kv.evict@1.0': 'hint-policy-evict',
  'kv.prefetch@1.0': 'hint-policy-prefetch',
};

/** Actions with a template of their own: what a policy that sends them needs is known. */
export const SCAFFOLD_ACTIONS: readonly string[] = Object.keys(ACTION_TEMPLATES);

/** The name the templates carry, in files and in their names. */
const TEMPLATE_NAME = 'my-policy';
/** That name, the action of the template for any action, and its type and version by themselves. */
const PLACEHOLDERS = /my-policy|acme\.action(?:@0\.0)?|'0\.0'/g;
const LONGEST_NAME = 64;

/**
 * Writes a plugin; answers the files, relative to the folder.
 * @param action the `type@version` that a hint policy is to send; default `kv.fetch@1.0`
 * @throws PointsmanError PM_USAGE for a role or name that cannot be, and an action for another role; PM_PLUGIN_FOLDER when a file is
 * there already or cannot be written.
 */
export function writeScaffold(
  role: string,
  name: string,
  folder: string,
  action?: string,
): readonly string[] {
  if (!SCAFFOLD_ROLES.includes(role)) {
    const hint = didYouMean(role, SCAFFOLD_ROLES) || `; known: ${SCAFFOLD_ROLES.join(', ')}`;
    throw new PointsmanError('PM_USAGE', `unknown role "${role.slice(0, LONGEST_NAME)}"${hint}`);
  }
  checkName(name);
  if (action !== undefined && role !== 'hint-policy') {
    throw new PointsmanError(
      'PM_USAGE',
      `--action is what a hint-policy sends to engines, and a ${role} sends nothing; leave it out, or write a hint-policy`,
    );
  }
  const templates = templateFolder(
    action === undefined ? role : (ACTION_TEMPLATES[action] ?? 'hint-policy-action'),
  );
  const files = readdirSync(templates)
    .sort()
    .map((file) => {
      const text = readFileSync(join(templates, file), 'utf8');
      return { file: rename(file, name), text: fill(text, name, action ?? '') };
    });
  writeNewFiles(folder, files);
  return files.map(({ file }) => file);
}

/** Whether only the engine knows what an action means, so that the simulated one must be told to take it. */
export function isForeignAction(action: string): boolean {
  return !SCAFFOLD_ACTIONS.includes(action);
}

/** In one pass, as a name may look like an action. */
function fill(template: string, name: string, action: string): string {
  const [type = '', version = ''] = action.split('@');
  return template.replaceAll(PLACEHOLDERS, (placeholder) => {
    if (placeholder === TEMPLATE_NAME) return name;
    if (placeholder === "'0.0'") return `'${version}'`;
    return placeholder.includes('@') ? action : type;
  });
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

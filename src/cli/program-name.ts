// How this run of the program was started, so that what it tells the user to type next works where the user is.
import { basename, isAbsolute, relative } from 'node:path';

/**
 * The words before the first argument: `pointsman`, `npx pointsman`, `npx --prefix FOLDER pointsman` or `node FILE`.
 * @param env npm leaves in it how npx was called
 */
export function programName(
  env: Readonly<Record<string, string | undefined>>,
  script: string = process.argv[1] ?? 'pointsman',
  folder: string = process.cwd(),
): string {
  const prefix = env.npm_config_local_prefix;
  if (env.npm_lifecycle_event === 'npx' && prefix !== undefined) {
    return isWithin(prefix, folder) ? 'npx pointsman' : `npx --prefix ${prefix} pointsman`;
  }
  if (basename(script) === 'pointsman') return 'pointsman';
  return `node ${isWithin(folder, script) ? relative(folder, script) : script}`;
}

function isWithin(folder: string, path: string): boolean {
  const steps = relative(folder, path);
  return !steps.startsWith('..') && !isAbsolute(steps);
}

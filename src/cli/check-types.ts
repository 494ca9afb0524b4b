// Runs the TypeScript compiler over an author's folder. It is no dependency of the program: the folder has it, or a clone does.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PointsmanError } from '../plugin/index.ts';

/**
 * What the compiler complains about, a line each, files relative to the folder; empty when all is well.
 * @throws PointsmanError PM_USAGE without a compiler or a tsconfig.json.
 */
export function checkTypes(folder: string): Promise<readonly string[]> {
  if (!existsSync(join(folder, 'tsconfig.json'))) {
    throw new PointsmanError(
      'PM_USAGE',
      `${folder} has no tsconfig.json, which --types needs; pointsman plugins types ${folder} writes one`,
    );
  }
  const args = [compilerFor(folder), '--noEmit', '--pretty', 'false', '-p', '.'];
  return new Promise((done) => {
    execFile(process.execPath, args, { cwd: resolve(folder), maxBuffer: 2 ** 26 }, (failure, out, err) => {
      done(failure === null ? [] : `${out}${err}`.trimEnd().split('\n'));
    });
  });
}

function compilerFor(folder: string): string {
  for (const place of [pathToFileURL(resolve(folder, 'tsconfig.json')).href, import.meta.url]) {
    try {
      return join(dirname(createRequire(place).resolve('typescript/package.json')), 'bin', 'tsc');
    } catch {
      // Looked for in the next place.
    }
  }
  throw new PointsmanError(
    'PM_USAGE',
    '--types needs TypeScript, which is not installed here; npm install --save-dev typescript brings it',
  );
}

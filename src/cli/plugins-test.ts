// `pointsman plugins test`: runs an author's tests with the program's own loader, in a process of their own.
import { spawn } from 'node:child_process';
import { type Dirent, readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { PointsmanError, systemReason } from '../plugin/index.ts';
import { checkTypes } from './check-types.ts';
import type { CliIo } from './output.ts';

/** Test files of one run. */
const MOST_FILES = 1_000;
/** Folders below the given one. */
const DEEPEST = 16;

/** Adds the sub-command. */
export function registerTest(group: Command, io: CliIo): void {
  group
    .command('test')
    .description('run the *.test.ts files of a folder; nothing needs to be installed')
    .argument('[folder]', 'folder of the plugins', '.')
    .option('--types', 'check types too, with the TypeScript that the folder or this program has')
    .option('--json', 'the results as JSON on stdout')
    .addHelpText(
      'after',
      `
Tests are written with node:test and node:assert. pointsman/plugin, pointsman/testing and zod are those of this program, as in serve.
Runs *.test.ts, *.test.js and *.test.mjs, also in folders below. Without --types, types are not checked. Exit 1 when a test or a type
is wrong.

Examples:
  $ pointsman plugins test
  $ pointsman plugins test --types
  $ pointsman plugins test policies --json`,
    )
    .action(async (folder: string, options: { json?: true; types?: true }) => {
      const files = testFiles(folder);
      if (files.length === 0) {
        throw new PointsmanError('PM_USAGE', `${folder} has no *.test.ts file, so there is nothing to run`);
      }
      const types = options.types === true ? await checkTypes(folder) : null;
      if (types !== null && types.length > 0) io.err(`${types.join('\n')}\n`);
      const code = await runTests(folder, files, options.json === true, io);
      // Once more at the end: what stood before the tests has scrolled away.
      if (types !== null && options.json !== true) io.out(`${typesText(types)}\n`);
      io.exit(code === 0 && (types ?? []).length === 0 ? 0 : 1);
    });
}

/** What the check of the types came to, in one line; a message of the compiler may go on in indented ones. */
function typesText(lines: readonly string[]): string {
  const [first, ...others] = lines.filter((line) => !line.startsWith(' '));
  if (first === undefined) return 'types: checked, no error';
  return `types: ${first}${others.length === 0 ? '' : ` (and ${others.length} more, above)`}`;
}

/** The test files below a folder, relative to it, in order. */
function testFiles(folder: string): readonly string[] {
  const found: string[] = [];
  const walk = (path: string, depth: number): void => {
    for (const entry of entriesOf(path)) {
      const { name } = entry;
      if (entry.isDirectory()) {
        const skipped = name.startsWith('.') || name === 'node_modules' || depth >= DEEPEST;
        if (!skipped) walk(join(path, name), depth + 1);
      } else if (/\.test\.(?:ts|js|mjs)$/.test(name)) {
        found.push(relative(folder, join(path, name)));
      }
    }
  };
  walk(folder, 0);
  if (found.length <= MOST_FILES) return found.sort();
  throw new PointsmanError(
    'PM_USAGE',
    `${folder} has ${found.length} test files, more than ${MOST_FILES}; name a folder below it`,
  );
}

function entriesOf(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    throw new PointsmanError('PM_PLUGIN_FOLDER', `cannot read ${folder}: ${systemReason(cause)}`, { cause });
  }
}

/** Runs them in a child, as node:test takes over the process it runs in; answers its exit code. */
function runTests(
  folder: string,
  files: readonly string[],
  json: boolean,
  io: CliIo,
): Promise<number | null> {
  const reporter = json ? built('plugin-test-report.js') : 'spec';
  const { FORCE_COLOR: _, NO_COLOR: __, NODE_OPTIONS: ___, ...env } = io.env;
  const child = spawn(
    process.execPath,
    [
      `--test-reporter=${reporter}`,
      '--test-reporter-destination=stdout',
      built('plugin-test-worker.js'),
      ...files,
    ],
    {
      cwd: resolve(folder),
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...env, ...(io.fancy ? { FORCE_COLOR: '1' } : { NO_COLOR: '1' }) },
    },
  );
  child.stdout.setEncoding('utf8').on('data', (text: string) => io.out(text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => io.err(text));
  return new Promise((done, fail) => {
    child.on('error', fail);
    child.on('close', done);
  });
}

/** A compiled file of this room; the built one also when run from source. */
function built(name: string): string {
  return fileURLToPath(new URL(`../../dist/cli/${name}`, import.meta.url));
}

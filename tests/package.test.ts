// The package as npm packs it, unpacked into an empty folder: its entries import, with types, and what they offer works.
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-package-'));
const modules = join(folder, 'node_modules');
const installed = join(modules, 'pointsman');
const { dependencies, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Readonly<Record<string, string>>;
  exports: Readonly<Record<string, unknown>>;
};

function link(name: string): void {
  mkdirSync(join(modules, name, '..'), { recursive: true });
  symlinkSync(join(root, 'node_modules', name), join(modules, name), 'dir');
}

function run(program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { cwd: folder, encoding: 'utf8' });
}

beforeAll(() => {
  mkdirSync(installed, { recursive: true });
  const cache = ['--cache', join(folder, 'cache'), '--offline', '--ignore-scripts'];
  execFileSync('npm', ['pack', '--pack-destination', folder, ...cache], { cwd: root, stdio: 'pipe' });
  const archive = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  run('tar', '-xzf', archive ?? 'nothing was packed', '-C', installed, '--strip-components', '1');
  for (const name of [...Object.keys(dependencies), '@types/node']) link(name);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a module in the folder; what it prints. */
function module(...lines: readonly string[]): string {
  writeFileSync(join(folder, 'run.mjs'), lines.join('\n'));
  return run(process.execPath, 'run.mjs');
}

test('holds what runs and nothing that only builds or tests it', () => {
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' });
  expect(files).toContain('LICENSE');
  expect(files).toContain(join('assets', 'tiny', 'tokenizer.json'));
  expect(files).toContain(join('docs', 'router.schema.json'));
  // The templates of new plugins have tests, which are theirs.
  const scaffolds = join('assets', 'scaffolds');
  expect(files).toContain(join(scaffolds, 'hint-policy', 'my-policy.test.ts'));
  const own = files.filter((name) => !name.startsWith(scaffolds));
  expect(own.filter((name) => /\.(?:test|fixtures)\.|\.map$|(?:^|[\\/])\.|^src|^tests/.test(name))).toEqual(
    [],
  );
});

test('every entry imports and offers its names', () => {
  const entries = Object.keys(exports).filter((entry) => entry !== './package.json');
  expect(entries).toEqual(['.', './plugin', './testing']);
  const names = JSON.parse(
    module(
      "import * as root from 'pointsman';",
      "import * as plugin from 'pointsman/plugin';",
      "import * as testing from 'pointsman/testing';",
      'console.log(JSON.stringify([root, plugin, testing].map((entry) => Object.keys(entry).sort())));',
    ),
  ) as string[][];
  expect(names[0]).toEqual([
    'ConfigError',
    'PointsmanError',
    'defaultConfig',
    'loadConfig',
    'parseConfig',
    'startRouter',
  ]);
  expect(names[1]).toEqual(expect.arrayContaining(['defineHintPolicy', 'defineWorkerSelectionPolicy']));
  expect(names[2]).toEqual([
    'ManualClock',
    'checkClassifier',
    'checkHintPolicy',
    'checkWorkerSelection',
    'conversationTrace',
    'openHintPolicy',
    'replayTrial',
    'seededRng',
    'testClassifier',
    'testHintPolicy',
    'testWorkerSelection',
  ]);
});

test('a program can run a router of its own, with a plugin that is tested by the kit', () => {
  writeFileSync(
    join(folder, 'policy.mjs'),
    [
      "import { defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';",
      "export default defineWorkerSelectionPolicy({ type: 'last', create: () => ({",
      '  picker: pickWorker({ pick: ({ count }) => count - 1 }) }) });',
    ].join('\n'),
  );
  writeFileSync(
    join(folder, 'router.yaml'),
    [
      'listen: { port: 0 }',
      'admin: { port: 0 }',
      'models: { tiny: { block_size: 16, tokens: { source: estimate } } }',
      'plugins: [./policy.mjs]',
      'worker_selection: { aggregated: last }',
    ].join('\n'),
  );
  const printed = module(
    "import { ConfigError, loadConfig, parseConfig, startRouter } from 'pointsman';",
    "import { testWorkerSelection } from 'pointsman/testing';",
    "import last from './policy.mjs';",
    'const { decisions } = await testWorkerSelection(last, { candidates: [{}, {}, {}] });',
    "const router = await startRouter(loadConfig('router.yaml'));",
    "const models = await (await fetch(router.url + '/v1/models')).json();",
    "const plugins = await (await fetch(router.adminUrl + '/plugins')).json();",
    'const { reasons } = router.readiness();',
    'await router.stop();',
    'let refused = null;',
    "try { parseConfig('router: { mode: kw }', 'x.yaml'); } catch (error) { refused = error instanceof ConfigError; }",
    'console.log(JSON.stringify([decisions[0].row, models.data[0].id, plugins.roles[0].policy.type, reasons, refused]));',
  );
  expect(JSON.parse(printed)).toEqual([2, 'tiny', 'last', ['there are no workers'], true]);
});

test('the types of every entry are found and hold, on the page about embedding too', () => {
  writeFileSync(
    join(folder, 'use.ts'),
    [
      "import { type LoadedConfig, parseConfig, type Readiness, startRouter } from 'pointsman';",
      "import { defineHintPolicy } from 'pointsman/plugin';",
      "import { testHintPolicy } from 'pointsman/testing';",
      "const loaded: LoadedConfig = parseConfig('', 'x.yaml');",
      'const start = async (): Promise<Readiness> => (await startRouter(loaded, { tokenizerThreads: 2 })).readiness();',
      'const mark = defineHintPolicy({',
      "  type: 'mark',",
      '  create: () => ({',
      "    buildHints: ({ promptTokens }) => [{ type: 'acme.mark', version: '1.0', payload: { tokens: promptTokens } }],",
      '  }),',
      '});',
      '// @ts-expect-error: what is not declared is not on the context',
      "defineHintPolicy({ type: 'x', create: () => ({ buildHints: ({ cache }) => [] }) });",
      'const ran = async (): Promise<boolean> => (await testHintPolicy(mark)).ran;',
      'export { ran, start };',
    ].join('\n'),
  );
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const page = readFileSync(join(root, 'docs/embedding.md'), 'utf8');
  writeFileSync(
    join(folder, 'page.ts'),
    /```ts\n([\s\S]*?)```/.exec(page)?.[1] ?? 'the page shows no program',
  );
  expect(run(process.execPath, compiler, ...options, 'use.ts', 'page.ts')).toBe('');
  // A compiler reads half the world's types first, on a busy machine for more than a minute.
}, 300_000);

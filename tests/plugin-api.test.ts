// What plugins compile and run against is the published surface: example packages against the package as npm packs it, and two
// copies of it that must fit each other.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
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
import { afterAll, beforeAll, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiler = join(root, 'node_modules/typescript/bin/tsc');
const folder = mkdtempSync(join(tmpdir(), 'pointsman-api-'));
/** Folders with a copy of the package each: one for the author's side, one for the host's. */
const [author, host] = [join(folder, 'author'), join(folder, 'host')];
const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Readonly<Record<string, string>>;
};
const packages = readdirSync(join(root, 'examples'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter((name) => readdirSync(join(root, 'examples', name)).includes('package.json'));
/** As strict as an author may be. */
const STRICT = [
  ...['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--isolatedDeclarations'],
  ...['--skipLibCheck', 'false', '--verbatimModuleSyntax', '--declaration'],
];

function run(cwd: string, program: string, ...args: readonly string[]): string {
  try {
    return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: 'pipe' });
  } catch (thrown) {
    const { stderr, stdout } = thrown as { readonly stderr?: unknown; readonly stdout?: unknown };
    return `${stdout ?? ''}${stderr ?? ''}` || String(thrown);
  }
}

beforeAll(() => {
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const cache = ['--cache', join(folder, 'cache'), '--offline', '--ignore-scripts'];
  execFileSync('npm', ['pack', '--pack-destination', folder, ...cache], { cwd: root, stdio: 'pipe' });
  const archive = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? 'nothing was packed';
  for (const side of [author, host]) {
    const modules = join(side, 'node_modules');
    mkdirSync(join(modules, 'pointsman'), { recursive: true });
    run(
      side,
      'tar',
      '-xzf',
      join(folder, archive),
      '-C',
      join(modules, 'pointsman'),
      '--strip-components',
      '1',
    );
    for (const name of Object.keys(dependencies)) {
      mkdirSync(join(modules, name, '..'), { recursive: true });
      symlinkSync(join(root, 'node_modules', name), join(modules, name), 'dir');
    }
    writeFileSync(join(side, 'package.json'), '{ "type": "module" }');
  }
  // The compiler takes two copies of one version for the same package, and would compare nothing.
  const manifest = join(host, 'node_modules/pointsman/package.json');
  const { version, ...rest } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };
  writeFileSync(manifest, JSON.stringify({ ...rest, version: `${version}-other` }));
});
afterAll(() => rmSync(folder, { recursive: true }));

it('there are example packages', () => {
  expect(packages).toContain('cost-aware');
});

it.each(packages)(
  'examples/%s compiles against the published surface, and its build is loaded',
  (name) => {
    const place = join(author, name);
    cpSync(join(root, 'examples', name), place, { recursive: true });
    expect(run(place, process.execPath, compiler, '-p', '.', ...STRICT)).toBe('');
    // The host is another copy of the program than the one the plugin was compiled against.
    writeFileSync(join(place, 'installed.yaml'), `plugins: [./dist/index.js]\n`);
    const main = join(host, 'node_modules/pointsman/dist/cli/main.js');
    // It warns that no role uses the plugin.
    expect(run(place, process.execPath, main, 'check', 'installed.yaml')).toContain('no errors, 1 warning');
    expect(run(place, process.execPath, main, 'plugins', 'test', '.')).toContain('fail 0');
  },
  300_000,
);

it('what is made with one copy has the types of the other', () => {
  writeFileSync(
    join(folder, 'two.ts'),
    `import * as a from './author/node_modules/pointsman/dist/plugin/index.js';
import * as b from './host/node_modules/pointsman/dist/plugin/index.js';
import { testHintPolicy, testWorkerSelection } from './host/node_modules/pointsman/dist/testing/index.js';

const scorer: a.WorkerScorer = b.scoreEachWorker({ inputs: ['load'], cost: ({ load }) => load.activeRequests });
const filter: b.WorkerFilter = a.filterWorkers({ inputs: ['cache'], keep: ({ cache }) => cache.deviceBlocks >= 0 });
export const mixed: b.WorkerSelectionPolicyDefinition = a.defineWorkerSelectionPolicy({
  type: 'mixed',
  create: ({ rng }) => ({ filters: [filter], scorers: [scorer], picker: b.pickLowestCost(rng) }),
});
export const declared: a.WorkerSelectionPolicyDefinition = b.defineWorkerSelectionPolicy({
  type: 'declared',
  commitments: ['kv-copy'],
  create: () => ({ cost: a.linearCostWithCopies({}) }),
});
export const hint: b.HintPolicyDefinition = a.defineHintPolicy({
  type: 'hint',
  create: () => ({ buildHints: (): readonly b.HintAction[] => [] }),
});
export const classifier: a.RequestClassifierDefinition = b.defineRequestClassifier({
  type: 'closed',
  create: () => ({
    classify(): a.Overrides {
      throw new a.CapacityExhausted();
    },
  }),
});
export const refusals: readonly [a.RateLimited, b.RateLimited] = [new b.RateLimited(1), new a.RateLimited(1)];
export const error: a.PointsmanError = new b.PointsmanError('PM_USAGE', 'x');
export const trials = async (): Promise<boolean> =>
  (await testHintPolicy(hint)).ran && (await testWorkerSelection(mixed, { candidates: [{}] })).decisions[0].row === 0;

// @ts-expect-error: a picker that commits copies is none that does not, whichever copy made it.
export const wrong: b.WorkerPicker = a.pickWorker({ pick: () => ({ row: 0, commitKvCopy: true }) });
`,
  );
  const options = ['--noEmit', '--module', 'nodenext', '--target', 'es2023', '--lib', 'es2023'];
  expect(run(folder, process.execPath, compiler, ...options, ...STRICT, 'two.ts')).toBe('');
}, 300_000);

it('what is made with one copy runs under the other', () => {
  writeFileSync(
    join(folder, 'two.mjs'),
    `import * as a from './author/node_modules/pointsman/dist/plugin/index.js';
import * as b from './host/node_modules/pointsman/dist/plugin/index.js';
import { replayTrial, testWorkerSelection } from './host/node_modules/pointsman/dist/testing/index.js';

const mixed = a.defineWorkerSelectionPolicy({
  type: 'mixed',
  create: ({ rng }) => ({
    scorers: [a.scoreEachWorker({ cost: ({ workerId }) => -Number(workerId) })],
    picker: b.pickLowestCost(rng),
  }),
});
const payload = { block_hashes: BigUint64Array.of(2n ** 64n - 1n), priority: 1, ttl_ms: 1000 };
const mark = a.defineHintPolicy({
  type: 'mark',
  create: () => ({ buildHints: () => [{ type: 'kv.retain', version: '1.0', payload }] }),
});
const { decisions } = await testWorkerSelection(mixed, { candidates: [{}, {}] });
const replayed = await replayTrial({ selection: { definition: mixed }, hints: [{ definition: mark }] });
const refused = await testWorkerSelection({ ...mixed, '~pointsman': { kind: 'worker-selection', apiVersion: '9.0' } }, {
  candidates: [{}],
}).catch((thrown) => thrown);
console.log(JSON.stringify({
  copies: a.PointsmanError !== b.PointsmanError,
  row: decisions[0].row,
  perWorker: replayed.requestsPerWorker,
  faults: replayed.faults,
  sent: replayed.decisions.flatMap(({ actions }) => actions).length,
  refusals: new a.RateLimited(1) instanceof b.RateLimited && new b.CapacityExhausted() instanceof a.CapacityExhausted,
  strangers: new a.RateLimited(1) instanceof b.CapacityExhausted,
  error: refused instanceof a.PointsmanError && refused instanceof b.PointsmanError && refused.code,
}));
`,
  );
  expect(JSON.parse(run(folder, process.execPath, 'two.mjs'))).toEqual({
    copies: true,
    row: 1,
    perWorker: [0, 0, 0, 80],
    faults: [],
    sent: 80,
    refusals: true,
    strangers: false,
    error: 'PM_PLUGIN_INVALID',
  });
});

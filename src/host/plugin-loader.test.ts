// Real files in bare temporary folders: no package.json, no node_modules, nothing to build.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, parseConfig } from '../config/index.ts';
import { ManualClock, NO_LOG, PointsmanError } from '../plugin/index.ts';
import * as testKit from '../testing/index.ts';
import { createCandidateTable, createPluginHost, type SelectionFacts } from './index.ts';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A fresh folder holding these files. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'plugins-'));
  folders.push(folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

function load(folder: string, yaml: string, clock = new ManualClock()) {
  const { config, source } = parseConfig(yaml, join(folder, 'router.yaml'));
  const modules = { 'pointsman/testing': testKit };
  return createPluginHost({ config, source, clock, log: NO_LOG, modules });
}

const listing = (...plugins: string[]): string =>
  `plugins: [${plugins.map((one) => JSON.stringify(one)).join(', ')}]\n`;

/** What is wrong with a listing, as the user sees it; the folder replaced by FOLDER. */
async function problems(files: Readonly<Record<string, string>>, ...plugins: string[]): Promise<string[]> {
  const folder = folderOf(files);
  try {
    await load(folder, listing(...plugins));
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return thrown.problems.map((one) =>
      thrown.source
        .render(one)
        .replaceAll(`${folder}/router.yaml`, 'router.yaml')
        .replaceAll(folder, 'FOLDER'),
    );
  }
  throw new Error('the plugins were accepted');
}

const hint = (type: string): string => `import { defineHintPolicy } from 'pointsman/plugin';
export default defineHintPolicy({ type: ${JSON.stringify(type)}, create: () => ({ buildHints: () => [] }) });
`;

/** The hint types a folder's plugins add, found by asking for one that does not exist. */
async function knownHints(folder: string, ...plugins: string[]): Promise<string> {
  const yaml = `${listing(...plugins)}worker_selection: { decode: { hints: [{ type: zzzzzz }] } }`;
  try {
    await load(folder, yaml);
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.problems.map(({ message }) => message).join('\n');
    throw thrown;
  }
  throw new Error('zzzzzz exists');
}

describe('loading', () => {
  it('takes .ts, .js and .mjs files, what they import, enums, and top-level await', async () => {
    const folder = folderOf({
      'policies/a.ts': `import { defineHintPolicy, type HintPolicyDefinition } from 'pointsman/plugin';
import { z } from 'zod';
import { name } from './lib/name';
enum Level { Low = 1 }
export const a: HintPolicyDefinition = defineHintPolicy({
  type: name + Level.Low,
  parameters: z.strictObject({ n: z.int().default(await Promise.resolve(1)) }),
  create: () => ({ buildHints: () => [] }),
});
`,
      'policies/lib/name.ts': "export const name: string = 'level';\n",
      'b.js': hint('from-js'),
      'c.mjs': hint('from-mjs'),
      'd.cjs': `const { defineHintPolicy } = require('pointsman/plugin');
module.exports = { one: defineHintPolicy({ type: 'from-cjs', create: () => ({ buildHints: () => [] }) }) };
`,
      'e.ts':
        "import { testHintPolicy } from 'pointsman/testing';\nimport one from './b.js';\nif (!testHintPolicy) throw 1;\nexport { one };\n",
    });
    const known = await knownHints(
      folder,
      './policies/a.ts',
      './b.js',
      './c.mjs',
      './d.cjs',
      join(folder, 'e.ts'),
    );
    expect(known).toBe(
      'unknown hint policy "zzzzzz"; known: kv_fetch, kv_release_session, kv_retain_session, level1, from-js, from-mjs, from-cjs',
    );
  });

  it('takes a package that lies above the configuration', async () => {
    const folder = folderOf({
      'node_modules/@acme/policies/package.json':
        '{ "name": "@acme/policies", "version": "1.0.0", "type": "module", "exports": { ".": { "import": "./main.js" } } }',
      'node_modules/@acme/policies/main.js': hint('acme-mark'),
    });
    expect(await knownHints(folder, '@acme/policies')).toContain(
      'known: kv_fetch, kv_release_session, kv_retain_session, acme-mark',
    );
  });

  it('hands over its own copy of the contract, so that classes are the same on both sides', async () => {
    const folder = folderOf({
      'probe.ts': `import { PointsmanError, defineWorkerSelectionPolicy, pickWorker } from 'pointsman/plugin';
export const probe = defineWorkerSelectionPolicy({
  type: 'probe',
  create: () => ({ picker: pickWorker({ pick: () => { throw new PointsmanError('PM_USAGE', 'mine'); } }) }),
});
`,
    });
    const host = await load(folder, `${listing('./probe.ts')}worker_selection: { decode: probe }`);
    const runtime = host.roleRuntime({ model: 'm', routingGroup: 'g' }, 'decode', 16);
    expect(runtime.policy.version).toMatch(/^[0-9a-f]{12}$/);
    const table = createCandidateTable(1);
    table.count = 1;
    try {
      runtime.select(table, { pinnedWorker: null, affinityTarget: null } as SelectionFacts);
      expect.unreachable();
    } catch (thrown) {
      const { cause } = thrown as Error;
      expect(cause?.constructor).toBe(PointsmanError);
    }
  });

  it('leaves the zod of a folder alone and brings its own where there is none', async () => {
    const named = `import { defineHintPolicy } from 'pointsman/plugin';
import { z } from 'zod';
export default defineHintPolicy({ type: 'zod-' + (z.mark ?? 'ours'), create: () => ({ buildHints: () => [] }) });
`;
    const own = {
      'node_modules/zod/package.json':
        '{ "name": "zod", "version": "9.0.0", "type": "module", "main": "./main.js" }',
      'node_modules/zod/main.js': "export const z = { mark: 'theirs' };\n",
    };
    expect(await knownHints(folderOf({ 'a.ts': named, ...own }), './a.ts')).toContain('zod-theirs');
    expect(await knownHints(folderOf({ 'a.ts': named }), './a.ts')).toContain('zod-ours');
  });

  it('takes an object exported under two names, or by two listed files, once', async () => {
    const folder = folderOf({
      'a.ts': `${hint('twice')}export { default as again } from './b.ts';\n`,
      'b.ts': hint('b'),
    });
    expect(await knownHints(folder, './a.ts', './b.ts', './a.ts')).toBe(
      'unknown hint policy "zzzzzz"; known: kv_fetch, kv_release_session, kv_retain_session, b, twice',
    );
  });

  it('takes what register registers', async () => {
    const folder = folderOf({
      'r.ts': `import { pickWorker } from 'pointsman/plugin';
export function register(registry) {
  registry.registerHintPolicy('loud', (parameters) => {
    if (parameters.volume === 11) throw new Error('volume goes to 10');
    return { inputs: ['load'], create: () => ({ buildHints: () => [] }) };
  }, ['any-worker-selection']);
  registry.registerWorkerSelection('firm', () => ({ create: () => ({ picker: pickWorker({ pick: () => 0 }) }) }));
}
`,
    });
    const host = await load(folder, `${listing('./r.ts')}worker_selection: { decode: firm }`);
    expect(host.resolution()[2]).toMatchObject({
      policy: { type: 'firm' },
      hints: [{ name: 'loud', listed: false }],
      needs: { load: true },
    });
    const loud = load(
      folder,
      `${listing('./r.ts')}worker_selection: { decode: { hints: [{ type: loud, parameters: { volume: 11 } }] } }`,
    );
    await expect(loud).rejects.toThrow(
      'worker_selection.decode.hints[0].parameters: loud: volume goes to 10',
    );
  });

  it('shares one instance over partitions and roles with scope shared, and disposes what it made', async () => {
    const key = `made-${folders.length}`;
    const folder = folderOf({
      's.ts': `import { defineHintPolicy } from 'pointsman/plugin';
const log = (globalThis[Symbol.for(${JSON.stringify(key)})] ??= []);
const make = (type, scope) => defineHintPolicy({ type, scope, create: (context) => {
  log.push(type + ' made ' + ('partition' in context));
  return { buildHints: () => [], dispose() { log.push(type + ' disposed'); } };
} });
export const shared = make('shared', 'shared');
export const single = make('single', 'partition');
`,
    });
    const yaml = `${listing('./s.ts')}
models: { a: { block_size: 16 }, b: { block_size: 16 } }
worker_selection: { decode: { hints: [{ type: shared }, { type: single }] } }`;
    const host = await load(folder, yaml);
    const log: string[] = Reflect.get(globalThis, Symbol.for(key));
    expect(log).toEqual([
      'shared made false',
      'single made true',
      'single disposed',
      'single made true',
      'single disposed',
    ]);
    log.length = 0;
    for (const model of ['a', 'b']) host.roleRuntime({ model, routingGroup: 'default' }, 'decode');
    expect(log).toEqual(['single made true', 'single made true']);
    log.length = 0;
    await host.dispose();
    expect(log.sort()).toEqual(['shared disposed', 'single disposed', 'single disposed']);
  });
});

describe('a plugin that cannot be used', () => {
  it.each<[string, Record<string, string>, string[], string[]]>([
    ['is missing', {}, ['./gone.ts'], ['cannot load ./gone.ts: no such file']],
    [
      'is a folder',
      { 'policies/a.ts': '' },
      ['./policies'],
      ['cannot load ./policies: it is a folder; name the file in it'],
    ],
    [
      'is no package',
      {},
      ['@acme/none'],
      [
        'cannot load @acme/none: no such package; install it in or above the folder of the configuration file, or write ./@acme/none for a file',
      ],
    ],
    [
      'has a syntax error',
      { 'bad.ts': 'export const a = 1;\nexport const b = ;\n' },
      ['./bad.ts'],
      ['cannot load ./bad.ts: ParseError: Unexpected token at bad.ts:2:17'],
    ],
    [
      'imports a file with a syntax error',
      { 'a.ts': "import './lib/bad.ts';\n", 'lib/bad.ts': 'const x = {\n' },
      ['./a.ts'],
      ['cannot load ./a.ts: ParseError: Unexpected token at lib/bad.ts:2:0'],
    ],
    [
      'imports what is not there',
      { 'a.ts': "import x from './nope.ts';\nexport default x;\n" },
      ['./a.ts'],
      ['cannot load ./a.ts: a.ts imports ./nope.ts, which cannot be found'],
    ],
    [
      'throws while it is evaluated',
      { 'a.ts': "import './lib.ts';\n", 'lib.ts': "const n = 1;\n\nthrow new Error('boom ' + n);\n" },
      ['./a.ts'],
      ['cannot load ./a.ts: boom 1 (thrown at lib.ts:3)'],
    ],
    [
      'exports nothing of use',
      { 'a.ts': 'export const a = 1;\n' },
      ['./a.ts'],
      [
        './a.ts exports no definitions; export what defineWorkerSelectionPolicy, defineHintPolicy or defineRequestClassifier returns, or a register function',
      ],
    ],
    [
      'takes a type that another has',
      { 'a.ts': hint('same'), 'b.ts': hint('same') },
      ['./a.ts', './b.ts'],
      [
        'the policy type same is registered by ./a.ts and by ./b.ts; types must be unique, rename one of them',
      ],
    ],
    [
      'takes the type of a built-in, of whatever kind',
      { 'a.ts': hint('random') },
      ['./a.ts'],
      [
        'the policy type random is registered by the built-in policies and by ./a.ts; types must be unique, rename one of them',
      ],
    ],
    [
      'takes a reserved, an empty and an illegal type',
      { 'a.ts': hint('default'), 'b.ts': hint(''), 'c.ts': hint('two words') },
      ['./a.ts', './b.ts', './c.ts'],
      [
        'export default of ./a.ts: the type default is reserved; choose another name',
        'export default of ./b.ts: type must consist of letters, digits, "_", "." and "-", got ""',
        'export default of ./c.ts: type must consist of letters, digits, "_", "." and "-", got "two words"',
      ],
    ],
    [
      'was written for another contract',
      {
        'a.ts':
          "export const a = { '~pointsman': { kind: 'hint-policy', apiVersion: '7.1' }, type: 'a', create() {} };\n",
      },
      ['./a.ts'],
      [
        'export a of ./a.ts was written for plugin API 7.1, this Pointsman offers 0.1; use a plugin built for 0.x',
      ],
    ],
    [
      'is of a kind that does not exist here',
      {
        'a.ts':
          "export const a = { '~pointsman': { kind: 'cache-warmer', apiVersion: '0.1' }, type: 'a', create() {} };\n",
      },
      ['./a.ts'],
      [
        'export a of ./a.ts is a cache-warmer; this Pointsman knows the kinds worker-selection, hint-policy, request-classifier',
      ],
    ],
    [
      'declares an input that does not exist',
      { 'a.ts': hint('a').replace('create:', "inputs: ['kv-copy-location'], create:") },
      ['./a.ts'],
      [
        'export default of ./a.ts: inputs: unknown input "kv-copy-location"; known: cache, load, timing, kv-copy-locations, session-lineage, residency (did you mean "kv-copy-locations"?)',
      ],
    ],
    [
      'declares actions that are none',
      { 'a.ts': hint('a').replace('create:', "actions: ['kv.fetch'], create:") },
      ['./a.ts'],
      ['export default of ./a.ts: actions must be a list of type@version'],
    ],
    [
      'registers a reserved type',
      {
        'a.ts': "export const register = (registry) => registry.registerHintPolicy('default', () => ({}));\n",
      },
      ['./a.ts'],
      ['a registration in ./a.ts: the type default is reserved; choose another name'],
    ],
    [
      'has a register that throws',
      { 'a.ts': "export const register = () => { throw new Error('no'); };\n" },
      ['./a.ts'],
      ['register of ./a.ts failed: no'],
    ],
  ])('%s: the listing says so', async (_, files, plugins, expected) => {
    const found = await problems(files, ...plugins);
    const position = (at: number) =>
      found[at]?.slice(0, found[at].indexOf(': ', found[at].indexOf(': ') + 1));
    expect(found.map((text) => text.replace(/^router\.yaml:1:\d+: plugins\[\d\]: /, ''))).toEqual(expected);
    expect(position(0)).toMatch(/^router\.yaml:1:\d+: plugins\[\d\]$/);
  });

  it('whose exports cannot be read is named', async () => {
    const files = { 'a.js': "export default { get policy() { throw new Error('not yours'); } };\n" };
    expect(await problems(files, './a.js')).toEqual([
      'router.yaml:1:11: plugins[0]: the exports of ./a.js cannot be read: not yours',
    ]);
  });

  it('is not found half-made by the next load', async () => {
    const files = {
      'a.ts': `${hint('half')}if (!globalThis.pointsmanTestReady) throw new Error('not yet');\n`,
    };
    const folder = folderOf(files);
    await expect(load(folder, listing('./a.ts'))).rejects.toThrow('not yet');
    Reflect.set(globalThis, 'pointsmanTestReady', true);
    expect(await knownHints(folder, './a.ts')).toContain('half');
    Reflect.deleteProperty(globalThis, 'pointsmanTestReady');
  });

  it('whose file cannot be read says why', async () => {
    const folder = folderOf({});
    symlinkSync('gone.ts', join(folder, 'dangling.ts'));
    symlinkSync('circle.ts', join(folder, 'circle.ts'));
    const failing = (path: string) => load(folder, listing(path));
    await expect(failing('./dangling.ts')).rejects.toThrow('cannot load ./dangling.ts: no such file');
    await expect(failing('./circle.ts')).rejects.toThrow(
      'cannot load ./circle.ts: its links lead in a circle',
    );
  });
});

describe('a plugin that waits for something that never comes', () => {
  const NEVER = 'new Promise(() => globalThis.pointsmanTestWaits?.())';
  const schema = `{ '~standard': { version: 1, vendor: 'x', validate: () => ${NEVER} } }`;
  const tail = 'did not end within 30 s; it waits for something that does not come';
  const HINTS = 'worker_selection: { decode: { hints: [{ type: slow }] } }';

  /** Lets time pass once the plugin waits. */
  async function inTime<T>(clock: ManualClock, act: () => Promise<T>, ms = 30_000): Promise<T> {
    const waits = new Promise((resolve) => Reflect.set(globalThis, 'pointsmanTestWaits', resolve));
    const outcome = act();
    outcome.catch(() => undefined);
    await waits;
    Reflect.deleteProperty(globalThis, 'pointsmanTestWaits');
    clock.advanceTo(clock.now() + ms);
    return outcome;
  }

  it.each([
    ['at its top level', `await ${NEVER};\n`, '', 'plugins[0]: cannot load ./a.mjs: its top level'],
    [
      'in register',
      `export const register = () => ${NEVER};\n`,
      '',
      'plugins[0]: register of ./a.mjs failed: it',
    ],
    [
      'in its schema',
      hint('slow').replace('create:', `parameters: ${schema}, create:`),
      HINTS,
      'worker_selection.decode.hints[0].parameters: slow: reading them',
    ],
    [
      'in its provider',
      `export const register = (registry) => registry.registerHintPolicy('slow', () => ${NEVER});\n`,
      HINTS,
      'worker_selection.decode.hints[0].parameters: slow: reading them',
    ],
  ])('%s ends the start with an error', async (_, text, yaml, expected) => {
    const clock = new ManualClock();
    const folder = folderOf({ 'a.mjs': text });
    const start = inTime(clock, () => load(folder, `${listing('./a.mjs')}${yaml}`, clock));
    await expect(start).rejects.toThrow(`${expected} ${tail}`);
  });

  it('in dispose does not keep a router from stopping', async () => {
    const clock = new ManualClock();
    const text = hint('slow').replace('buildHints:', `dispose: () => ${NEVER}, buildHints:`);
    // Neither that of the trial keeps it from starting.
    const start = () => load(folderOf({ 'a.mjs': text }), `${listing('./a.mjs')}${HINTS}`, clock);
    const host = await inTime(clock, start);
    host.roleRuntime({ model: 'm', routingGroup: 'default' }, 'decode', 16);
    let stopped = false;
    const stop = async (): Promise<void> => {
      await host.dispose();
      stopped = true;
    };
    const stopping = inTime(clock, stop, 4_999);
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(stopped).toBe(false);
    clock.advanceTo(clock.now() + 1);
    await stopping;
  });
});

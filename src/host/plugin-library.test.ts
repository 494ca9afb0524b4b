// Loading again: what a change makes anew, and what it leaves alone. Real files in bare temporary folders.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ManualClock } from '../plugin/index.ts';
import { PluginLibrary, type PluginOutcome } from './plugin-library.ts';
import type { LoadedModule } from './plugin-loader.ts';

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function folderOf(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'library-'));
  folders.push(folder);
  const write = (name: string, text: string): void => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  };
  for (const [name, text] of Object.entries(files)) write(name, text);
  const library = new PluginLibrary(folder, new ManualClock());
  let base: readonly LoadedModule[] = [];
  return {
    folder,
    write,
    remove: (name: string) => rmSync(join(folder, name)),
    /** Loads over what was loaded last; a load without errors becomes the base of the next. */
    async load(specifiers: readonly string[], packages = true): Promise<readonly PluginOutcome[]> {
      const outcomes = await library.load({ specifiers, base, packages, modules: {} });
      const modules = outcomes.flatMap(({ module }) => (module === null ? [] : [module]));
      if (modules.length === outcomes.length) base = modules;
      else library.use(base);
      return outcomes;
    },
  };
}

/** An export of every outcome, or the text of its error. */
function seen(outcomes: readonly PluginOutcome[], name = 'value'): unknown[] {
  return outcomes.map((outcome) =>
    outcome.module === null ? outcome.error.message : Reflect.get(outcome.module.exports, name),
  );
}

const versions = (outcomes: readonly PluginOutcome[]): unknown[] =>
  outcomes.map(({ module }) => module?.version);

describe('loading again', () => {
  it.each(['ts', 'mjs', 'js', 'cjs'])(
    'takes a changed .%s file, and a changed file it imports through another',
    async (ext) => {
      const imports = (name: string): string =>
        ext === 'cjs'
          ? `const { ${name} } = require('./${name}.cjs');`
          : `import { ${name} } from './${name}.${ext}';`;
      const exports = (name: string, value: string): string =>
        ext === 'cjs' ? `exports.${name} = ${value};` : `export const ${name} = ${value};`;
      const { load, write } = folderOf({
        'package.json': '{ "type": "module" }',
        [`a.${ext}`]: `${imports('b')}\n${exports('value', '"a1 " + b')}\n`,
        [`b.${ext}`]: `${imports('c')}\n${exports('b', '"b1 " + c')}\n`,
        [`c.${ext}`]: exports('c', '"c1"'),
      });
      const first = await load([`./a.${ext}`]);
      write(`c.${ext}`, exports('c', '"c2"'));
      const second = await load([`./a.${ext}`]);
      write(`a.${ext}`, `${imports('b')}\n${exports('value', '"a3 " + b')}\n`);
      const third = await load([`./a.${ext}`]);
      expect([first, second, third].flatMap((one) => seen(one))).toEqual([
        'a1 b1 c1',
        'a1 b1 c2',
        'a3 b1 c2',
      ]);
      expect(new Set([first, second, third].flatMap(versions)).size).toBe(3);
    },
  );

  it('watches what was imported, JSON too, and nothing of other packages', async () => {
    const { folder, load, write } = folderOf({
      'p/a.ts': `import { n } from './lib/n.ts';\nimport data from '../data.json';\nimport { far } from 'far';\nexport const value = [n, data.k, far];\n`,
      'p/lib/n.ts': 'export const n = 1;\n',
      'data.json': '{ "k": 2 }',
      'node_modules/far/package.json':
        '{ "name": "far", "version": "1.0.0", "type": "module", "exports": "./main.js" }',
      'node_modules/far/main.js': 'export const far = 3;\n',
    });
    const [first] = await load(['./p/a.ts']);
    expect(seen([first!])).toEqual([[1, 2, 3]]);
    const files = [...(first?.module?.files.keys() ?? [])].map((path) => path.slice(folder.length + 1));
    expect(files.sort()).toEqual(['data.json', 'p/a.ts', 'p/lib/n.ts']);
    write('data.json', '{ "k": 9 }');
    expect(seen(await load(['./p/a.ts']))).toEqual([[1, 9, 3]]);
  });

  it('evaluates a file once that two paths lead to, also when it is loaded again', async () => {
    const { load, write } = folderOf({
      'a.ts': `import { l } from './l.ts';\nimport { r } from './r.ts';\nexport const value = l === r;\n`,
      'l.ts': `export { shared as l } from './shared.ts';\n`,
      'r.ts': `export { shared as r } from './shared.ts';\n`,
      'shared.ts': 'export const shared = {};\n',
    });
    expect(seen(await load(['./a.ts']))).toEqual([true]);
    write('shared.ts', 'export const shared = { v: 2 };\n');
    expect(seen(await load(['./a.ts']))).toEqual([true]);
  });

  it('leaves a plugin alone whose files did not change, whatever happens to another', async () => {
    const { load, write } = folderOf({
      'a.ts': 'export const value = {};\n',
      'b.ts': 'export const value = 1;\n',
    });
    const first = await load(['./a.ts', './b.ts']);
    write('b.ts', 'export const value = 2;\n');
    const second = await load(['./a.ts', './b.ts']);
    expect(seen(second)[0]).toBe(seen(first)[0]);
    expect(seen(second)[1]).toBe(2);
    write('b.ts', 'export const value = 1;\n');
    expect(versions(await load(['./a.ts', './b.ts']))).toEqual(versions(first));
  });

  it('takes plugins that share a file together: they see one state before and after', async () => {
    const { load, write } = folderOf({
      'a.ts': `import { s } from './s.ts';\nexport const value = s;\nexport const name = 'a1';\n`,
      'b.ts': `import { s } from './s.ts';\nexport const value = s;\nexport const name = 'b1';\n`,
      's.ts': 'export const s = {};\n',
      'c.ts': 'export const value = {};\n',
    });
    const listed = ['./a.ts', './b.ts', './c.ts'];
    const first = seen(await load(listed));
    expect(first[0]).toBe(first[1]);
    write('b.ts', `import { s } from './s.ts';\nexport const value = s;\nexport const name = 'b2';\n`);
    const second = await load(listed);
    const values = seen(second);
    expect([values[0] === values[1], values[0] === first[0], values[2] === first[2]]).toEqual([
      true,
      false,
      true,
    ]);
    expect(seen(second, 'name')).toEqual(['a1', 'b2', undefined]);
  });

  it('a syntax error, a throw at the top level and a missing file are told with their place, and change nothing', async () => {
    const { load, write, remove } = folderOf({
      'a.ts': `import { lib } from './lib.ts';\nexport const value = lib;\n`,
      'lib.ts': 'export const lib = {};\n',
      'b.ts': 'export const value = 1;\n',
    });
    const listed = ['./a.ts', './b.ts'];
    const before = seen(await load(listed));
    write('lib.ts', 'export const lib = {;\n');
    expect(seen(await load(listed))[0]).toMatch(/^cannot load \.\/a\.ts: .*lib\.ts:1:/);
    write('lib.ts', 'export const lib = {};\n');
    write('a.ts', `import { lib } from './lib.ts';\n\nthrow new Error('no luck');\n`);
    expect(seen(await load(listed))[0]).toBe('cannot load ./a.ts: no luck (thrown at a.ts:3)');
    remove('b.ts');
    expect(seen(await load(listed))).toEqual([
      'cannot load ./a.ts: no luck (thrown at a.ts:3)',
      'cannot load ./b.ts: no such file',
    ]);
    write('a.ts', `import { lib } from './lib.ts';\nexport const value = lib;\n`);
    write('b.ts', 'export const value = 1;\n');
    const after = seen(await load(listed));
    expect([after[0] === before[0], after[1]]).toEqual([true, 1]);
  });

  it('packages stay as they are unless they are asked for', async () => {
    const pack = 'node_modules/@acme/p';
    const { load, write } = folderOf({
      [`${pack}/package.json`]:
        '{ "name": "@acme/p", "version": "1.0.0", "type": "module", "exports": "./main.js" }',
      [`${pack}/main.js`]: `export { value } from './lib/value.js';\n`,
      [`${pack}/lib/value.js`]: 'export const value = 1;\n',
    });
    expect(seen(await load(['@acme/p']))).toEqual([1]);
    write(`${pack}/lib/value.js`, 'export const value = 2;\n');
    expect(seen(await load(['@acme/p'], false))).toEqual([1]);
    expect(seen(await load(['@acme/p'], true))).toEqual([2]);
  });
});

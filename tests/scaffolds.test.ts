// New plugins as `pointsman plugins` writes, tests and types them, in a folder where nothing is installed.
import {
  existsSync,
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
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';
import { SCAFFOLD_ACTIONS, SCAFFOLD_ROLES } from '../src/cli/scaffold.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-authors-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const printed = { out: '', err: '' };
  const code = await runCli(args, {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    env: process.env,
    fancy: false,
    exit: () => {},
  });
  return { code, ...printed };
}

function replaceIn(file: string, text: string, by: string): void {
  const before = readFileSync(file, 'utf8');
  expect(before).toContain(text);
  writeFileSync(file, before.replace(text, by));
}

/** Roles, and actions of hint policies beside the one it sends when none is asked for. */
const SCAFFOLDS: readonly (readonly string[])[] = [
  ...SCAFFOLD_ROLES.map((role) => [role]),
  ...SCAFFOLD_ACTIONS.slice(1).map((action) => ['hint-policy', '--action', action]),
  ['hint-policy', '--action', 'acme.pin@1.0'],
];

/** Per scaffold: a text of it, what stands there instead, and what the compiler says. */
const MISTAKES: Readonly<Record<string, readonly [string, string, string]>> = {
  'hint-policy': ["['kv-copy-locations']", "['load']", "Property 'copyLocations' does not exist"],
  'hint-policy --action kv.retain@1.0': [
    "['session-lineage']",
    "['residency']",
    "Property 'lineage' does not exist",
  ],
  'hint-policy --action kv.retain@1.1': [
    'Math.min(priority, answer_priority)',
    'Math.min(priority, answerPriority)',
    "Cannot find name 'answerPriority'",
  ],
  'hint-policy --action kv.evict@1.0': [
    "['session-lineage']",
    "['residency']",
    "Property 'lineage' does not exist",
  ],
  'hint-policy --action kv.prefetch@1.0': [
    "['session-lineage', 'residency']",
    "['session-lineage']",
    "Property 'residency' does not exist",
  ],
  'hint-policy --action acme.pin@1.0': [
    'parameters.min_tokens) return',
    'parameters.minTokens) return',
    "Property 'minTokens' does not exist",
  ],
  'worker-selection': ["inputs: ['cache', 'load']", "inputs: ['load']", "Property 'cache' does not exist"],
  'request-classifier': ['parameters.at_once) {', 'parameters.atOnce) {', "Property 'atOnce' does not exist"],
};

// A compiler reads half the world's types first, on a busy machine for more than a minute.
describe.each(SCAFFOLDS.map((args) => args.join(' ')))('plugins new %s', { timeout: 300_000 }, (asked) => {
  const [role = '', ...options] = asked.split(' ');
  const place = join(folder, asked.replaceAll(' ', '_'));
  const name = `mine_${role}`;

  let written = { code: -1, out: '' };
  beforeAll(async () => {
    written = await run('plugins', 'new', role, name, ...options, '--folder', place, '--json');
  });

  it('writes a plugin and says what comes next', () => {
    expect(written.code).toBe(0);
    const told = JSON.parse(written.out);
    expect(told).toMatchObject({ role, name, folder: place });
    expect(told.written).toEqual(expect.arrayContaining([`${name}.ts`, 'tsconfig.json', '.pointsman/']));
    expect(told.next[0]).toContain(`plugins test ${place}`);
  });

  it('has tests that pass and types that hold', async () => {
    const { code, out, err } = await run('plugins', 'test', place, '--types', '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const { ok, tests } = JSON.parse(out);
    expect(ok).toBe(true);
    expect(tests.length).toBeGreaterThan(1);
  });

  it('has a configuration that passes check', async () => {
    const { code, out } = await run('check', join(place, 'router.yaml'));
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('no errors, 0 warnings') });
    expect(out).toContain(name);
  });

  it('is told by the compiler and by its tests when it is wrong', async () => {
    const policy = join(place, `${name}.ts`);
    const [text = '', by = '', complaint = ''] = MISTAKES[asked] ?? [];
    replaceIn(policy, text, by);
    const { code, err, out } = await run('plugins', 'test', place, '--types');
    expect(code).toBe(1);
    expect(err).toContain(complaint);
    expect(out).toMatch(/fail [1-9]/);
  });
});

describe('plugins new --action', () => {
  const make = (...args: string[]) => run('plugins', 'new', ...args, '--folder', join(folder, 'for-action'));

  it('says how to start simulated workers that take a foreign action, and what was meant perhaps', async () => {
    const { code, err, out } = await make('hint-policy', 'near', '--action', 'kv.fetch@1');
    expect({ code, err }).toEqual({
      code: 0,
      err: 'warning: the simulated engine does not know kv.fetch@1 (did you mean "kv.fetch@1.0"?)\n',
    });
    expect(out).toMatch(/ serve --config .* --sim-workers 4 --sim-arg=--accept-action=kv\.fetch@1\n/);
  });

  it.each(['pin', 'acme.pin@', '@1.0', 'acme.pin@one', 'acme pin@1.0', "x'@1.0"])(
    'refuses "%s"',
    async (action) => {
      expect(await make('hint-policy', 'wrong', '--action', action)).toEqual({
        code: 2,
        out: '',
        err: `error: option '--action <type@version>' argument '${action}' is invalid. It must be TYPE@VERSION, such as acme.pin@1.0.\n`.concat(
          'pointsman plugins new --help lists arguments and options\n',
        ),
      });
    },
  );

  it('refuses one for a role that sends none', async () => {
    const { code, err } = await make('worker-selection', 'wrong', '--action', 'acme.pin@1.0');
    expect([code, err]).toEqual([2, expect.stringContaining('--action is what a hint-policy sends')]);
  });

  it('is in the help, with an example', async () => {
    const { out } = await run('plugins', 'new', '--help');
    expect(out).toContain('--action <type@version>');
    expect(out).toContain('$ pointsman plugins new hint-policy pin_children --action acme.pin@1.0\n');
  });
});

describe('plugins test', () => {
  it('counts a file that cannot be loaded as a failure and runs the others', async () => {
    const place = join(folder, 'broken');
    mkdirSync(join(place, 'deeper'), { recursive: true });
    const passing =
      "import { test } from 'node:test';\nconsole.log('said');\ntest('passes', () => undefined);\n";
    writeFileSync(join(place, 'a.test.ts'), "import { gone } from './gone.ts';\ngone();\n");
    writeFileSync(join(place, 'deeper', 'b.test.mjs'), passing);
    const { code, err, out } = await run('plugins', 'test', place, '--json');
    expect({ code, err }).toEqual({ code: 1, err: 'said\n' });
    expect(JSON.parse(out)).toMatchObject({
      ok: false,
      tests: [
        {
          name: 'load a.test.ts',
          passed: false,
          error: 'cannot load ./a.test.ts: a.test.ts imports ./gone.ts, which cannot be found',
        },
        { name: 'passes', passed: true, error: null },
      ],
    });
  });

  it('says so when there is nothing to run', async () => {
    const place = join(folder, 'empty');
    mkdirSync(place);
    expect(await run('plugins', 'test', place)).toEqual({
      code: 2,
      out: '',
      err: `error: ${place} has no *.test.ts file, so there is nothing to run [PM_USAGE]\n`,
    });
    const { code, err } = await run('plugins', 'test', join(folder, 'nowhere'));
    expect([code, err]).toEqual([2, expect.stringContaining('[PM_PLUGIN_FOLDER]')]);
  });
});

describe('plugins test --types', { timeout: 300_000 }, () => {
  it('fails for a wrong type alone, and says what it lacks', async () => {
    const place = join(folder, 'typed');
    mkdirSync(place);
    writeFileSync(
      join(place, 'a.test.ts'),
      "import { test } from 'node:test';\ntest('passes', () => { const n: number = 'one'; void n; });\n",
    );
    expect(await run('plugins', 'test', place, '--types')).toMatchObject({
      code: 2,
      err: `error: ${place} has no tsconfig.json, which --types needs; pointsman plugins types ${place} writes one [PM_USAGE]\n`,
    });
    await run('plugins', 'types', place);
    const { code, err, out } = await run('plugins', 'test', place, '--types');
    expect({ code, err }).toEqual({
      code: 1,
      err: "a.test.ts(2,30): error TS2322: Type 'string' is not assignable to type 'number'.\n",
    });
    expect(out).toContain('pass 1');
    expect(out).toMatch(/\ntypes: a\.test\.ts\(2,30\): error TS2322: Type 'string' is [^\n]*'number'\.\n$/);
    writeFileSync(join(place, 'a.test.ts'), "import { test } from 'node:test';\ntest('passes', () => {});\n");
    const mended = await run('plugins', 'test', place, '--types');
    expect(mended).toMatchObject({ code: 0, err: '' });
    expect(mended.out).toMatch(/\ntypes: checked, no error\n$/);
  });
});

describe('plugins types', () => {
  it('leaves a tsconfig of the author alone and says what it lacks', async () => {
    const place = join(folder, 'own');
    mkdirSync(place);
    writeFileSync(join(place, 'tsconfig.json'), '{}');
    const { code, err, out } = await run('plugins', 'types', place);
    expect(code).toBe(0);
    expect(out).toMatch(/^wrote \.pointsman\/ in .*, \d+ declaration files\n$/);
    expect(err).toBe(
      'warning: tsconfig.json does not use them; add "extends": "./.pointsman/tsconfig.json" to it\n',
    );
    expect(readFileSync(join(place, 'tsconfig.json'), 'utf8')).toBe('{}');
  });

  it.each([
    ['the folder', '.pointsman', 'elsewhere'],
    ['a file in it', '.pointsman/tsconfig.json', 'elsewhere/precious.json'],
    ['the tsconfig of the author', 'tsconfig.json', 'elsewhere/missing.json'],
  ])('writes nothing to where a link leads: %s', async (_, link, target) => {
    const place = join(folder, `linked-${link.replaceAll('/', '-')}`);
    const elsewhere = join(place, '..', 'elsewhere');
    mkdirSync(join(place, link, '..'), { recursive: true });
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, 'precious.json'), 'mine');
    symlinkSync(join(folder, target), join(place, link));
    const { code, err } = await run('plugins', 'types', place);
    expect(code).toBe(target.includes('missing') ? 2 : 0);
    expect(err).toMatch(target.includes('missing') ? /^error: cannot read .* \[PM_PLUGIN_FOLDER\]\n$/ : /^$/);
    expect(readdirSync(elsewhere)).toEqual(['precious.json']);
    expect(readFileSync(join(elsewhere, 'precious.json'), 'utf8')).toBe('mine');
    rmSync(elsewhere, { recursive: true });
  });

  it('leaves nothing of an older version', async () => {
    const place = join(folder, 'older');
    await run('plugins', 'types', place);
    const stale = join(place, '.pointsman', 'types', 'plugin', 'gone.d.ts');
    writeFileSync(stale, '');
    expect((await run('plugins', 'types', place)).code).toBe(0);
    expect(existsSync(stale)).toBe(false);
  });

  it('copies what the contract needs and nothing of the program', async () => {
    const place = join(folder, 'types-only');
    const { out } = await run('plugins', 'types', place, '--json');
    expect(JSON.parse(out)).toMatchObject({ written: ['.pointsman/', 'tsconfig.json'], connected: true });
    const types = join(place, '.pointsman', 'types');
    expect(readdirSync(types).sort()).toEqual([
      'node-assert-strict.d.ts',
      'node-test.d.ts',
      'plugin',
      'testing',
      'zod',
    ]);
  });
});

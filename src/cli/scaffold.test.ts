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
import { afterAll, describe, expect, it } from 'vitest';
import { DEFAULT_ENGINE_SETTINGS } from '../simulator/index.ts';
import { SCAFFOLD_ACTIONS, SCAFFOLD_ROLES, writeScaffold } from './scaffold.ts';

const folder = mkdtempSync(join(tmpdir(), 'pointsman-scaffold-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(SCAFFOLD_ROLES)('a new %s', (role) => {
  it('has files of its name, and its name in them', () => {
    const place = join(folder, role);
    const files = writeScaffold(role, 'acme.one', place);
    expect([...files].sort()).toEqual(readdirSync(place).sort());
    expect(files).toEqual(
      expect.arrayContaining(['acme.one.ts', 'acme.one.test.ts', 'README.md', 'router.yaml', '.gitignore']),
    );
    const texts = files.map((file) => readFileSync(join(place, file), 'utf8')).join('');
    expect(texts).toContain("type: 'acme.one'");
    expect(texts).not.toContain('my-policy');
  });

  it('overwrites nothing, and then writes nothing', () => {
    const place = join(folder, `${role}-taken`);
    writeScaffold(role, 'first', place);
    writeFileSync(join(place, 'README.md'), 'mine');
    expect(() => writeScaffold(role, 'second', place)).toThrow(
      `nothing is overwritten, and there is already ${['README.md', '.gitignore', 'router.yaml']
        .map((file) => join(place, file))
        .join(', ')}; choose another name, or another folder with --folder`,
    );
    expect(readFileSync(join(place, 'README.md'), 'utf8')).toBe('mine');
    expect(readdirSync(place)).not.toContain('second.ts');
  });
});

describe('a new hint policy for an action', () => {
  const textsOf = (place: string, files: readonly string[]) =>
    files.map((file) => readFileSync(join(place, file), 'utf8')).join('');

  it('has a template of its own for each that the simulated engine executes', () => {
    expect([...SCAFFOLD_ACTIONS].sort()).toEqual([...(DEFAULT_ENGINE_SETTINGS.actions ?? [])].sort());
  });

  it.each(SCAFFOLD_ACTIONS)('sends %s', (action) => {
    const place = join(folder, action);
    const texts = textsOf(place, writeScaffold('hint-policy', 'one', place, action));
    expect(texts).toContain(`actions: ['${action}']`);
    expect(texts).not.toMatch(/acme\.action|'0\.0'/);
  });

  it('sends any other, whatever it and the policy are called', () => {
    const place = join(folder, 'foreign');
    const files = writeScaffold('hint-policy', 'acme.action', place, 'my-policy@2.10');
    const texts = textsOf(place, files);
    expect(files).toContain('acme.action.ts');
    expect(texts).toContain("type: 'acme.action',\n");
    expect(texts).toContain("actions: ['my-policy@2.10']");
    expect(texts).toContain("{ type: 'my-policy', version: '2.10', payload }");
    expect(texts).toContain('--sim-arg=--accept-action=my-policy@2.10');
    expect(texts).not.toContain('0.0');
  });

  it.each(SCAFFOLD_ROLES.filter((role) => role !== 'hint-policy'))('is no %s', (role) => {
    expect(() => writeScaffold(role, 'one', join(folder, 'none'), 'acme.pin@1.0')).toThrow(
      `--action is what a hint-policy sends to engines, and a ${role} sends nothing; leave it out, or write a hint-policy`,
    );
    expect(readdirSync(folder)).not.toContain('none');
  });
});

it('a link that leads nowhere is in the way like a file, and nothing else is written', () => {
  const place = join(folder, 'linked');
  mkdirSync(place);
  symlinkSync(join(folder, 'nowhere.ts'), join(place, 'one.test.ts'));
  expect(() => writeScaffold('hint-policy', 'one', place)).toThrow('there is already');
  expect(readdirSync(place)).toEqual(['one.test.ts']);
});

it.each([
  ['', 'letters, digits, dots, dashes and underscores may stand in it, and at least one must'],
  ['a/b', 'letters, digits, dots, dashes and underscores may stand in it, and at least one must'],
  ['..', 'it is a file name too, so it cannot begin with a dot or a dash'],
  ['-x', 'it is a file name too, so it cannot begin with a dot or a dash'],
  ['default', 'default stands for the default policy; choose another'],
  ['kv_fetch', 'a built-in policy has it; choose another'],
  ['kvcr', 'a built-in policy has it; choose another'],
  ['pass-through', 'a built-in policy has it; choose another'],
])('the name "%s" is refused', (name, why) => {
  const place = join(folder, 'refused');
  expect(() => writeScaffold('hint-policy', name, place)).toThrow(
    `"${name}" cannot be a plugin's name: ${why}`,
  );
  expect(readdirSync(folder)).not.toContain('refused');
});

it('a name longer than a file name should be is refused', () => {
  expect(() => writeScaffold('hint-policy', 'x'.repeat(65), folder)).toThrow(
    `"${'x'.repeat(64)}" cannot be a plugin's name: it has 65 characters, at most 64 are possible`,
  );
});

it('an unknown role is answered with the nearest one', () => {
  expect(() => writeScaffold('hint-polcy', 'x', folder)).toThrow(
    'unknown role "hint-polcy" (did you mean "hint-policy"?)',
  );
  expect(() => writeScaffold('filter', 'x', folder)).toThrow(
    'unknown role "filter"; known: hint-policy, worker-selection, request-classifier',
  );
});

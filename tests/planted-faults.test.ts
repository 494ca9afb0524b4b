// The rules of the plugin contract are held to their form, and a planted fault is caught or refused for what it is.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { contractPage, contractProblems } from '../scripts/contract-rules.mjs';
import { FaultLane } from '../scripts/fault-lane.mjs';
import { passedTests } from '../scripts/passed-tests.mjs';
import { CONTRACT } from './contract/index.ts';
import { LATER } from './contract/later.ts';
import type { ContractRule } from './contract/rule.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');

const RULE: ContractRule = {
  id: 'two-is-two',
  rule: 'Two is two.',
  test: { file: 'two.test.ts', name: 'numbers > of 2 are 2' },
  fault: { file: 'two.ts', text: 'two = 2', instead: 'two = 3' },
};

const FILES = {
  'two.ts': 'export const two = 2;\n',
  'two.test.ts': `import { describe, expect, it } from 'vitest';
import { two } from './two.ts';
describe('numbers', () => {
  it.each([2])('of %i are 2', (n) => expect(two).toBe(n));
  it('may wait', async () => {
    while (two !== 2) await new Promise((resolve) => setTimeout(resolve, 1));
  });
  it.skip('is skipped', () => undefined);
});
`,
  'vitest.config.ts': "export default { test: { include: ['*.test.ts'] } };\n",
};

let root = '';
let lanes: FaultLane[] = [];
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'pointsman-rules-'));
  for (const [name, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
afterEach(() => {
  for (const lane of lanes) lane.close();
  lanes = [];
});

describe('a rule of the contract', () => {
  const wrong = (over: Partial<ContractRule>) => contractProblems(root, [{ ...RULE, ...over }]);

  it('has an id, a sentence, a test that is there and a fault whose text stands once', () => {
    expect(contractProblems(root, [RULE])).toEqual([]);
    expect(contractProblems(root, [RULE, RULE])).toEqual(['contract rule two-is-two: the id is used twice']);
    expect(wrong({ rule: 'two' })).toEqual(['contract rule two-is-two: the rule must be a sentence']);
    expect(wrong({ test: { file: 'two.test.ts', name: 'numbers > of 2 are three' } })).toEqual([
      'contract rule two-is-two: two.test.ts has no test named "numbers > of 2 are three"',
    ]);
    expect(wrong({ test: { file: 'gone.test.ts', name: 'x' } })).toEqual([
      'contract rule two-is-two: its test file gone.test.ts does not exist',
    ]);
    expect(wrong({ fault: { ...RULE.fault, text: 'three' } })).toEqual([
      'contract rule two-is-two: the text its fault replaces is gone in two.ts: "three"',
    ]);
    expect(wrong({ fault: { ...RULE.fault, text: 'o' } })).toEqual([
      'contract rule two-is-two: the text its fault replaces stands 3 times in two.ts: "o"',
    ]);
    expect(wrong({ fault: { ...RULE.fault, instead: 'two = 2' } })).toEqual([
      'contract rule two-is-two: its fault changes nothing',
    ]);
    const { id, rule } = RULE;
    expect(contractProblems(root, [{ id, rule } as ContractRule])).toEqual([
      'contract rule two-is-two: has no test',
      'contract rule two-is-two: has no planted fault',
    ]);
  });

  it('stands on the page with its test, and what is not built yet after all of them', () => {
    const page = contractPage([{ title: 'Numbers', rules: [RULE] }], LATER);
    expect(page).toContain('## Numbers\n');
    expect(page.endsWith(`\n- ${LATER.at(-1)}\n`)).toBe(true);
    expect(page).toContain('| `two-is-two` | Two is two. | `two.test.ts`: numbers > of 2 are 2 |\n');
    expect(CONTRACT.length).toBeGreaterThan(3);
  });
});

describe('a copy with a planted fault', () => {
  const laneOf = (folder: string): FaultLane => {
    symlinkModules(folder);
    const lane = new FaultLane(folder);
    lanes.push(lane);
    return lane;
  };
  const symlinkModules = (folder: string): void => {
    const link = join(folder, 'node_modules');
    if (!existsSync(link)) symlinkSync(join(ROOT, 'node_modules'), link);
  };

  it('runs exactly the named tests, and says which failed, passed or did not run', async () => {
    const lane = laneOf(root);
    const named = (name: string) => ({ file: 'two.test.ts', name: `numbers > ${name}` });
    const tests = [named('of 2 are 2'), named('is skipped'), named('is not there')];
    const before = await lane.run(tests);
    expect([...before.values()].map(({ status }) => status)).toEqual(['passed', 'missing', 'missing']);

    const restore = lane.plant(RULE.fault);
    expect([...(await lane.run([RULE.test])).values()]).toEqual([
      { status: 'failed', reason: expect.stringContaining('expected 3 to be 2') },
    ]);
    restore();
    const broken = lane.plant({ ...RULE.fault, instead: 'two = ;' });
    expect([...(await lane.run([RULE.test])).values()]).toEqual([
      { status: 'missing', reason: expect.stringContaining('two.ts') },
    ]);
    broken();
    expect([...(await lane.run([RULE.test])).values()]).toEqual([{ status: 'passed', reason: '' }]);
  });

  it('is gone afterwards, and the repository is as it was', async () => {
    const before = readdirSync(root).sort();
    const lane = laneOf(root);
    lane.plant(RULE.fault);
    lane.close();
    expect(existsSync(lane.folder)).toBe(false);
    expect(readdirSync(root).sort()).toEqual([...new Set([...before, 'node_modules'])].sort());
  });
});

/** A report of vitest about one file of the repository. */
const reportOf = (file: string, tests: readonly (readonly [name: string, status: string])[]): string =>
  JSON.stringify({
    testResults: [
      {
        name: join(ROOT, file),
        assertionResults: tests.map(([fullName, status]) => ({ fullName, status })),
      },
    ],
  });

describe('tests that a report names as passed', () => {
  it('are those that passed, of several with one name only if all did', () => {
    const report = reportOf('src/two.test.ts', [
      ['a', 'passed'],
      ['b', 'failed'],
      ['c', 'passed'],
      ['c', 'failed'],
      ['d', 'passed'],
      ['d', 'passed'],
      ['e', 'skipped'],
    ]);
    expect([...passedTests(report, ROOT)]).toEqual(['src/two.test.ts: a', 'src/two.test.ts: d']);
  });
});

describe('planted-faults.mjs', () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [join(ROOT, 'scripts/planted-faults.mjs'), ...args], { encoding: 'utf8' });

  it('reports a rule that its test holds as one passed test', () => {
    const { status, stdout, stderr } = run('--only', 'type-reserved', '--json');
    expect([status, stderr]).toEqual([0, expect.stringContaining('1 of 1 rules are held by their tests')]);
    expect(JSON.parse(stdout)).toMatchObject({
      numPassedTests: 1,
      numFailedTests: 0,
      testResults: [{ assertionResults: [{ status: 'passed' }] }],
    });
  });

  it('does not run again without a fault what a report names as passed', () => {
    const [rule] = CONTRACT.flatMap(({ rules }) => rules).filter(({ id }) => id === 'type-reserved');
    const path = join(root, 'passed.json');
    writeFileSync(path, reportOf(rule!.test.file, [[rule!.test.name.replaceAll(' > ', ' '), 'passed']]));
    const { status, stderr } = run('--only', 'type-reserved', '--passed', path);
    expect([status, stderr]).toEqual([0, expect.stringContaining('1 of 1 rules are held by their tests')]);
    expect(stderr).toMatch(/^running the tests of 0 rules without a fault; those of 1 passed before\n/);
  });

  it('refuses a report that is none', () => {
    writeFileSync(join(root, 'none.json'), '{}');
    for (const path of ['none.json', 'gone.json']) {
      const { status, stderr } = run('--only', 'type-reserved', '--passed', join(root, path));
      expect([status, stderr]).toEqual([2, expect.stringContaining(`${path} is no JSON report of vitest: `)]);
    }
  });

  it('refuses a rule that is not there', () => {
    const { status, stderr } = run('--only', 'no-such-rule');
    expect([status, stderr]).toEqual([
      2,
      'no rule is named no-such-rule; docs/plugin-contract.md lists them\n',
    ]);
  });

  it('tries a share of the rules, and says so when there is none in it or no such share', () => {
    const words = (...args: string[]) => {
      const { status, stderr } = run(...args);
      return [status, stderr];
    };
    expect(words('--only', 'type-reserved', '--share', '2/2')).toEqual([2, 'there is no rule to try\n']);
    for (const share of ['0/3', '4/3', '2', '1/2/3', '1/x']) {
      expect(words('--share', share)).toEqual([
        2,
        `--share must be K/N with K from 1 to N, such as 2/3, not "${share}"\n`,
      ]);
    }
  });
});

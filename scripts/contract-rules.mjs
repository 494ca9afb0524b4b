// The rules of the plugin contract (tests/contract): read, held to the sources, and written as a page.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createJiti } from 'jiti';
import { testsOf } from './test-titles.mjs';

/**
 * The sections with their rules, read from the sources.
 * @returns {Promise<import('../tests/contract/rule.ts').ContractSection[]>}
 */
export async function readContract() {
  const { CONTRACT } = await createJiti(import.meta.url).import('../tests/contract/index.ts');
  return CONTRACT;
}

/**
 * What the contract says of parts that are not built yet.
 * @returns {Promise<readonly string[]>}
 */
export async function readLater() {
  const { LATER } = await createJiti(import.meta.url).import('../tests/contract/later.ts');
  return LATER;
}

/**
 * What is wrong with rules before anything is run: an id twice, a test that does not exist, a fault whose text is not there once.
 * @param {string} root
 * @param {readonly import('../tests/contract/rule.ts').ContractRule[]} rules
 * @returns {string[]}
 */
export function contractProblems(root, rules) {
  const problems = [];
  const texts = new Map();
  const textOf = (file) => {
    if (!texts.has(file))
      texts.set(file, existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : null);
    return texts.get(file);
  };
  const titles = new Map();
  const ids = new Set();
  for (const { id, rule, test, fault } of rules) {
    const report = (text) => problems.push(`contract rule ${id}: ${text}`);
    if (ids.has(id)) report('the id is used twice');
    ids.add(id);
    if (!/^[a-z][a-z0-9-]*$/.test(id)) report('an id has lower-case letters, digits and dashes');
    if (!/^[A-Z`].*\.$/s.test(rule)) report('the rule must be a sentence');
    const testText = test === undefined ? null : textOf(test.file);
    if (test === undefined) report('has no test');
    else if (testText === null) report(`its test file ${test.file} does not exist`);
    else {
      if (!titles.has(test.file)) titles.set(test.file, testsOf(testText));
      const named = titles.get(test.file).some((one) => one.matches(test.name));
      if (!named) report(`${test.file} has no test named "${test.name}"`);
    }
    if (fault === undefined) report('has no planted fault');
    else {
      const source = textOf(fault.file);
      const count = source === null ? -1 : source.split(fault.text).length - 1;
      if (source === null) report(`${fault.file}, where its fault is planted, does not exist`);
      else if (fault.text === '' || fault.text === fault.instead) report('its fault changes nothing');
      else if (count !== 1)
        report(
          `the text its fault replaces ${count === 0 ? 'is gone' : `stands ${count} times`} in ${fault.file}: ${JSON.stringify(fault.text)}`,
        );
    }
  }
  return problems;
}

/**
 * The page.
 * @param {readonly import('../tests/contract/rule.ts').ContractSection[]} sections
 * @param {readonly string[]} later what is not held yet
 * @returns {string}
 */
export function contractPage(sections, later) {
  const count = sections.reduce((sum, { rules }) => sum + rules.length, 0);
  const cell = (text) => text.replaceAll('|', '\\|');
  const parts = sections.flatMap(({ title, intro, rules }) => [
    `## ${title}`,
    '',
    ...(intro === undefined ? [] : [intro, '']),
    '| id | rule | held by |',
    '| --- | --- | --- |',
    ...rules.map(({ id, rule, test }) => {
      const by = test.by === 'compiler' ? ' (by the compiler)' : '';
      return `| \`${id}\` | ${cell(rule)} | \`${test.file}\`: ${cell(test.name.replaceAll('<', '\\<'))}${by} |`;
    }),
    '',
  ]);
  return `${[
    '# The plugin contract, rule by rule',
    '',
    '<!-- Generated from tests/contract by scripts/generate-docs.mjs; edit the rules there, not this page. -->',
    '',
    `What a plugin may rely on, and what the host holds it to: ${count} rules, each with the test that holds it. How to write plugins is`,
    'told in [plugins](plugins.md); this page is for looking up what exactly is promised.',
    '',
    'Each rule also has a planted fault in `tests/contract`: a place in the sources, and a change there that breaks the rule.',
    '`node scripts/planted-faults.mjs` applies one after the other to a copy of the repository and demands that the named test fails with',
    'the fault and passes without it. A rule without a test or a fault, a test that does not exist, and a fault whose place is gone fail',
    '`npm run check`.',
    '',
    ...parts,
    '## Not in this version',
    '',
    'The contract is written for parts that are not built yet, too. These have no rules here:',
    '',
    ...later.map((line) => `- ${line}`),
  ]
    .join('\n')
    .trimEnd()}\n`;
}

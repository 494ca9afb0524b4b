// Holds the documentation to the code: generated pages are current, links lead somewhere, no error code or metric is unused or
// unknown, every rule of the plugin contract has a test and a planted fault. Usage: node scripts/check-docs.mjs
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { contractProblems, readContract } from './contract-rules.mjs';
import { brokenLinks, missingPages, tableProblems } from './docs-rules.mjs';
import { generatedPages, readTables, root } from './docs-tables.mjs';

const problems = [];
for (const [name, text] of Object.entries(await generatedPages())) {
  const path = join(root, name);
  if (existsSync(path) && readFileSync(path, 'utf8') === text) continue;
  problems.push(`${name}: is not what the table says; run node scripts/generate-docs.mjs`);
}
problems.push(...brokenLinks(root), ...missingPages(root));
const { errors, metrics } = await readTables();
problems.push(
  ...tableProblems(root, {
    table: 'src/plugin/error-codes.ts',
    names: Object.keys(errors),
    pattern: /\bPM_[A-Z][A-Z0-9_]*/g,
    what: 'error code',
  }),
  ...tableProblems(root, {
    table: 'src/observe/metric-table.ts',
    names: Object.keys(metrics),
    // The simulated engine has an endpoint and names of its own.
    pattern: /\bpointsman_(?!sim_)[a-z][a-z0-9_]*/g,
    what: 'metric',
  }),
);
const rules = (await readContract()).flatMap((section) => section.rules);
problems.push(...contractProblems(root, rules));
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

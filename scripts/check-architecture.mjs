// Holds the code to docs/architecture.md and the sizes of the house style. Usage: node scripts/check-architecture.mjs [ROOT]
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkArchitecture } from './architecture-rules.mjs';

const root = process.argv[2] ?? dirname(dirname(fileURLToPath(import.meta.url)));
const problems = checkArchitecture(root);
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

// Writes the generated pages of docs/. Usage: node scripts/generate-docs.mjs
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generatedPages, root } from './docs-tables.mjs';

for (const [name, text] of Object.entries(await generatedPages())) {
  writeFileSync(join(root, name), text);
  process.stdout.write(`wrote ${name}\n`);
}

// Everything that can be said about the code without running it. Prints one line per step, the output of those that fail, and
// exits 1 when any does. Usage: node scripts/check.mjs [STEP…]
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const tool = (path) => [process.execPath, join(root, 'node_modules', path)];
const script = (name) => [process.execPath, join(root, 'scripts', name)];
const typed = ['src', 'tests', 'bench'].filter((folder) => existsSync(join(root, folder)));

const STEPS = {
  lint: [...tool('@biomejs/biome/bin/biome'), 'check', '--error-on-warnings', '.'],
  promises: [
    ...tool('oxlint/bin/oxlint'),
    ...['--type-aware', '-A', 'all', '-D', 'typescript/no-floating-promises', '--deny-warnings'],
    ...typed,
  ],
  types: [...tool('typescript/bin/tsc'), '-p', 'tsconfig.json', '--noEmit'],
  'plugin types': [...tool('typescript/bin/tsc'), '-p', 'tsconfig.plugin.json', '--noEmit'],
  unused: [...tool('knip/bin/knip.js'), '--no-progress'],
  architecture: script('check-architecture.mjs'),
  docs: script('check-docs.mjs'),
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !Object.hasOwn(STEPS, name));
if (unknown.length > 0) {
  process.stderr.write(`no step is named ${unknown.join(', ')}; known: ${Object.keys(STEPS).join(', ')}\n`);
  process.exit(2);
}
let failed = 0;
for (const [name, command] of Object.entries(STEPS)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const startedAt = performance.now();
  const { code, output } = await run(command);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  process.stdout.write(`${code === 0 ? 'ok    ' : 'FAILED'}  ${name} (${seconds} s)\n`);
  if (code === 0) continue;
  failed += 1;
  process.stdout.write(`${output.trimEnd().replaceAll(/^/gm, '    ')}\n`);
}
process.exitCode = failed === 0 ? 0 : 1;

function run([command, ...args]) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8');
      stream.on('data', (chunk) => {
        output += chunk;
      });
    }
    child.on('error', (error) => resolve({ code: 1, output: String(error) }));
    child.on('close', (code) => resolve({ code, output }));
  });
}

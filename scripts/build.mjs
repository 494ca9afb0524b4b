// Compiles src/ into dist/. Usage: node scripts/build.mjs [--if-stale]
// --if-stale does nothing when no source is newer than the last build, and otherwise compiles only what changed.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'src');
const output = join(root, 'dist');
const stamp = join(output, '.built');
const INPUTS = ['package.json', 'tsconfig.json', 'tsconfig.build.json'];

const onlyIfStale = process.argv.includes('--if-stale');
if (onlyIfStale && existsSync(stamp) && newestChange() <= statSync(stamp).mtimeMs) process.exit(0);
// Whoever asked for something else waits for this.
if (onlyIfStale) {
  process.stderr.write(existsSync(stamp) ? 'building what changed\n' : 'building once, about 20 s\n');
}
// A file removed from dist by hand would not come back while the incremental state says that it is there.
if (!onlyIfStale) rmSync(output, { recursive: true, force: true });

const startedAt = new Date();
const compiler = join(root, 'node_modules/typescript/bin/tsc');
if (!existsSync(compiler)) fail('typescript is not installed: run npm install without --omit=dev');
const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (status !== 0) fail('the build failed');
removeOrphans();
copyAssets(source);
const { bin = {} } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
for (const program of Object.values(bin)) {
  const path = join(root, program);
  if (existsSync(path)) chmodSync(path, 0o755);
}
// The stamp carries the time before compiling: what changed meanwhile counts as newer.
writeFileSync(stamp, `${startedAt.toISOString()}\n`);
utimesSync(stamp, startedAt, startedAt);

function newestChange() {
  let newest = 0;
  const see = (path) => {
    newest = Math.max(newest, statSync(path).mtimeMs);
  };
  for (const name of INPUTS) see(join(root, name));
  // A folder's time changes when a file in it is added or removed.
  const walk = (folder) => {
    see(folder);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) walk(join(folder, entry.name));
      else if (!/\.(?:test|fixtures)\.ts$/.test(entry.name)) see(join(folder, entry.name));
    }
  };
  walk(source);
  return newest;
}

/** Removes compiled files whose source is gone, or is no longer part of the build. */
function removeOrphans() {
  for (const entry of readdirSync(output, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const module = /^(.*?)(?:\.js|\.d\.ts)(?:\.map)?$/.exec(relative(output, path))?.[1];
    if (module === undefined) continue;
    if (/\.(?:test|fixtures)$/.test(module) || !existsSync(join(source, `${module}.ts`))) rmSync(path);
  }
}

/** Copies `assets` folders: what the program reads at run time and tsc does not carry over. */
function copyAssets(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    if (entry.name === 'assets') cpSync(path, join(output, relative(source, path)), { recursive: true });
    else copyAssets(path);
  }
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

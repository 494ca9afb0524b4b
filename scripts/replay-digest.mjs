// Prints one line per replay of a small checked-in trace: a digest of the JSON report less its `wall` part. The lines must be
// the same on every supported Node version.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const runs = [
  [
    '--compare',
    'kv,round-robin,random,least-loaded',
    '--workers',
    '4',
    '--block-size',
    '512',
    '--kv-blocks',
    '2000',
    '--seed',
    '3',
  ],
  [
    '--compare',
    'kv',
    '--workers',
    '3',
    '--block-size',
    '64',
    '--kv-blocks',
    '8000',
    '--seed',
    '1',
    '--speedup',
    '8',
  ],
  ['--compare', 'examples/kv-fetch.yaml', '--workers', '4', '--kv-blocks', '700'],
];
for (const trace of ['mooncake_conversation_sample.jsonl', 'mooncake_synthetic_sample.jsonl']) {
  for (const options of runs) {
    const output = execFileSync(
      process.execPath,
      ['dist/cli/main.js', 'replay', `tests/fixtures/${trace}`, ...options, '--json'],
      { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    const { wall: _wall, ...report } = JSON.parse(output);
    const digest = createHash('sha256').update(JSON.stringify(report)).digest('hex');
    process.stdout.write(`${trace} ${options.join(' ')}: ${digest}\n`);
  }
}

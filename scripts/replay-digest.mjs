// Prints one line per replay of small checked-in traces: a digest of the JSON report less its `wall` part. The lines must be
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
const sessions = [
  '--workers',
  '2',
  '--copies',
  '3',
  '--session-window',
  '60s',
  '--memory',
  '1/2',
  '--host-memory',
  '1',
];
const traces = [
  ['mooncake_conversation_sample.jsonl', runs],
  ['mooncake_synthetic_sample.jsonl', runs],
  ['session_sample.jsonl', [['--compare', 'kv,least-loaded', ...sessions]]],
];
for (const [trace, runsOfTrace] of traces) {
  for (const options of runsOfTrace) {
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

// The script behind the table of docs/session-identity.md, on traces small enough to count by hand.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../scripts/keyless-table.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'pointsman-keyless-'));
afterAll(() => rmSync(folder, { recursive: true }));

function write(trace: string, lines: readonly object[]): void {
  const text = lines.map((line) => JSON.stringify(line)).join('\n');
  writeFileSync(join(folder, `${trace}.jsonl.gz`), gzipSync(`${text}\n`));
}

const row = (stdout: string, name: string): string[] =>
  (stdout.split('\n').find((line) => line.startsWith(`| ${name} |`)) ?? '')
    .split(' | ')
    .slice(1, 9)
    .map((cell) => cell.trim());

it('counts names by what became of each turn', async () => {
  const ids = (count: number, from = 1) => Array.from({ length: count }, (_, at) => from + at);
  const session = (requests: object[]) => ({
    block_size: 64,
    tool_tokens: 640,
    system_tokens: 0,
    requests,
  });
  const turns = (...chains: number[][]) => chains.map((hash_ids, t) => ({ t, type: 'n', hash_ids }));
  const one = turns(ids(20), ids(30), [...ids(20), ...ids(20, 500)], [...ids(10), ...ids(20, 900)]);
  write('claude_code_agentic_traces', [session(one), session(turns(ids(20), ids(25)))]);
  const agent = {
    type: 'subagent',
    agent_id: 'a',
    tool_tokens: 0,
    system_tokens: 0,
    requests: turns(ids(5, 50)),
  };
  write('claude_code_subagent_traces', [session([...turns(ids(20)), agent])]);
  for (const name of ['miniswe', 'taubench', 'magagent']) {
    const text = 'x'.repeat(640);
    write(`lmcache_agent_${name}`, [
      { timestamp: 0, input: text, session_id: 'a' },
      { timestamp: 1e6, input: `${text}${'y'.repeat(64)}`, session_id: 'a' },
      { timestamp: 2e6, input: `${text}${'z'.repeat(64)}`, session_id: 'b' },
    ]);
  }
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, folder]);
  // Four and two turns: the next one, a branch of more than half, a restart after the common part; the other's next turn.
  expect(row(stdout, 'claude_code_agentic_traces, own beginning')).toEqual([
    '2',
    '4',
    '50.0 %',
    '25.0 %',
    '25.0 %',
    '0.0 %',
    '0.0 %',
    '4',
  ]);
  expect(row(stdout, 'claude_code_subagent_traces, own beginning')[0]).toBe('2');
  // The last block may be written anew: another session whose first prompt differs in it alone is merged.
  expect(row(stdout, 'lmcache_agent_miniswe')).toEqual([
    '2',
    '1',
    '100.0 %',
    '0.0 %',
    '0.0 %',
    '33.3 %',
    '0.0 %',
    '1',
  ]);
  const failed = promisify(execFile)(process.execPath, [SCRIPT, join(folder, 'none')]);
  await expect(failed).rejects.toThrow('keyless-table: there is no');
});

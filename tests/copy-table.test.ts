// The command that prints what copies between workers buy: what it checks, and the command itself on a small slice.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type CopyRun, copyProblems, copyTable } from '../scripts/copy-table-rules.mjs';

const SCRIPT = fileURLToPath(new URL('../scripts/copy-table.mjs', import.meta.url));
const FIXTURES = fileURLToPath(new URL('fixtures', import.meta.url));
const SMALL = [FIXTURES, '--kv-blocks', '500', '--seeds', '1'];

type Commits = NonNullable<CopyRun['report']['hints']['commits']>;

const GOOD: Commits = { made: 200, sent: 150, degraded: 40, released: 10, sent_and_covered: 148 };

function run(commits: Commits | undefined, more: Partial<CopyRun> = {}): CopyRun {
  return {
    trace: 'conversation',
    policy: 'kvcr + kv_fetch',
    seed: 1,
    commits: true,
    report: {
      prefix_hit_rate_tokens: 0.25,
      ttft_ms: { mean: 200, p99: 1500 },
      hints: commits === undefined ? {} : { commits },
      policy_faults: [],
    },
    ...more,
  };
}

function command(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' });
  return { status, out: stdout, err: stderr };
}

describe('the table of committed copies', () => {
  it('finds nothing wrong where commits add up, are many and are covered', () => {
    expect(copyProblems([run(GOOD)], 100)).toEqual([]);
    expect(copyProblems([run(undefined, { commits: false })], 100)).toEqual([]);
  });

  it.each([
    [{ ...GOOD, degraded: 41 }, '200 copies made, but 150 sent + 41 degraded + 10 released'],
    [{ ...GOOD, made: 150, sent: 100 }, '150 copies made and 100 sent; both must exceed 100'],
    [
      { ...GOOD, sent_and_covered: 142 },
      'the engine found the credited blocks of 94.6 % of the sent copies cached; at least 95.0 % are needed',
    ],
    [undefined, 'no copy was committed'],
  ])('says what is wrong with %o', (commits, words) => {
    expect(copyProblems([run(commits)], 100)).toEqual([`conversation, kvcr + kv_fetch, seed 1: ${words}`]);
  });

  it('names policies that failed and copies that a policy without commitments made', () => {
    const faults = [{ policy: 'kv_fetch', reason: 'threw', count: 3 }];
    expect(
      copyProblems([run(GOOD, { report: { ...run(GOOD).report, policy_faults: faults } })], 100),
    ).toEqual(['conversation, kvcr + kv_fetch, seed 1: kv_fetch failed 3 times (threw)']);
    expect(copyProblems([run(GOOD, { commits: false })], 100)).toEqual([
      'conversation, kvcr + kv_fetch, seed 1: copies were committed, which this policy never does',
    ]);
  });

  it('has a row per trace and policy: rates and times are means over the seeds, commits sums, coverage the worst', () => {
    const second = { ...GOOD, sent_and_covered: 150 };
    const rows = copyTable([
      run(GOOD),
      run(second, { seed: 2, report: { ...run(second).report, prefix_hit_rate_tokens: 0.35 } }),
    ]);
    expect(rows.split('\n')[2]).toBe(
      '| conversation | kvcr + kv_fetch | 0.3000 (0.2500–0.3500) | 200 | 1,500 | 400 | 300 | 80 | 20 | 98.6 % |',
    );
  });
});

describe('scripts/copy-table.mjs', () => {
  it('replays both traces under three choices of policies', () => {
    const { status, out, err } = command(...SMALL, '--more-than', '0');
    expect(err).toBe('');
    expect(status).toBe(0);
    const rows = out.trimEnd().split('\n').slice(2);
    expect(rows.map((row) => row.split(' | ').slice(0, 2).join(': '))).toEqual(
      ['conversation', 'synthetic'].flatMap((trace) =>
        ['kv', 'kv + kv_fetch', 'kvcr + kv_fetch'].map((policy) => `| ${trace}: ${policy}`),
      ),
    );
    expect(rows.filter((row) => row.endsWith('| 100.0 % |'))).toHaveLength(2);
  });

  it('fails in words when too few copies were made', () => {
    const { status, err } = command(...SMALL);
    expect(status).toBe(1);
    expect(err).toMatch(
      /^conversation, kvcr \+ kv_fetch, seed 1: \d+ copies made and \d+ sent; both must exceed 100$/m,
    );
  });

  it('says where the traces come from when they are not there', () => {
    const { status, out, err } = command('/nowhere');
    expect({ status, out, err }).toEqual({
      status: 2,
      out: '',
      err: '/nowhere holds no mooncake_conversation_trace.jsonl.gz; the traces come from kvcache-ai/Mooncake, FAST25-release/traces\n',
    });
  });

  it('says what is wrong with its arguments', () => {
    expect(command('--seeds', '1,x')).toMatchObject({ status: 2, err: '--seeds: x is not a whole number\n' });
    expect(command('--no-such-flag').status).toBe(2);
    expect(command('--help')).toMatchObject({ status: 0, err: '' });
  });
});

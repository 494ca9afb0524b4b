// The command that prints what session policies buy: its cells and tables, and the command itself on a small trace.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type FinishedCell,
  isSelected,
  ratioTable,
  type SessionCell,
  sessionCells,
  sessionProblems,
  sessionTable,
} from '../scripts/session-table-rules.mjs';

const SCRIPT = fileURLToPath(new URL('../scripts/session-table.mjs', import.meta.url));
const SAMPLE = fileURLToPath(new URL('fixtures/session_sample.jsonl', import.meta.url));

const CELL: SessionCell = { trace: 'agentic', memory: '1/4', host: false, policy: 'default', seed: 1 };

function finished(mean: number, cell: Partial<SessionCell> = {}): FinishedCell {
  return {
    cell: { ...CELL, ...cell },
    run: {
      completed: 10,
      requests: 10,
      policy_faults: [],
      sessions: {
        resumed_ttft_ms: { mean, p50: mean / 2, p99: 4 * mean },
        resumed_hit_rate_tokens: 0.5,
        live_evictions: 1200,
        released_blocks: 7,
      },
    },
  };
}

describe('sessionCells', () => {
  it('are all combinations, those of a policy blind to host memory only where there is any', () => {
    const cells = sessionCells({
      traces: ['a', 'b'],
      memories: ['1', '2'],
      hosts: [false, true],
      policies: ['default', 'host-blind'],
      seeds: [1, 2, 3],
    });
    expect(cells).toHaveLength(2 * 2 * 3 * 3);
    expect(new Set(cells.map((cell) => JSON.stringify(cell))).size).toBe(cells.length);
    expect(cells.filter(({ policy }) => policy === 'host-blind').every(({ host }) => host)).toBe(true);
  });

  it('are selected by words', () => {
    expect(isSelected(CELL, undefined)).toBe(true);
    expect(isSelected(CELL, 'trace=agentic,memory=1/2|1/4,host=no,policy=default,seed=1|2')).toBe(true);
    expect(isSelected(CELL, 'seed=2')).toBe(false);
    expect(isSelected(CELL, 'host=yes')).toBe(false);
    for (const word of ['what=1', 'seed', 'seed=']) {
      expect(() => isSelected(CELL, word)).toThrow(/--only takes trace, memory, host, policy, seed/);
    }
  });
});

describe('tables', () => {
  const cells = [
    finished(100),
    finished(400, { seed: 2 }),
    finished(50, { policy: 'release' }),
    finished(800, { policy: 'release', seed: 2 }),
    finished(300, { memory: '2' }),
    finished(303, { memory: '2', policy: 'release' }),
  ];

  it('show means over the seeds, and ratios under equal conditions as geometric means', () => {
    expect(sessionTable(cells).split('\n').slice(2)).toEqual([
      '| agentic | 1/4 | no | default | 2 | 0.250 | 0.125 | 1.000 | 1.000 (1.00–1.00) | 50.00 % | 1,200 | 7 |',
      '| agentic | 1/4 | no | release | 2 | 0.425 | 0.212 | 1.700 | 1.000 (0.50–2.00) | 50.00 % | 1,200 | 7 |',
      '| agentic | 2 | no | default | 1 | 0.300 | 0.150 | 1.200 | 1.000 | 50.00 % | 1,200 | 7 |',
      '| agentic | 2 | no | release | 1 | 0.303 | 0.151 | 1.212 | 1.010 | 50.00 % | 1,200 | 7 |',
    ]);
  });

  it('put short memories into one geometric mean and others beside it', () => {
    const half = [finished(10, { memory: '1/2' }), finished(5, { memory: '1/2', policy: 'release' })];
    expect(ratioTable([...cells, ...half]).split('\n')).toEqual([
      '| trace | host | policy | 1/4, 1/2 | 2 |',
      '| --- | --- | --- | --- | --- |',
      '| agentic | no | default | 1.000 (1.00–1.00) | 1.000 |',
      '| agentic | no | release | 0.794 (0.50–2.00) | 1.010 |',
    ]);
  });

  it('say nothing of a ratio where the default was not run', () => {
    expect(ratioTable([finished(5, { policy: 'release' })]).split('\n')[2]).toBe(
      '| agentic | no | release | – |',
    );
  });

  it('are not printed without a word on requests that were not answered and policies that failed', () => {
    const [good] = cells;
    const faults = [{ policy: 'kv_release_session', reason: 'threw', count: 3 }];
    const bad: FinishedCell = { cell: CELL, run: { ...good!.run, completed: 8, policy_faults: faults } };
    expect(sessionProblems([good!])).toEqual([]);
    expect(sessionProblems([bad])).toEqual([
      'agentic, memory 1/4, host no, default, seed 1: 2 requests were not answered',
      'agentic, memory 1/4, host no, default, seed 1: kv_release_session failed 3 times (threw)',
    ]);
  });
});

describe('scripts/session-table.mjs', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'session-table-'));
    for (const name of ['x_agentic_traces.jsonl', 'x_subagent_traces.jsonl'])
      copyFileSync(SAMPLE, join(folder, name));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const table = (...args: string[]) => {
    const cache = join(folder, 'cache.jsonl');
    const { status, stderr, stdout } = spawnSync(
      process.execPath,
      [SCRIPT, folder, '--cache', cache, ...args],
      {
        encoding: 'utf8',
      },
    );
    return { status, stderr, stdout, cache };
  };
  const SMALL = ['--policies', 'default,host-blind', '--memory', '2', '--seeds', '1', '--workers', '2'];

  it('replays each cell once, keeps it, and goes on behind a line that was cut', () => {
    const first = table(...SMALL);
    expect([first.status, first.stderr]).toEqual([0, '1/6\n2/6\n3/6\n4/6\n5/6\n6/6\n']);
    expect(
      first.stdout.match(/^\| (agentic|subagent) \| 2 \| (yes|no) \| (default|host-blind) \| 1 \| /gm),
    ).toHaveLength(6);
    const again = table(...SMALL);
    expect(again).toEqual({ ...first, stderr: '' });
    const lines = readFileSync(first.cache, 'utf8').trimEnd().split('\n');
    writeFileSync(first.cache, [...lines.slice(0, 5), lines[5]!.slice(0, 40)].join('\n'));
    const third = table(...SMALL);
    expect(third).toEqual({ ...first, stderr: '6/6\n' });
  });

  it('takes another selection, and leaves out policies that are refused, with the reason', () => {
    const part = [...SMALL, '--only', 'trace=agentic,host=no', '--policies', 'default'];
    const other = table(...part, '--selection', 'round-robin');
    expect(other.stderr).toBe('1/1\n');
    expect(other.stdout).not.toBe(table(...part).stdout);
    const unknown = table(...part, '--selection', 'no-such-policy');
    expect(unknown.stderr).toMatch(/^left out: default, which this build refuses: .*no-such-policy/);
  });

  it.each([
    [['--only', 'what=1'], '--only takes trace, memory, host, policy, seed'],
    [['--policies', 'none'], '--policies: none is none of default, host-blind'],
    [['--seeds', '0'], '--seeds: 0 is not a whole number from 1'],
    [['--host', 'maybe'], '--host takes no and yes'],
    [['--nothing'], "Unknown option '--nothing'"],
    [[...SMALL, '--memory', '0.001'], 'but the largest request needs'],
  ])('refuses %j', (args, expected) => {
    const { status, stderr } = table(...SMALL, ...args);
    expect([status, stderr]).toEqual([1, expect.stringContaining(expected)]);
  });
});

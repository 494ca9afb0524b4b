// The policy lab: its cells, figures and page, and the command itself on small traces.
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keepsOrder, LabResults, labAims, meanOf } from '../scripts/lab-figures.mjs';
import {
  CORE,
  conditionOf,
  type FinishedLabCell,
  isSelected,
  keptFigures,
  type LabCell,
  type LabRun,
  labCells,
  labStudies,
  replayOptions,
  TUNING_POLICIES,
  tuningStudy,
  USUAL_NIC,
} from '../scripts/lab-grid.mjs';
import { findings, labProblems } from '../scripts/lab-report.mjs';

const CELL: LabCell = {
  study: 'main',
  trace: 'conversation',
  timing: '8b',
  workers: 8,
  ratio: 2,
  load: 0.9,
  delay: 0,
  routers: 1,
  nic: USUAL_NIC,
  seed: 1,
  policy: 'default',
};
const GRID = labStudies({ full: false, seeds: [1, 2, 3, 4, 5] });
const ALL = labCells(GRID, () => true);

function finished(
  ttft: number,
  cell: Partial<LabCell> = {},
  { p99 = 4 * ttft, e2e = 10 * ttft, ...run }: Partial<LabRun> & { p99?: number; e2e?: number } = {},
): FinishedLabCell {
  return {
    cell: { ...CELL, ...cell },
    run: {
      requests: 10,
      completed: 10,
      policy_faults: [],
      hit: 0.25,
      ttft: { mean: ttft, p50: ttft / 2, p99 },
      e2e,
      imbalance: 1.5,
      fetched: 0,
      resumed: null,
      ...run,
    },
  };
}

function page(cells: readonly FinishedLabCell[], requests: number | null = null): string {
  return findings({ finished: cells, planned: ALL, builds: 2, requests });
}

describe('the grid', () => {
  it('has every replay once, none of the part that parameters are chosen on', () => {
    expect(new Set(ALL.map((cell) => JSON.stringify({ ...cell, study: '' }))).size).toBe(ALL.length);
    expect(ALL.some(({ trace }) => trace === 'tuning')).toBe(false);
    expect(labCells(GRID, (policy) => policy !== 'kvcr').some(({ policy }) => policy === 'kvcr')).toBe(false);
  });

  it('replays the default under every condition of a core policy, and expected-time where it is told times or fetches', () => {
    const has = new Set(ALL.map((cell) => `${cell.policy} ${conditionOf(cell)}`));
    for (const cell of ALL) {
      if (CORE.includes(cell.policy)) expect(has).toContain(`default ${conditionOf(cell)}`);
      if (cell.study === 'bound') {
        for (const ratio of [1, 2])
          expect(has).toContain(`default ${conditionOf({ ...cell, ratio, nic: USUAL_NIC })}`);
      } else if (/^expected-time-/.test(cell.policy)) {
        expect(has).toContain(`expected-time ${conditionOf({ ...cell, nic: USUAL_NIC })}`);
      }
    }
  });

  it('has settings to choose from on the part for tuning alone, with one seed', () => {
    const cells = labCells([tuningStudy([3, 4])], () => true);
    expect(new Set(cells.map(({ seed, trace }) => `${trace} ${seed}`))).toEqual(new Set(['tuning 3']));
    expect(new Set(cells.map(({ policy }) => policy)).size).toBe(TUNING_POLICIES.length + 1);
    expect(TUNING_POLICIES.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'expected-time defaults',
        'expected-time late_weight 0',
        'tuned-cost prefill_load_scale 8 overlap_score_credit 4',
      ]),
    );
    expect(page([])).toMatch(/how parameters were chosen\n\n.*\n\nNot run\./i);
  });

  it('covers workers, memories and loads with the first seed, and all seeds with a part; --full has everything', () => {
    const at = (words: Partial<LabCell>) =>
      ALL.filter((cell) =>
        Object.entries({ study: 'main', timing: '8b', policy: 'default', ...words }).every(([key, value]) =>
          Object.entries(cell).some(([name, own]) => name === key && own === value),
        ),
      );
    for (const trace of ['conversation', 'synthetic'] as const) {
      expect(at({ trace, seed: 1 })).toHaveLength(3 * 4 * 4);
      for (const seed of [2, 3, 4, 5]) {
        expect(at({ trace, seed })).toHaveLength(3 * 4 * 4);
        expect(at({ trace, seed, policy: 'expected-time' })).toHaveLength(3 * 4 * 4);
        expect(at({ trace, seed, policy: 'agentic' })).toHaveLength(4);
      }
    }
    const full = labCells(labStudies({ full: true, seeds: [1, 2, 3, 4, 5] }), () => true);
    expect(full.filter(({ study }) => study === 'main')).toHaveLength(2 * 3 * 3 * 4 * 4 * 5 * 8);
  });

  it('holds out seeds of sessions that no other study replays, whichever those are asked for', () => {
    for (const seeds of [
      [1, 2, 3, 4, 5],
      [5, 6, 7],
    ]) {
      const cells = labCells(labStudies({ full: false, seeds }), () => true).filter(
        ({ load }) => load === null,
      );
      const seedsOf = (isHeldOut: boolean) => [
        ...new Set(cells.filter(({ study }) => (study === 'held-out') === isHeldOut).map(({ seed }) => seed)),
      ];
      expect(seedsOf(false).sort()).toEqual(seeds);
      expect(seedsOf(true).filter((seed) => seeds.includes(seed))).toEqual([]);
      expect(seedsOf(true).length).toBeGreaterThan(0);
    }
  });

  it('is selected by words', () => {
    expect(isSelected(CELL, undefined)).toBe(true);
    expect(isSelected(CELL, 'study=main,trace=conversation,load=0.7|0.9,workers=8,policy=default')).toBe(
      true,
    );
    expect(isSelected(CELL, 'ratio=4')).toBe(false);
    for (const word of ['what=1', 'seed', 'seed=']) {
      expect(() => isSelected(CELL, word)).toThrow(/^--only takes study, trace, timing, workers/);
    }
  });
});

describe('options of a replay', () => {
  const of = (cell: Partial<LabCell>, rows = 101, most?: number): string =>
    replayOptions({ ...CELL, ...cell }, rows, most).join(' ');

  it('take the second half of the conversation, the first for tuning, and the rest as a whole', () => {
    expect(of({})).toBe(
      '--workers 8 --block-size 512 --timing 8b --memory 0.5 --seed 1 --warm-up 0.1 --load 0.9 --spread-arrivals --skip 50 --fast-events',
    );
    expect(of({ trace: 'tuning' })).toContain('--limit 50 ');
    expect(of({ trace: 'tuning' })).not.toContain('--skip');
    expect(of({ trace: 'synthetic' })).not.toMatch(/--skip|--limit/);
    expect(of({}, 101, 20)).toContain('--skip 50 --limit 20 ');
  });

  it('say what a study changes', () => {
    expect(of({ delay: 200, routers: 2, nic: 24, ratio: 0.5 })).toContain(
      '--event-faults delay=200ms --no-event-replay --routers 2 --nic-gbps 24 --fast-events',
    );
    expect(of({ ratio: 0.5 })).toContain('--memory 2 ');
    const sessions = of({ trace: 'agentic', load: null });
    expect(sessions).toContain('--copies 3 --max-context 260000');
    expect(sessions).not.toMatch(/--load|--spread-arrivals|--skip/);
  });
});

describe('figures', () => {
  it('are kept of a report', () => {
    const times = { mean: 1, p50: 2, p99: 3 };
    expect(
      keptFigures({
        requests: 5,
        completed: 4,
        policy_faults: [],
        prefix_hit_rate_tokens: 0.5,
        ttft_ms: times,
        e2e_ms: { mean: 7 },
        hints: { fetched_blocks: 9 },
        workers: [{ prefill_ms: 10 }, { prefill_ms: 30 }],
      }),
    ).toEqual({
      requests: 5,
      completed: 4,
      policy_faults: [],
      hit: 0.5,
      ttft: times,
      e2e: 7,
      imbalance: 1.5,
      fetched: 9,
      resumed: null,
    });
  });

  it('are ratios under equal conditions, and nothing where one of the two was not run', () => {
    const results = new LabResults([
      finished(100),
      finished(400, { seed: 2 }),
      finished(50, { policy: 'expected-time' }),
      finished(100, { policy: 'expected-time', seed: 2 }),
      finished(9, { policy: 'expected-time', seed: 3 }),
    ]);
    const cells = results.select({ policy: 'expected-time' });
    expect(results.ratios(cells, 'ttft', 'default').map(({ value }) => value)).toEqual([0.5, 0.25]);
    expect(results.overall(cells, 'ttft', 'default')).toBeCloseTo(Math.sqrt(0.125), 12);
    expect(results.overall(cells, 'resumed', 'default')).toBeNull();
  });

  it('read capacity up to the first load that fails, not behind it', () => {
    const at = (load: number, ttft: number, study = 'capacity') => finished(ttft, { load, study });
    const results = new LabResults([
      ...[at(0.6, 2000), at(0.4, 100, 'main'), at(0.5, 900), at(0.7, 500), at(0.9, 700, 'main')],
    ]);
    expect(results.capacity('conversation', 'default', 'ttft', 1000)).toBe(0.5);
    expect(results.capacity('conversation', 'default', 'ttft', 50)).toBeNull();
    // 0.8 was not run.
    expect(results.capacity('conversation', 'default', 'ttft', 5000)).toBeUndefined();
  });

  it('have the same weight for each load, however many cells of it were run', () => {
    const ratio = (load: number, value: number) => ({ cell: { ...CELL, load }, value });
    expect(meanOf([ratio(0.4, 0.9), ratio(0.4, 0.9), ratio(0.4, 0.9), ratio(0.9, 0.4)])).toBeCloseTo(0.6, 12);
  });

  it('let an order hold where only policies change places that were as good as equal', () => {
    const means = (...ttfts: number[]) => ttfts.map((ttft, at) => ({ policy: `p${at}`, ttft }));
    const holds = (without: number[], changed: number[]) =>
      keepsOrder({ conditions: 1, without: means(...without), with: means(...changed) });
    expect(holds([1, 0.8, 0.6], [1, 0.9, 0.85])).toBe(true);
    expect(holds([1, 0.8, 0.6], [1, 0.7, 0.85])).toBe(false);
    expect(holds([1, 0.81, 0.8], [1, 0.7, 0.85])).toBe(true);
    expect(holds([], [])).toBeNull();
  });

  it('meet an aim or not, and name the cells that are above it', () => {
    const aimOf = (ttft: number, p99: number) => {
      const aims = labAims(
        new LabResults([
          finished(100, { policy: 'default' }),
          finished(100, { policy: 'default', load: 0.4 }),
          finished(ttft, { policy: 'expected-time' }, { p99: 100 }),
          finished(ttft, { policy: 'expected-time', load: 0.4 }, { p99 }),
        ]),
      );
      return (name: string) => aims.find((aim) => aim.name === name);
    };
    const good = aimOf(72, 408);
    expect(good('conversation: mean TTFT / default')).toMatchObject({ value: 0.72, cells: 2, met: true });
    expect(good('conversation: p99 TTFT / default, every cell')).toMatchObject({ value: 1.02, met: true });
    expect(good('synthetic: mean TTFT / default')).toMatchObject({ value: null, cells: 0, met: null });
    const bad = aimOf(73, 409);
    expect(bad('conversation: mean TTFT / default')).toMatchObject({ met: false });
    const tail = bad('conversation: p99 TTFT / default, every cell');
    expect(tail).toMatchObject({ met: false });
    expect(tail?.misses.map(({ cell }) => cell.load)).toEqual([0.4]);
  });

  it('take a cell for above an aim by the geometric mean over its seeds, and show single replays beside', () => {
    const tails = [100, 225].flatMap((p99, at) => [
      finished(1, { policy: 'default', seed: at + 1 }, { p99: 100 }),
      finished(1, { policy: 'expected-time', seed: at + 1 }, { p99 }),
    ]);
    const aims = labAims(new LabResults(tails));
    const tail = (of: string) =>
      aims.find(({ name }) => name === `conversation: p99 TTFT / default, every ${of}`);
    expect(tail('cell')?.cells).toBe(1);
    expect(tail('cell')?.value).toBeCloseTo(1.5, 12);
    expect(tail('single replay')).toMatchObject({ cells: 2, value: 2.25, met: false });
  });

  it('are of all sessions together, and of each trace and profile', () => {
    const turns = (trace: 'agentic' | 'subagent', policy: string, mean: number, seed = 1) =>
      finished(
        1,
        { study: seed > 5 ? 'held-out' : 'sessions', trace, policy, seed, load: null },
        { resumed: { mean, p99: 1 } },
      );
    const aims = labAims(
      new LabResults([
        ...[turns('agentic', 'default', 100), turns('agentic', 'expected-time', 40)],
        ...[turns('subagent', 'default', 100), turns('subagent', 'expected-time', 90)],
        ...[turns('agentic', 'default', 100, 6), turns('agentic', 'expected-time', 30, 6)],
      ]),
    );
    const aim = (of: string) =>
      aims.find(({ name }) => name === `${of}: mean TTFT of resumed turns / default`);
    expect(aim('all sessions')?.value).toBeCloseTo(0.6, 12);
    expect(aim('all sessions')).toMatchObject({ most: 0.5, cells: 2, met: false });
    expect(aim('all sessions, seeds held out')?.value).toBeCloseTo(0.3, 12);
    expect(aim('all sessions, seeds held out')).toMatchObject({ cells: 1, met: true });
    expect(aim('agentic, 8b')).toMatchObject({ value: 0.4, cells: 1, met: true });
  });

  it('move with wrong times by the difference of the ratios', () => {
    const cells = [
      finished(100),
      finished(60, { policy: 'expected-time' }),
      finished(69, { policy: 'expected-time-fast', study: 'timing' }),
      finished(55, { policy: 'expected-time-slow', study: 'timing' }),
    ];
    const moved = (how: string) =>
      labAims(new LabResults(cells)).find(({ name }) =>
        name.startsWith(`conversation: stated times 3 times too ${how}`),
      );
    expect(moved('short')?.value).toBeCloseTo(0.09, 12);
    expect(moved('short')?.met).toBe(false);
    expect(moved('long')?.value).toBeCloseTo(0.05, 12);
    expect(moved('long')?.met).toBe(true);
  });
});

describe('the page', () => {
  it('says how much was run, and makes no claim where nothing was', () => {
    const empty = page([]);
    expect(empty).toContain(`| main | 0 of ${ALL.filter(({ study }) => study === 'main').length} | 0 | – |`);
    expect(empty).not.toMatch(/\| (yes|\*\*no\*\*) \|/);
    expect(empty).not.toContain('NaN');
    expect(page([], 20)).toContain('**Not to be quoted:** only the first 20 requests');
    expect(page([finished(1)])).toContain('The replays are of 2 builds');
  });

  it('shows means with the least favourable cell, worst cells and who was compared', () => {
    const text = page([
      finished(100),
      finished(100, { load: 0.4 }),
      finished(50, { policy: 'expected-time' }),
      finished(110, { policy: 'expected-time', load: 0.4 }),
    ]);
    expect(text).toContain(
      '| conversation | 8b | expected-time | 2 | 0.250 | 0.74 (1.10) | 0.74 (1.10) | 0.74 (1.10) | 1.50 |',
    );
    expect(text).toContain('| conversation, 8 workers, ratio 2, load 0.4 | 1 | TTFT mean | 1.100 |');
    expect(text).toContain('1.10 at load 0.4 (conversation)');
  });

  it('names cells that lost requests or whose policy failed', () => {
    const fault = { policy: 'some', reason: 'thrown', count: 3 };
    expect(
      labProblems([finished(1), finished(1, { seed: 2 }, { completed: 8, policy_faults: [fault] })]),
    ).toEqual([
      'conversation, 8 workers, ratio 2, load 0.9, seed 2, default: 2 requests were not answered',
      'conversation, 8 workers, ratio 2, load 0.9, seed 2, default: some failed 3 times (thrown)',
    ]);
  });
});

describe('npm run lab', () => {
  const SCRIPT = fileURLToPath(new URL('../scripts/lab.mjs', import.meta.url));
  const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
  let folder = '';

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'lab-'));
    copyFileSync(
      fixture('mooncake_conversation_sample.jsonl'),
      join(folder, 'mooncake_conversation_trace.jsonl'),
    );
    copyFileSync(fixture('mooncake_synthetic_sample.jsonl'), join(folder, 'mooncake_synthetic_trace.jsonl'));
    copyFileSync(fixture('session_sample.jsonl'), join(folder, 'claude_code_agentic_traces.jsonl'));
    copyFileSync(fixture('session_sample.jsonl'), join(folder, 'claude_code_subagent_traces.jsonl'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const command = (...options: string[]): string[] => [
    SCRIPT,
    folder,
    '--cache',
    join(folder, 'cells.jsonl'),
    '--output',
    join(folder, 'findings.md'),
    ...options,
  ];
  const lab = (...options: string[]) =>
    spawnSync(process.execPath, command(...options), { encoding: 'utf8' });
  const cached = (): number => readFileSync(join(folder, 'cells.jsonl'), 'utf8').trim().split('\n').length;
  const PART =
    'study=main|sessions,trace=conversation|subagent,workers=4,ratio=1,load=0.7|null,seed=1,timing=8b,policy=default|agentic';

  it('replays a part, keeps it, writes the page, and replays only what is missing the next time', {
    timeout: 240_000,
  }, () => {
    const first = lab('--only', PART, '--jobs', '2');
    expect(first.stderr).toMatch(/4\/4 replays/);
    expect(first.status).toBe(0);
    expect(cached()).toBe(4);
    const page = readFileSync(join(folder, 'findings.md'), 'utf8');
    expect(page).toMatch(/\| conversation \| 8b \| agentic \| 1 \| 0\.\d{3} \| \d/);
    expect(page).toMatch(/\| subagent \| 8b \| agentic \| 1 \| \d/);
    const lines = readFileSync(join(folder, 'cells.jsonl'), 'utf8').trim().split('\n');
    writeFileSync(join(folder, 'cells.jsonl'), `${lines.slice(1).join('\n')}\n${lines[0]?.slice(0, 40)}`);
    const second = lab('--only', PART);
    expect(second.stderr).toMatch(/1\/1 replays/);
    expect(readFileSync(join(folder, 'findings.md'), 'utf8')).toBe(page);
    const listed = lab('--only', PART, '--list');
    expect(listed.stdout).toMatch(/^main: 2 replays, 2 done$/m);
    // A policy that is told how fast links are is told those of the replay.
    expect(lab('--only', 'study=fetch,nic=24', '--list').stdout).toMatch(/^fetch: \d+ replays, 0 done$/m);
    const told = new URL('../.bench/lab-policies/expected-time-fetch_24.yaml', import.meta.url);
    expect(readFileSync(told, 'utf8')).toContain('link_gbps: 24');
  });

  it('stops at an interruption and keeps what is done', { timeout: 240_000 }, async () => {
    const before = cached();
    const child = spawn(process.execPath, command('--only', 'study=main,seed=1,ratio=1|2', '--jobs', '1'), {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let words = '';
    const code = await new Promise<number | null>((resolve) => {
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        if (!/\d+\/\d+ replays/.test(words) && /\d+\/\d+ replays/.test(words + text)) child.kill('SIGINT');
        words += text;
      });
      child.on('close', resolve);
    });
    expect(words).toContain('stopping; what is done is kept');
    expect(code).toBe(130);
    expect(cached()).toBeGreaterThan(before);
  });

  it('leaves the published page alone until the whole grid is there', () => {
    const published = fileURLToPath(new URL('../docs/findings.md', import.meta.url));
    const before = readFileSync(published, 'utf8');
    const args = [SCRIPT, folder, '--cache', join(folder, 'none.jsonl'), '--report'];
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stderr).toMatch(/^0 of \d+ replays are in .*\.bench.findings\.md$/m);
    expect(status).toBe(0);
    expect(readFileSync(published, 'utf8')).toBe(before);
  });

  it.each([
    [['--only', 'what=1'], '--only takes study, trace'],
    [['--seeds', '0'], '--seeds: 0 is not a whole number from 1'],
    [['--jobs', 'many'], '--jobs: many is not a whole number from 1'],
    [['--what'], "Unknown option '--what'"],
  ])('refuses %j', (options, message) => {
    const { status, stderr } = lab('--report', ...options);
    expect(status).toBe(1);
    expect(stderr).toContain(message);
  });
});

// `pointsman replay` from the command line on, in this process.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';
import type { ReplayReport } from '../src/replay/index.ts';

const SAMPLE = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
const SYNTHETIC = fileURLToPath(new URL('fixtures/mooncake_synthetic_sample.jsonl', import.meta.url));
let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'replay-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(
  args: readonly string[],
  onError: (text: string) => void = () => undefined,
  fancy = false,
): Promise<{ code: number; out: string; err: string }> {
  let out = '';
  let err = '';
  const code = await runCli(['replay', ...args], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
      onError(text);
    },
    env: {},
    fancy,
    exit: () => undefined,
  });
  return { code, out, err };
}

async function report(...args: string[]): Promise<ReplayReport> {
  const { code, out, err } = await run([...args, '--json']);
  expect(err).toBe('');
  expect(code).toBe(0);
  return JSON.parse(out) as ReplayReport;
}

/** The part of a report that must not depend on the machine. */
function fixed(whole: ReplayReport): string {
  const { wall, ...rest } = whole;
  expect(wall.runs).toHaveLength(rest.runs.length);
  return JSON.stringify(rest);
}

describe('pointsman replay', () => {
  it('says in the table why requests did not complete, and nothing where all did', async () => {
    const cramped = await run([SYNTHETIC, '--limit', '30', '--kv-blocks', '5']);
    expect(cramped.out).toMatch(/^requests completed +14\/30\n {2}larger than the KV cache +16\nprefix/m);
    const roomy = await run([SYNTHETIC, '--limit', '30']);
    expect(roomy.out).toMatch(/^requests completed +30\/30\nprefix/m);
  });

  it('reports every request of every run under the documented names', async () => {
    const whole = await report(
      SAMPLE,
      '--workers',
      '4',
      '--kv-blocks',
      '4000',
      '--compare',
      'round-robin,kv',
    );
    expect(Object.keys(whole)).toEqual(['trace', 'settings', 'runs', 'wall']);
    expect(whole.trace).toMatchObject({
      name: 'mooncake_conversation_sample.jsonl',
      block_size: 512,
      requests: 200,
    });
    expect(whole.settings).toMatchObject({ workers: 4, block_size: 512, kv_blocks: 4000, seed: 1 });
    for (const one of whole.runs) {
      expect(one).toMatchObject({ requests: 200, completed: 200, rejected: 0, failed: 0 });
      const sum = (read: (worker: (typeof one.workers)[number]) => number): number =>
        one.workers.reduce((total, worker) => total + read(worker), 0);
      expect(sum((worker) => worker.requests)).toBe(200);
      expect(sum((worker) => worker.input_tokens)).toBe(whole.trace.input_tokens);
      expect(sum((worker) => worker.output_tokens)).toBe(whole.trace.output_tokens);
      expect(one.prefix_hit_rate_tokens).toBeCloseTo(
        sum((worker) => worker.cached_tokens) / whole.trace.input_tokens,
        6,
      );
      for (const times of [one.ttft_ms, one.itl_ms, one.e2e_ms]) {
        expect(times.p50).toBeGreaterThan(0);
        expect(times.p99).toBeGreaterThanOrEqual(times.p90!);
      }
    }
    expect(whole.runs.map((one) => [one.name, one.predicted_hit_rate_tokens === null])).toEqual([
      ['round-robin', true],
      ['kv', false],
    ]);
    expect(whole.runs[1]!.prefix_hit_rate_tokens).toBeGreaterThan(whole.runs[0]!.prefix_hit_rate_tokens!);
  });

  it('gives the same report for the same seed, and hands events over as bytes or decoded alike', async () => {
    const options = [
      SYNTHETIC,
      '--workers',
      '3',
      '--kv-blocks',
      '700',
      '--compare',
      'kv,random,least-loaded',
    ];
    const first = fixed(await report(...options));
    expect(fixed(await report(...options))).toBe(first);
    expect(fixed(await report(...options, '--encoded-events'))).toBe(first);
    expect(fixed(await report(...options, '--seed', '2'))).not.toBe(first);
  });

  it('estimates what a worker has cached whose event stream is cut, while the engines report as before', async () => {
    const options = [SYNTHETIC, '--workers', '1', '--timing', 'none', '--compare', 'kv'];
    const [heard] = (await report(...options)).runs;
    const { out, err } = await run([...options, '--cut-events', '--json']);
    expect(err).toContain(
      'what a worker rank has cached is estimated from what is sent to it (worker: 1, rank: 0',
    );
    const [cut] = (JSON.parse(out) as ReplayReport).runs;
    expect(heard!.prefix_hit_rate_tokens).toBeGreaterThan(0.05);
    expect(heard!.predicted_hit_rate_tokens).toBe(heard!.prefix_hit_rate_tokens);
    expect(cut!.prefix_hit_rate_tokens).toBe(heard!.prefix_hit_rate_tokens);
    // What was sent before the silence was noticed is not believed in.
    expect(cut!.predicted_hit_rate_tokens).toBeGreaterThan(0.7 * heard!.prefix_hit_rate_tokens!);
    expect(cut!.predicted_hit_rate_tokens).toBeLessThan(1.1 * heard!.prefix_hit_rate_tokens!);
  });

  it('loses events and engines by seed: the same report again, another one for another seed', async () => {
    const bad = ['--event-faults', 'drop=0.3,duplicate=0.05,reorder=0.05,delay=200ms'];
    const options = [SYNTHETIC, '--workers', '3', '--kv-blocks', '700', '--compare', 'kv,random'];
    const first = await report(...options, ...bad, '--restart-engine', '2@5s');
    expect(fixed(await report(...options, ...bad, '--restart-engine', '2@5s', '--encoded-events'))).toBe(
      fixed(first),
    );
    expect(first.settings).toMatchObject({
      event_faults: { drop: 0.3, duplicate: 0.05, reorder: 0.05, window: 4, delay_ms: 200 },
      restart_engines: [{ worker: 2, at_ms: 5000 }],
    });
    const [kv] = first.runs;
    const [sound] = (await report(...options)).runs;
    expect(kv!.completed + kv!.failed).toBe(kv!.requests);
    expect(kv!.predicted_hit_rate_tokens).not.toBe(sound!.predicted_hit_rate_tokens);
    expect(fixed(await report(...options, ...bad, '--restart-engine', '1@5s'))).not.toBe(fixed(first));
  });

  it('counts what the router refuses by load under busy thresholds, and only where there are any', async () => {
    const policy = join(folder, 'busy.yaml');
    writeFileSync(policy, 'router: { active_prefill_tokens_threshold: 20000 }\n');
    const options = [SAMPLE, '--workers', '2', '--speedup', '20', '--compare', `kv,${policy}`];
    const [free, bounded] = (await report(...options)).runs;
    expect(free).not.toHaveProperty('refused');
    expect(bounded!.refused).toBeGreaterThan(0);
    expect(bounded!.completed + bounded!.rejected + bounded!.failed + bounded!.refused!).toBe(
      bounded!.requests,
    );
    expect((await run(options)).out).toMatch(/ refused by load +0 +[1-9]/);
  });

  it('fetches from peers under a policy file with kv_fetch, and counts it', async () => {
    const policy = join(folder, 'fetch.yaml');
    writeFileSync(
      policy,
      'worker_selection:\n  aggregated:\n    type: dynamo-default-cost-fn\n    hints: [{ type: kv_fetch }]\n',
    );
    const whole = await report(
      SYNTHETIC,
      '--workers',
      '4',
      '--kv-blocks',
      '700',
      '--compare',
      `kv,${policy}`,
    );
    const [plain, fetching] = whole.runs;
    expect(plain!.hints).toEqual({ actions_by_type: {}, outcomes: {}, fetched_blocks: 0, fetched_bytes: 0 });
    expect(fetching!.name).toBe(policy);
    expect(fetching!.hints.actions_by_type['kv.fetch@1.0']).toBeGreaterThan(0);
    expect(fetching!.hints.outcomes.accepted).toBeGreaterThan(0);
    expect(fetching!.hints.fetched_blocks).toBeGreaterThan(0);
    expect(fetching!.prefix_hit_rate_tokens).toBeGreaterThan(plain!.prefix_hit_rate_tokens!);
  });

  it('never passes a failing policy for a measured one: the table counts it and stderr says why', async () => {
    writeFileSync(
      join(folder, 'faulty.ts'),
      `import { defineHintPolicy, defineWorkerSelectionPolicy, pickLowestCost, scoreWorkers } from 'pointsman/plugin';
      export const throws = defineWorkerSelectionPolicy({
        type: 'throws',
        create: ({ rng }) => ({
          scorers: [scoreWorkers({ score() { throw new Error('no cost today'); } })],
          picker: pickLowestCost(rng),
        }),
      });
      export const lazy = defineWorkerSelectionPolicy({
        type: 'lazy',
        create: ({ rng }) => ({ scorers: [scoreWorkers({ score() {} })], picker: pickLowestCost(rng) }),
      });
      export const slip = defineHintPolicy({
        type: 'slip',
        create: () => ({ buildHints() { throw new Error('no hint today'); } }),
      });`,
    );
    const policy = (name: string, hints: string): string => {
      const file = join(folder, `${name}.yaml`);
      const role = `{ type: ${name}, hints: [${hints}] }`;
      writeFileSync(file, `plugins: [./faulty.ts]\nworker_selection: { aggregated: ${role} }\n`);
      return file;
    };
    const throws = policy('throws', '{ type: slip }');
    const lazy = policy('lazy', '');
    const args = [SAMPLE, '--limit', '20', '--compare', `kv,${throws},${lazy}`];
    const people = await run(args);
    expect(people.out).toMatch(/\nrequests completed .*\npolicy failed, default cost chose +0 +20 +20\n/);
    expect(people.out).toMatch(
      /\nhint outputs dropped +0 +5 +0\nhint policy skipped for failing +0 +15 +0\nprefix/,
    );
    expect(people.err).toBe(
      `warning: ${throws}: worker-selection policy threw (policy: throws, role: aggregated, component: scorer 1, error: no cost today)
warning: ${throws}: the actions of a hint policy were dropped (policy: slip, reason: threw, error: no hint today)
warning: ${throws}: a plugin is skipped for a while (role: aggregated, part: selection, plugin: throws, why: too many failures, failures: 5, overruns: 0, skip_ms: 10000)
warning: ${throws}: a plugin is skipped for a while (role: aggregated, part: hint, plugin: slip, why: too many failures, failures: 5, overruns: 0, skip_ms: 10000)
warning: ${lazy}: worker-selection policy broke its contract (policy: lazy, role: aggregated, code: PM_SELECTION_NON_FINITE_COST, error: scorer 1 of worker-selection policy lazy left row 0 without a number; every cost and every sum must be finite)
warning: ${lazy}: a plugin is skipped for a while (role: aggregated, part: selection, plugin: lazy, why: too many failures, failures: 5, overruns: 0, skip_ms: 10000)
`,
    );
    const machine = await run([...args, '--json']);
    expect((JSON.parse(machine.out) as ReplayReport).runs.map((one) => one.policy_faults)).toEqual([
      [],
      [
        { policy: 'throws', lost: 'choice', reason: 'PM_PLUGIN_THREW', count: 5 },
        { policy: 'slip', lost: 'actions', reason: 'threw', count: 5 },
        { policy: 'throws', lost: 'choice', reason: 'PM_SELECTION_TRIPPED', count: 15 },
        { policy: 'slip', lost: 'actions', reason: 'tripped', count: 15 },
      ],
      [
        { policy: 'lazy', lost: 'choice', reason: 'PM_SELECTION_NON_FINITE_COST', count: 5 },
        { policy: 'lazy', lost: 'choice', reason: 'PM_SELECTION_TRIPPED', count: 15 },
      ],
    ]);
  });

  it('shows what engines made of hint actions, and says which policy’s they would not take and why', async () => {
    writeFileSync(
      join(folder, 'misspelt.ts'),
      `import { defineHintPolicy } from 'pointsman/plugin';
      export const misspelt = defineHintPolicy({
        type: 'misspelt',
        inputs: ['kv-copy-locations'],
        create: () => ({
          buildHints({ copyLocations }) {
            const copy = copyLocations.bestSource(1);
            if (copy === null) return [];
            const payload = { source_control_endpoint: copy.controlEndpoint, blocks: copy.blockHashes };
            return [{ type: 'kv.fetch', version: '1.0', payload }];
          },
        }),
      });`,
    );
    const file = join(folder, 'misspelt.yaml');
    const role = '{ type: round-robin, hints: [{ type: misspelt, name: mine }] }';
    writeFileSync(file, `plugins: [./misspelt.ts]\nworker_selection: { aggregated: ${role} }\n`);
    const args = [SAMPLE, '--compare', `round-robin,${file}`];
    const people = await run(args);
    const sent = Number(/\nhint actions sent +0 +(\d+)\n {2}rejected +0 +\1(?:\n|$)/.exec(people.out)?.[1]);
    expect(sent).toBeGreaterThan(0);
    expect(people.err).toBe(
      `warning: ${file}: the engines rejected actions of a hint policy (policy: mine, action: kv.fetch@1.0, count: ${sent}, reason: malformed, the payload lacks a member or has one of another form)\n`,
    );
    const machine = await run([...args, '--json']);
    expect(machine.err).toBe(people.err);
    expect((JSON.parse(machine.out) as ReplayReport).runs.map(({ hints }) => hints.rejections)).toEqual([
      undefined,
      [{ policy: 'mine', action: 'kv.fetch@1.0', reason: 'malformed', count: sent }],
    ]);
  });

  it('prints a table with a column per run, and a progress bar on terminals only', async () => {
    const plain = await run([SAMPLE, '--limit', '20', '--compare', 'kv,random']);
    expect(plain.err).toBe('');
    expect(plain.out).toContain('mooncake_conversation_sample.jsonl: 20 requests');
    expect(plain.out).toMatch(/\n {2,}kv {2,}random\n/);
    expect(plain.out).toMatch(/\nrequests completed +20\/20 +20\/20\n/);
    expect(plain.out).toMatch(/predicted by the router +\d+\.\d\d % +–\n/);
    const terminal = await run([SAMPLE, '--limit', '20'], undefined, true);
    expect(terminal.err).toContain('20/20');
    expect(terminal.err.endsWith('\r\u001b[K')).toBe(true);
  });

  it('stops at SIGINT without a report, and leaves no listener behind', async () => {
    const before = process.listenerCount('SIGINT');
    const { code, out, err } = await run(
      [SAMPLE],
      (text) => {
        if (text.includes('/200')) process.emit('SIGINT');
      },
      true,
    );
    expect(code).toBe(1);
    expect(out).toBe('');
    expect(err).toContain('error: the replay was interrupted; there is no report [PM_REPLAY_INTERRUPTED]');
    expect(process.listenerCount('SIGINT')).toBe(before);
  });

  it('runs built-in policies by their names as a file that names them', async () => {
    const file = join(folder, 'tuned.yaml');
    writeFileSync(file, 'worker_selection: { aggregated: pointsman-tuned-cost }\n');
    const names = [
      'pointsman-expected-time',
      'pointsman-tuned-cost',
      'dynamo-two-tier-cost-fn',
      'kvcr',
      file,
      'kv',
      'dynamo-default-cost-fn',
    ];
    const args = [SAMPLE, '--limit', '40', '--speedup', '20', '--json', '--compare', names.join(',')];
    const { code, out } = await run(args);
    expect(code).toBe(0);
    const { runs }: ReplayReport = JSON.parse(out);
    const [, tuned, , , configured, kv, defaultCost] = runs;
    expect(runs.map(({ name }) => name)).toEqual(names);
    expect({ ...tuned, name: '', wall: null }).toEqual({ ...configured, name: '', wall: null });
    expect({ ...defaultCost, name: '', wall: null }).toEqual({ ...kv, name: '', wall: null });
    // And where prompts and answers are computed apart.
    const apart = await run([
      SAMPLE,
      '--limit',
      '20',
      '--prefill-workers',
      '2',
      '--decode-workers',
      '2',
      '--compare',
      names.slice(0, 4).join(','),
    ]);
    expect(apart).toMatchObject({ code: 0, err: '' });
  });

  it.each([
    [['--block-size', '48'], '--block-size 48 does not divide'],
    [['--compare', 'fastest'], '--compare cannot run "fastest"'],
    [['--timing', 'profile.npz'], '--timing takes default or none or 8b or 70b or smg, not "profile.npz"'],
    [['--workers', 'many'], '--workers takes a number, not "many"'],
    [['--load=-1'], '--load takes a number that is not negative, not "-1"'],
    [['--compare', 'kv,absent.yaml'], 'cannot read the configuration file absent.yaml'],
    [['--frobnicate'], "unknown option '--frobnicate'"],
  ])('refuses %j with exit code 2 before anything runs', async (args, message) => {
    const { code, out, err } = await run([SAMPLE, ...args]);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toContain(message);
  });

  it('names the line of an unreadable trace', async () => {
    const broken = join(folder, 'broken.jsonl');
    writeFileSync(
      broken,
      '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n{"timestamp": 0}\n',
    );
    const { code, err } = await run([broken]);
    expect(code).toBe(2);
    expect(err).toBe(
      'error: broken.jsonl:2: input_length is missing; it is a whole number from 1 to 4194304 [PM_REPLAY_TRACE]\n',
    );
  });

  it.each([
    ['a folder', (path: string) => mkdirSync(path), / cannot read the trace .*: it is a folder/],
    ['an empty archive', (path: string) => writeFileSync(path, gzipSync('')), / holds no request; /],
    [
      'an archive that breaks off',
      (path: string) => writeFileSync(path, gzipSync(readFileSync(SAMPLE)).subarray(0, 9000)),
      / cannot be read after line \d+: unexpected end of file/,
    ],
    [
      'bytes of something else',
      (path: string) => writeFileSync(path, gzipSync(Buffer.alloc(5000, 0xa7))),
      /:1: the line is no valid JSON in UTF-8/,
    ],
  ])('refuses %s with exit code 2 and no output', async (name, make, message) => {
    const path = join(folder, `${name.replaceAll(' ', '-')}.jsonl.gz`);
    make(path);
    const { code, out, err } = await run([path, '--json']);
    expect(code).toBe(2);
    expect(out).toBe('');
    expect(err).toMatch(message);
    expect(err).toMatch(/^error: .* \[PM_REPLAY_TRACE\]\n$/);
  });

  it('explains itself', async () => {
    const { code, out } = await run(['--help']);
    expect(code).toBe(0);
    expect(out).toContain('Examples:');
  });
});

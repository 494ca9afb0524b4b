// Session traces through the whole router onto simulated engines.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { replayRouters } from '../src/cli/replay-router.ts';
import { runCli } from '../src/cli/run.ts';
import { encodeEventBatch } from '../src/events/index.ts';
import { createBlockHasher } from '../src/kv/index.ts';
import type { SessionContext } from '../src/plugin/index.ts';
import {
  parseCompare,
  type ReplayReport,
  type ReplaySettings,
  readSessionTrace,
  replay,
} from '../src/replay/index.ts';
import { HANDOFF_KINDS } from '../src/simulator/index.ts';

const SAMPLE = fileURLToPath(new URL('fixtures/session_sample.jsonl', import.meta.url));
const MOONCAKE = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
const CRAMPED = ['--workers', '2', '--copies', '3', '--session-window', '60s', '--memory', '1/2'];

/** Releases blocks on prefill workers alone. */
const PREFILL_RELEASES = join(mkdtempSync(join(tmpdir(), 'pointsman-released-')), 'policy.yaml');
writeFileSync(
  PREFILL_RELEASES,
  'worker_selection: { prefill: { type: dynamo-default-cost-fn, hints: [{ type: kv_release_session }] } }\n',
);
afterAll(() => rmSync(dirname(PREFILL_RELEASES), { recursive: true }));

/** Of the sample, cramped, with as much host memory as its working set. */
const GOLDEN = {
  sessions: 36,
  resumed_turns: 180,
  resumed_ttft_ms: { mean: 40.714, p50: 37.546, p90: 54.378, p99: 69.15 },
  resumed_hit_rate_tokens: 0.677423,
  evicted_blocks: 2996,
  live_evictions: 2230,
  released_blocks: 0,
};

async function run(...args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  let out = '';
  let err = '';
  const code = await runCli(['replay', ...args], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: {},
    fancy: false,
    exit: () => undefined,
  });
  return { code, out, err };
}

async function report(...args: readonly string[]): Promise<Omit<ReplayReport, 'wall'>> {
  const { code, err, out } = await run(...args, '--json');
  expect(err).toBe('');
  expect(code).toBe(0);
  const { wall: _, ...rest } = JSON.parse(out) as ReplayReport;
  return rest;
}

describe('pointsman replay of sessions', () => {
  it('gives the same report for the same seed, and hands events over as bytes or decoded alike', async () => {
    const options = [SAMPLE, ...CRAMPED, '--host-memory', '1', '--compare', 'kv,round-robin'];
    const first = await report(...options);
    expect(await report(...options)).toEqual(first);
    expect(await report(...options, '--encoded-events')).toEqual(first);
    expect((await report(...options, '--seed', '2')).runs).not.toEqual(first.runs);
  });

  it('reports what sessions saw beside the figures of all requests', async () => {
    const { runs, settings, trace } = await report(SAMPLE, ...CRAMPED, '--compare', 'kv,round-robin');
    expect(settings).toMatchObject({
      block_size: 64,
      kv_blocks: 128,
      sessions: { copies: 3, window_ms: 60_000, think_cap_ms: 3_600_000, max_context: null, memory: 0.5 },
    });
    expect(trace).toMatchObject({
      name: 'session_sample.jsonl',
      block_size: 64,
      requests: 216,
      sessions: {
        lines: 8,
        dropped: 0,
        sessions: 36,
        sub_agents: 12,
        working_set_blocks: 512,
        working_set_tokens: 32_768,
      },
    });
    expect(runs).toHaveLength(2);
    for (const { completed, requests, sessions } of runs) {
      expect([completed, requests]).toEqual([216, 216]);
      expect(sessions).toMatchObject({ sessions: 36, resumed_turns: 180, released_blocks: 0 });
      expect(sessions!.resumed_ttft_ms.p99).toBeGreaterThanOrEqual(sessions!.resumed_ttft_ms.p50!);
      expect(sessions!.live_evictions).toBeGreaterThan(0);
      expect(sessions!.live_evictions).toBeLessThan(sessions!.evicted_blocks);
    }
    const [kv, roundRobin] = runs;
    expect(kv!.sessions!.resumed_hit_rate_tokens).toBeGreaterThan(
      roundRobin!.sessions!.resumed_hit_rate_tokens!,
    );
  });

  it.each(HANDOFF_KINDS)(
    'releases the blocks of prefill workers once they are handed over: %s',
    async (handoff) => {
      const divided = ['--prefill-workers', '2', '--decode-workers', '2', '--handoff', handoff];
      const { runs } = await report(SAMPLE, ...divided, '--compare', PREFILL_RELEASES);
      const { hints, sessions } = runs[0]!;
      expect(hints.outcomes).toEqual({ accepted: hints.actions_by_type['kv.evict@1.0'] });
      expect(sessions!.released_blocks).toBeGreaterThan(100);
    },
  );

  it('says what became of actions in the end, and of every rejected one why', async () => {
    const { err, out } = await run(
      SAMPLE,
      ...CRAMPED,
      '--compare',
      'bench/sessions/retain-fixed.yaml',
      '--json',
    );
    const { hints, name } = (JSON.parse(out) as ReplayReport).runs[0]!;
    const { deferred = 0, rejected = 0, ...others } = hints.outcomes;
    expect([deferred, Object.values(others).every((count) => count > 0)]).toEqual([0, true]);
    expect(hints.rejections).toEqual([
      { policy: 'kv_retain_session', action: 'kv.retain@1.1', reason: 'no_room', count: rejected },
    ]);
    expect(err).toBe(
      `warning: ${name}: the engines rejected actions of a hint policy (policy: kv_retain_session, action: kv.retain@1.1, count: ${rejected}, reason: no_room, too few blocks were free, or no more can be retained at a time)\n`,
    );
  });

  it('takes the link to host memory that is asked for, however that memory is sized', async () => {
    const { runs, settings } = await report(SAMPLE, ...CRAMPED, '--host-memory', '1', '--host-gbps', '0.1');
    expect(settings.host_gbps).toBe(0.1);
    expect(runs[0]!.sessions!.resumed_ttft_ms.p50).not.toBe(GOLDEN.resumed_ttft_ms.p50);
  });

  it('gives these figures', async () => {
    const { runs } = await report(SAMPLE, ...CRAMPED, '--host-memory', '1');
    expect(runs[0]!.sessions).toEqual(GOLDEN);
  });

  it('evicts no block that a session comes back to, and hits all but what is new, where everything fits', async () => {
    const { runs } = await report(SAMPLE, '--workers', '1', '--copies', '2', '--memory', '4');
    expect(runs[0]!.sessions!.live_evictions).toBe(0);
    const trace = await readSessionTrace(SAMPLE);
    let hit = 0;
    let tokens = 0;
    for (const { sessions } of trace.lines) {
      for (const { turns } of sessions) {
        for (const [index, turn] of turns.slice(1).entries()) {
          const before = new Set(turns.slice(0, index + 1).flatMap(({ ids }) => [...ids]));
          hit += 64 * turn.ids.filter((id) => before.has(id)).length;
          tokens += turn.inputTokens;
        }
      }
    }
    expect(runs[0]!.sessions!.resumed_hit_rate_tokens).toBeCloseTo(hit / tokens, 5);
  });

  it('takes engine blocks that divide those of the trace or are made of them, with hit rates to match', async () => {
    const rates: number[] = [];
    for (const size of ['16', '64', '256']) {
      const { runs } = await report(SAMPLE, '--workers', '1', '--memory', '4', '--block-size', size);
      rates.push(runs[0]!.sessions!.resumed_hit_rate_tokens!);
    }
    // Blocks of 16 tokens end where those of 64 do: what is left over behind them never comes again.
    expect(rates[0]).toBe(rates[1]);
    expect(rates[2]).toBeLessThan(rates[1]!);
  });

  it('prints sessions in the table', async () => {
    const { out } = await run(SAMPLE, ...CRAMPED, '--max-context', '2000');
    expect(out).toMatch(
      /^8 lines \(\d left out, above 2000 tokens\), 3 copies: \d+ sessions, \d+ of them sub-agents, starting within 60 s$/m,
    );
    expect(out).toMatch(/^peak live working set \d+ tokens; KV blocks for 0\.5 of it$/m);
    expect(out).toMatch(/^resumed turns +\d+\n {2}TTFT mean \(ms\) +[\d.]+\n/m);
    expect(out).toMatch(/^ {2}of sessions that come back to them +\d+\nblocks released +0$/m);
  });

  it.each([
    [
      [SAMPLE, '--memory', '1', '--kv-blocks', '5'],
      '--memory and --kv-blocks say the same; give one of them',
    ],
    [
      [SAMPLE, '--host-memory', '1', '--host-kv-blocks', '5'],
      '--host-memory and --host-kv-blocks say the same',
    ],
    [
      [SAMPLE, '--workers', '4', '--prefill-workers', '2', '--decode-workers', '2'],
      '--prefill-workers and --decode-workers take the place of --workers; leave --workers out',
    ],
    [
      [SAMPLE, '--handoff', 'mooncake'],
      '--handoff goes with --prefill-workers and --decode-workers; without them nothing is handed over',
    ],
    [[SAMPLE, '--host-gbps', '10'], '--host-gbps goes with --host-kv-blocks or --host-memory'],
    [
      [SAMPLE, '--block-size', '96'],
      '--block-size 96 neither divides the trace’s block size 64'.replace('’', "'"),
    ],
    [[SAMPLE, '--model', 'block-list', '--timing', 'none'], '--model block-list knows no time'],
    [[SAMPLE, '--copies', '0'], '--copies is 0; it must be a whole number from 1 to 10000'],
    [
      [SAMPLE, '--max-context', '10'],
      'every session of session_sample.jsonl has a prompt of more than 10 tokens',
    ],
    [
      [SAMPLE, '--memory', '0.01'],
      '--memory 0.01 gives each of 8 workers 1 blocks, but the largest request needs',
    ],
    [[SAMPLE, '--memory', '0'], 'It must be a number above 0 or a fraction, such as 0.25 or 1/4.'],
    [[SAMPLE, '--think-cap', '5'], 'It must be a time in ms, s, m or h, such as 90s.'],
    [
      [SAMPLE, '--kv-blocks', 'unlimited', '--host-memory', '1'],
      '--host-memory takes what leaves the KV blocks',
    ],
    [[SAMPLE, '--format', 'mooncake'], 'timestamp is missing'],
    [[MOONCAKE, '--format', 'sessions'], 'id is missing'],
    [
      [MOONCAKE, '--copies', '2'],
      '--copies goes with session traces; this one holds requests at their own times',
    ],
    [[MOONCAKE, '--host-memory', '1/2'], '--host-memory goes with session traces'],
    ...[['--load', '0.5'], ['--skip', '1'], ['--spread-arrivals']].map((flags): [string[], string] => [
      [SAMPLE, ...flags],
      `${flags[0]} goes with traces of requests at their own times; this one holds sessions`,
    ]),
  ])('refuses %j', async (args, expected) => {
    const { code, err } = await run(...args);
    expect(code).not.toBe(0);
    expect(err).toContain(expected);
  });
});

interface Seen {
  readonly session: SessionContext;
  readonly from: number;
  to: number;
}

/** Every request of a replay in order of arrival, with the end of its answer. */
async function watched(settings: Partial<ReplaySettings>): Promise<readonly Seen[]> {
  const seen: Seen[] = [];
  const compose = replayRouters(
    () => undefined,
    (_, line) => expect.unreachable(line),
  );
  await replay({
    trace: await readSessionTrace(SAMPLE),
    settings: {
      workers: 2,
      block_size: 64,
      kv_blocks: 128,
      timing: 'default',
      model: 'engine',
      speedup: 1,
      limit: null,
      seed: 1,
      cut_events: false,
      sessions: { copies: 2, window_ms: 30_000, think_cap_ms: 20_000, max_context: null },
      ...settings,
    },
    runs: parseCompare('kv'),
    fastEvents: true,
    async compose(options) {
      const router = await compose(options);
      const arrive = router.road.arrive.bind(router.road);
      router.road.arrive = (request, sink) => {
        const one = { session: request.session!, from: options.clock.now(), to: -1 };
        seen.push(one);
        return arrive(request, {
          ...sink,
          finished(end) {
            one.to = options.clock.now();
            sink.finished(end);
          },
        });
      };
      return router;
    },
    hasher: createBlockHasher(),
    encode: encodeEventBatch,
    wallClock: () => performance.now(),
    progress: () => undefined,
    signal: new AbortController().signal,
  });
  return seen;
}

it('sends a turn when the answer before it is complete and thought about, and when its sub-agents are done', async () => {
  const seen = await watched({});
  const trace = await readSessionTrace(SAMPLE);
  const bySession = new Map<string, Seen[]>();
  for (const one of seen) {
    const { sessionId } = one.session;
    bySession.set(sessionId, [...(bySession.get(sessionId) ?? []), one]);
  }
  expect(bySession.size).toBe(24);
  let waits = 0;
  for (const { sessions } of trace.lines) {
    for (const copy of [1, 2]) {
      const turnsOf = (index: number): readonly Seen[] => bySession.get(`${copy}/${sessions[index]!.id}`)!;
      for (const [index, { parent, startDelayMs, startsAfter, turns }] of sessions.entries()) {
        const spans = turnsOf(index);
        expect(spans).toHaveLength(turns.length);
        expect(spans.map(({ session }) => session.sessionFinal ?? false)).toEqual(
          turns.map((_, turn) => turn + 1 === turns.length),
        );
        expect(spans.map(({ session }) => session.inputTrigger ?? null)).toEqual(
          turns.map(({ trigger }) => trigger),
        );
        const parentId = parent < 0 ? undefined : `${copy}/${sessions[parent]!.id}`;
        expect(new Set(spans.map(({ session }) => session.parentSessionId))).toEqual(new Set([parentId]));
        if (parent >= 0)
          expect(spans[0]!.from).toBeCloseTo(turnsOf(parent)[startsAfter]!.to + startDelayMs, 6);
        for (const [turn, { awaits, thinkMs }] of turns.entries()) {
          expect(spans[turn]!.to).toBeGreaterThan(spans[turn]!.from);
          if (turn === 0) continue;
          const ends = [spans[turn - 1]!.to, ...awaits.map((child) => turnsOf(child).at(-1)!.to)];
          expect(spans[turn]!.from).toBeCloseTo(Math.max(...ends) + Math.min(thinkMs, 20_000), 6);
          waits += awaits.length;
        }
      }
    }
  }
  expect(waits).toBe(8);
});

it('goes on with a session whose turn was refused', async () => {
  // The prompts grow beyond what these engines have.
  const { runs } = await report(SAMPLE, '--workers', '1', '--kv-blocks', '30');
  const [one] = runs;
  expect(one!.rejected).toBeGreaterThan(0);
  expect(one!.completed + one!.rejected).toBe(72);
  expect(one!.sessions!.resumed_turns).toBeLessThan(one!.completed);
  // An engine that refuses everything computes nothing of which its events would have to tell: no warning says so.
  const { runs: refused } = await report(SAMPLE, '--workers', '1', '--kv-blocks', '1');
  expect(refused[0]).toMatchObject({ requests: 72, completed: 0, rejected: 72 });
});

const DATA = new URL('../../shared/data/', import.meta.url);
const haveTraces = existsSync(DATA);
describe.skipIf(!haveTraces)(
  `the Claude Code traces${haveTraces ? '' : ' (skipped: ../shared/data, beside the repository, is not there)'}`,
  () => {
    it.each([
      ['claude_code_agentic_traces.jsonl.gz', { lines: 73, sessions: 73, turns: 1590, hit: 0.916 }],
      ['claude_code_subagent_traces.jsonl.gz', { lines: 2, sessions: 7, turns: 295, hit: 0.947 }],
    ])(
      '%s is read whole, with the hit rate of an infinite cache that is known of it',
      async (name, known) => {
        const { lines } = await readSessionTrace(fileURLToPath(new URL(name, DATA)));
        const sessions = lines.flatMap((line) => line.sessions);
        expect([lines.length, sessions.length]).toEqual([known.lines, known.sessions]);
        let turns = 0;
        let hit = 0;
        let tokens = 0;
        for (const line of lines) {
          const cached = new Uint8Array(line.uniqueIds);
          for (const session of line.sessions) {
            for (const { ids, inputTokens } of session.turns) {
              turns += 1;
              tokens += inputTokens;
              for (const id of ids) {
                hit += 64 * cached[id]!;
                cached[id] = 1;
              }
            }
          }
        }
        expect(turns).toBe(known.turns);
        expect(hit / tokens).toBeCloseTo(known.hit, 2);
      },
    );

    it('sub-agents start behind the turn that spawned them, and the turn behind their end waits for them', async () => {
      const file = fileURLToPath(new URL('claude_code_subagent_traces.jsonl.gz', DATA));
      const [first, second] = (await readSessionTrace(file)).lines;
      const awaits = [first!, second!].flatMap(({ sessions }) =>
        sessions[0]!.turns.flatMap((turn, index) => (turn.awaits.length > 0 ? [[index, turn.awaits]] : [])),
      );
      expect(awaits).toEqual([
        [1, [1]],
        [9, [2, 3, 4]],
        [36, [1]],
      ]);
      const starts = [first!, second!].flatMap(({ sessions }) => sessions.slice(1));
      expect(starts.map(({ startsAfter }) => startsAfter)).toEqual([0, 8, 8, 8, 35]);
      for (const { startDelayMs } of starts) expect(startDelayMs).toBeLessThan(1100);
    });
  },
);

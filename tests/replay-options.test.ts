// Options of `pointsman replay` that shape a trace, a fleet and what is measured, on a small trace in this process.
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runCli } from '../src/cli/run.ts';
import { type ReplayReport, type RunReport, readTrace } from '../src/replay/index.ts';
import { promptMs } from '../src/simulator/index.ts';

const SAMPLE = fileURLToPath(new URL('fixtures/mooncake_conversation_sample.jsonl', import.meta.url));
const SESSIONS = fileURLToPath(new URL('fixtures/session_sample.jsonl', import.meta.url));
const BASE = [SAMPLE, '--workers', '4', '--timing', '8b'];
const REQUESTS = 200;

async function run(args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
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

async function report(...args: string[]): Promise<ReplayReport> {
  const { code, err, out } = await run([...args, '--json']);
  expect(err).toBe('');
  expect(code).toBe(0);
  return JSON.parse(out) as ReplayReport;
}

/** The only run. */
async function one(...args: string[]): Promise<RunReport> {
  const [first] = (await report(...args)).runs;
  if (first === undefined) throw new Error('nothing was run');
  return first;
}

describe('parts and pace of a trace', () => {
  it('--skip and --limit take rows from the middle, with times from the first of them', async () => {
    const whole = await report(...BASE, '--limit', '120');
    const head = await report(...BASE, '--limit', '50');
    const tail = await report(...BASE, '--skip', '50', '--limit', '70');
    for (const figure of ['requests', 'input_tokens', 'output_tokens'] as const) {
      expect(head.trace[figure] + tail.trace[figure]).toBe(whole.trace[figure]);
    }
    expect(tail.trace.requests).toBe(70);
    expect(tail.runs[0]).toMatchObject({ requests: 70, completed: 70 });
    const { err } = await run([...BASE, '--skip', String(REQUESTS)]);
    expect(err).toContain(`--skip ${REQUESTS} leaves nothing of`);
  });

  it('--load sets the speed at which prompts without a cache would keep the workers so busy', async () => {
    const trace = await readTrace(SAMPLE);
    const work = trace.inputLengths.reduce((sum, length) => sum + promptMs('8b', length, 8192), 0);
    const duration = trace.arrivals.at(-1) ?? 0;
    for (const load of [0.25, 1.5]) {
      const { settings } = await report(...BASE, '--load', String(load));
      expect(work / (4 * (duration / settings.speedup))).toBeCloseTo(load, 9);
    }
  });

  it('--spread-arrivals moves requests of one time apart, by seed', async () => {
    const figures = async (...options: string[]) => (await one(...BASE, ...options)).ttft_ms;
    const together = await figures();
    const spread = await figures('--spread-arrivals');
    expect(spread.mean).toBeLessThan(together.mean ?? 0);
    expect(await figures('--spread-arrivals')).toEqual(spread);
    expect(await figures('--spread-arrivals', '--seed', '2')).not.toEqual(spread);
  });

  it('--memory sizes caches by the different blocks of what is replayed', async () => {
    const trace = await readTrace(SAMPLE, 150);
    const different = new Set(trace.hashIds.slice(trace.idOffsets[50])).size;
    const { settings } = await report(
      ...[...BASE, '--skip', '50', '--limit', '100', '--memory', '1/2', '--block-size', '128'],
    );
    expect(settings.kv_blocks).toBe(Math.ceil((different * 4) / 2 / 4));
    const { err } = await run([...BASE, '--memory', '0.001']);
    expect(err).toMatch(
      /--memory 0.001 gives each of 4 workers \d+ blocks, but the largest request needs \d+;/,
    );
  });
});

describe('what is measured', () => {
  it('--warm-up leaves the latencies of the first requests out, and nothing else', async () => {
    const all = await one(...BASE);
    const late = await one(...BASE, '--warm-up', '0.5');
    expect({ ...late, ttft_ms: 0, e2e_ms: 0, itl_ms: 0, queue_wait_ms: 0 }).toEqual({
      ...all,
      ttft_ms: 0,
      e2e_ms: 0,
      itl_ms: 0,
      queue_wait_ms: 0,
    });
    for (const figure of ['ttft_ms', 'e2e_ms', 'itl_ms'] as const) {
      expect(late[figure].mean).not.toBe(all[figure].mean);
    }
    expect(await one(...BASE, '--warm-up', '0')).toEqual(all);
  });

  it('--warm-up counts resumed turns of sessions alike, but for their TTFT', async () => {
    const options = [SESSIONS, '--workers', '2', '--copies', '3', '--session-window', '60s', '--memory', '1'];
    const all = await one(...options);
    const late = await one(...options, '--warm-up', '0.5');
    expect(late.sessions?.resumed_turns).toBe(all.sessions?.resumed_turns);
    expect(late.sessions?.resumed_hit_rate_tokens).toBe(all.sessions?.resumed_hit_rate_tokens);
    expect(late.sessions?.resumed_ttft_ms).not.toEqual(all.sessions?.resumed_ttft_ms);
  });

  it('timing profiles tell time of prompt work, and charge more for a heavier model; the default tells none', async () => {
    const [light, heavy] = [await one(...BASE), await one(...BASE, '--timing', '70b')];
    const work = ({ workers }: RunReport): number =>
      workers.reduce((sum, worker) => sum + (worker.prefill_ms ?? 0), 0);
    expect(work(heavy)).toBeGreaterThan(3 * work(light));
    expect(heavy.ttft_ms.mean).toBeGreaterThan(light.ttft_ms.mean ?? 0);
    const plain = await one(...BASE, '--timing', 'default');
    expect(plain.workers.some((worker) => 'prefill_ms' in worker)).toBe(false);
    const { out } = await run(BASE);
    expect(out).toMatch(/^busiest worker \/ mean \(prefill time\) +1\.\d{3}$/m);
  });
});

describe('more than one router', () => {
  it('each hears all events and books only its own requests, so that hits stay and balance goes', async () => {
    const tight = [...BASE, '--load', '0.8', '--spread-arrivals', '--memory', '1'];
    const single = await one(...tight);
    const four = await one(...tight, '--routers', '4');
    expect(four.completed).toBe(REQUESTS);
    expect(await one(...tight, '--routers', '4')).toEqual(four);
    expect(await one(...tight, '--routers', '1')).toEqual(single);
    // What the routers foresee is what engines then have, which takes the events of requests that others sent.
    const { predicted_hit_rate_tokens: foreseen, prefix_hit_rate_tokens: found } = four;
    expect(Math.abs((foreseen ?? 0) - (found ?? 1))).toBeLessThan(0.01);
    expect(found).toBeGreaterThan(0.5 * (single.prefix_hit_rate_tokens ?? 1));
    expect(four.ttft_ms.mean).toBeGreaterThan(single.ttft_ms.mean ?? Number.POSITIVE_INFINITY);
  });

  it('hear bytes and decoded events alike, late or not', async () => {
    const routed = [SAMPLE, '--workers', '3', '--timing', '8b', '--routers', '2', '--load', '0.5'];
    const late = ['--event-faults', 'delay=200ms', '--no-event-replay'];
    expect(await one(...routed)).toEqual(await one(...routed, '--encoded-events'));
    const delayed = await one(...routed, ...late);
    expect(delayed).toEqual(await one(...routed, ...late, '--encoded-events'));
    expect(delayed.events).toMatchObject({ stale_workers: [], missed_batches: 0 });
    expect(delayed.events?.misprediction_rate_tokens).toBeGreaterThan(0);
  });
});

describe('links between engines', () => {
  it('--nic-gbps makes copies slower', async () => {
    const fetching = [...BASE, '--load', '0.5', '--memory', '1', '--compare', 'examples/kv-fetch.yaml'];
    const [slow, fast] = [
      await one(...fetching, '--nic-gbps', '2'),
      await one(...fetching, '--nic-gbps', '400'),
    ];
    expect(fast.hints.fetched_blocks).toBeGreaterThan(0);
    expect(slow.ttft_ms.mean).toBeGreaterThan(fast.ttft_ms.mean ?? Number.POSITIVE_INFINITY);
    expect(await one(...fetching)).toEqual(await one(...fetching, '--nic-gbps', '100'));
  });
});

describe('refusals', () => {
  it.each([
    [['--load', '0.5', '--speedup', '2'], '--load and --speedup say the same; give one of them'],
    [['--memory', '1', '--kv-blocks', '500'], '--memory and --kv-blocks say the same; give one of them'],
    [['--load', '0'], '--load is 0; it must be a number above 0, at most 1000'],
    [
      ['--load', '0.5', '--timing', 'none'],
      '--load counts time of prompts, which take none under --timing none',
    ],
    [['--load', '0.5', '--limit', '1'], 'whose requests all come at one time'],
    [['--skip', '1.5'], '--skip is 1.5; it must be a whole number from 0'],
    [['--warm-up', '1'], '--warm-up is 1; it must be a number from 0, below 1'],
    [['--warm-up', '2'], 'It must be a number from 0 to 1.'],
    [['--routers', '0'], '--routers is 0; it must be a whole number from 1 to 64'],
    [['--nic-gbps', '0'], '--nic-gbps is 0; it must be a number above 0, at most 1000000000'],
    [['--memory', '5000'], '--memory is 5000; it must be a number above 0, at most 1000'],
  ])('%j', async (options, message) => {
    const { code, err } = await run([...BASE, ...options]);
    expect(code).not.toBe(0);
    expect(err).toContain(message);
  });
});

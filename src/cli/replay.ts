// `pointsman replay`: runs a trace against simulated engines in virtual time, once per compared routing.
import type { Command } from 'commander';
import { encodeEventBatch } from '../events/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import {
  checkReplaySettings,
  parseCompare,
  type ReplaySettings,
  readTrace,
  rejectionLines,
  replay,
  reportTable,
} from '../replay/index.ts';
import { type EngineRestart, type EventFaultSettings, HANDOFF_KINDS } from '../simulator/index.ts';
import { EVENT_FAULTS_HELP, engineRestarts, eventFaults, RESTART_HELP } from './fault-options.ts';
import { actionNames } from './option-values.ts';
import { type CliIo, writeJson } from './output.ts';
import { replayProgress } from './replay-progress.ts';
import { replayRouters } from './replay-router.ts';

interface ReplayFlags {
  readonly workers: string;
  readonly prefillWorkers?: string;
  readonly decodeWorkers?: string;
  readonly handoff: string;
  readonly blockSize: string;
  readonly kvBlocks: string;
  readonly hostKvBlocks: string;
  readonly hostGbps: string;
  readonly timing: string;
  readonly model: string;
  readonly speedup: string;
  readonly limit?: string;
  readonly seed: string;
  readonly compare: string;
  readonly fastEvents?: true;
  readonly cutEvents?: true;
  readonly eventReplay: boolean;
  readonly eventFaults?: EventFaultSettings;
  readonly restartEngine?: readonly EngineRestart[];
  readonly acceptAction?: readonly string[];
  readonly json?: true;
}

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('replay')
    .description('run a trace against simulated engines in virtual time; one column per routing')
    .argument('<trace>', 'Mooncake JSONL file (512-token hash_ids), plain or .gz')
    .option('--workers <n>', 'simulated workers', '8')
    .option(
      '--prefill-workers <n>',
      'workers that only compute prompts; with --decode-workers, in place of --workers',
    )
    .option('--decode-workers <n>', 'workers that only decode')
    .option('--handoff <kind>', 'how KV is handed over: nixl, nixl_push, mooncake or bootstrap', 'nixl')
    .option('--block-size <tokens>', "tokens per KV block; divides the trace's 512", '512')
    .option('--kv-blocks <n>', 'KV blocks per worker, or unlimited', '16384')
    .option('--host-kv-blocks <n>', 'blocks of host memory per worker, behind its KV blocks', '0')
    .option('--host-gbps <x>', 'link from host memory to the device, Gbit/s', '504')
    .option(
      '--timing <model>',
      'default, or none: each request is finished before the next arrives',
      'default',
    )
    .option('--model <model>', 'engine, or block-list: every trace id is a full block, no outputs', 'engine')
    .option('--speedup <x>', "divides the trace's arrival times", '1')
    .option('--limit <n>', 'only the first n requests')
    .option('--seed <s>', 'seed of every random choice, from 1', '1')
    .option(
      '--compare <names>',
      'kv, round-robin, random, power-of-two, least-loaded or policy files (.yaml)',
      'kv',
    )
    .option('--fast-events', 'hand KV events over decoded, not as encoded bytes; the report is the same')
    .option('--cut-events', 'lose all KV events: what the router does when the event stream is cut')
    .option('--event-faults <list>', EVENT_FAULTS_HELP, eventFaults)
    .option('--restart-engine <worker@time>', RESTART_HELP, engineRestarts)
    .option('--no-event-replay', 'the engines repeat no events that were missed')
    .option(
      '--accept-action <type@version>',
      'the engines take this hint action too, and do nothing for it; may be given again',
      actionNames,
    )
    .option('--json', 'the report as JSON on stdout')
    .addHelpText(
      'after',
      `
Hit rates are what the engines report as cached; the router's own prediction stands beside. Percentiles are nearest-rank,
exact to 0.007 %. Everything outside "wall" is the same for the same trace, options and seed. A policy that fails, or whose
actions the engines reject, is counted in the table (policy_faults and hints in the JSON), and stderr says why.

A line of a trace, times in ms: {"timestamp": 0, "input_length": 1000, "output_length": 64, "hash_ids": [1, 2]}; one id per
512 tokens, equal ids are equal blocks. It may name its session: "session_id": "s1", or "session_context" with session_id,
parent_session_id, session_final, input_trigger and agent_headers. Other fields are ignored.

Examples:
  $ pointsman replay conversation_trace.jsonl.gz --compare round-robin,kv
  $ pointsman replay trace.jsonl --workers 4 --kv-blocks 5000 --speedup 8 --compare kv,policy.yaml --json
  $ pointsman replay trace.jsonl --prefill-workers 4 --decode-workers 4 --compare kv,conditional.yaml
  $ pointsman replay trace.jsonl --event-faults drop=0.3,duplicate=0.05,reorder=0.05 --restart-engine 2@10m
  $ pointsman replay trace.jsonl --timing none --model block-list --kv-blocks unlimited --compare round-robin`,
    )
    .action((trace: string, flags: ReplayFlags) => runReplay(trace, flags, io));
}

async function runReplay(file: string, flags: ReplayFlags, io: CliIo): Promise<void> {
  const settings = readSettings(flags);
  checkReplaySettings(settings);
  const runs = parseCompare(flags.compare);
  const trace = await readTrace(file, settings.limit);
  const interrupt = new AbortController();
  const onSignal = (): void => {
    interrupt.abort(
      new PointsmanError('PM_REPLAY_INTERRUPTED', 'the replay was interrupted; there is no report'),
    );
  };
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const progress = replayProgress(io);
  try {
    const report = await replay({
      trace,
      settings,
      runs,
      fastEvents: flags.fastEvents === true,
      compose: replayRouters(
        (source, problem) => io.err(`warning: ${source.render(problem)}\n`),
        (run, line) => {
          progress.clear();
          io.err(`warning: ${run}: ${line}\n`);
        },
      ),
      hasher: createBlockHasher(),
      encode: encodeEventBatch,
      wallClock: () => performance.now(),
      progress: progress.update,
      signal: interrupt.signal,
    });
    progress.clear();
    for (const line of rejectionLines(report)) io.err(`warning: ${line}\n`);
    if (flags.json) writeJson(io, report);
    else io.out(`${reportTable(report)}\n`);
  } finally {
    progress.clear();
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

function readSettings(flags: ReplayFlags): ReplaySettings {
  const hostBlocks = numberOf('--host-kv-blocks', flags.hostKvBlocks);
  const hostGbps = numberOf('--host-gbps', flags.hostGbps);
  const divided = readDivision(flags);
  return {
    workers: divided === null ? numberOf('--workers', flags.workers) : divided.workers,
    ...divided,
    block_size: numberOf('--block-size', flags.blockSize),
    kv_blocks: flags.kvBlocks === 'unlimited' ? 'unlimited' : numberOf('--kv-blocks', flags.kvBlocks),
    timing: oneOf('--timing', flags.timing, ['default', 'none']),
    model: oneOf('--model', flags.model, ['engine', 'block-list']),
    speedup: numberOf('--speedup', flags.speedup),
    limit: flags.limit === undefined ? null : numberOf('--limit', flags.limit),
    seed: numberOf('--seed', flags.seed),
    cut_events: flags.cutEvents === true,
    ...(flags.eventReplay ? {} : { event_replay: false }),
    ...(hostBlocks > 0 && { host_kv_blocks: hostBlocks, host_gbps: hostGbps }),
    ...(flags.eventFaults && { event_faults: faultSettings(flags.eventFaults) }),
    ...(flags.restartEngine && {
      restart_engines: flags.restartEngine.map(({ atMs, worker }) => ({ worker, at_ms: atMs })),
    }),
    ...(flags.acceptAction && { accept_actions: flags.acceptAction }),
  };
}

/** Null = every worker serves whole requests. */
function readDivision({
  decodeWorkers,
  handoff,
  prefillWorkers,
}: ReplayFlags): Pick<ReplaySettings, 'workers' | 'prefill_workers' | 'decode_workers' | 'handoff'> | null {
  if (prefillWorkers === undefined && decodeWorkers === undefined) return null;
  if (prefillWorkers === undefined || decodeWorkers === undefined) {
    throw new PointsmanError('PM_USAGE', '--prefill-workers and --decode-workers are given together');
  }
  const prefill = numberOf('--prefill-workers', prefillWorkers);
  const decode = numberOf('--decode-workers', decodeWorkers);
  return {
    workers: prefill + decode,
    prefill_workers: prefill,
    decode_workers: decode,
    handoff: oneOf('--handoff', handoff, HANDOFF_KINDS),
  };
}

function faultSettings({
  delayMs,
  ...shares
}: EventFaultSettings): NonNullable<ReplaySettings['event_faults']> {
  return { ...shares, delay_ms: delayMs };
}

function numberOf(option: string, text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new PointsmanError('PM_USAGE', `${option} takes a number, not ${JSON.stringify(text)}`);
}

function oneOf<T extends string>(option: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === text);
  if (found !== undefined) return found;
  throw new PointsmanError(
    'PM_USAGE',
    `${option} takes ${allowed.join(' or ')}, not ${JSON.stringify(text)}`,
  );
}

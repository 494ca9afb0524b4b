// `pointsman replay`: runs a trace against simulated engines in virtual time, once per compared routing.
import { type Command, Option } from 'commander';
import { encodeEventBatch } from '../events/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import {
  checkReplaySettings,
  parseCompare,
  REPLAY_MODES,
  REPLAY_POLICIES,
  type ReplaySettings,
  readSessionTrace,
  readTrace,
  rejectionLines,
  replay,
  reportTable,
  traceFormatOf,
} from '../replay/index.ts';
import { EVENT_FAULTS_HELP, engineRestarts, eventFaults, RESTART_HELP } from './fault-options.ts';
import { actionNames, duration, oneOf, share, shareOfWhole } from './option-values.ts';
import { type CliIo, writeJson } from './output.ts';
import { replayProgress } from './replay-progress.ts';
import { replayRouters } from './replay-router.ts';
import { type ReplayFlags, readSettings } from './replay-settings.ts';

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('replay')
    .description('run a trace against simulated engines in virtual time; one column per routing')
    .argument('<trace>', 'Mooncake JSONL file (512-token hash_ids) or session trace, plain or .gz')
    .option('--workers <n>', 'simulated workers (default: 8)')
    .option(
      '--prefill-workers <n>',
      'workers that only compute prompts; with --decode-workers, in place of --workers',
    )
    .option('--decode-workers <n>', 'workers that only decode')
    .option('--handoff <kind>', 'how KV is handed over: nixl (default), nixl_push, mooncake or bootstrap')
    .option(
      '--block-size <tokens>',
      "tokens per KV block; fits the trace's, which is the default: 512, of sessions 64",
    )
    .option('--kv-blocks <n>', 'KV blocks per worker, or unlimited (default: 16384)')
    .option('--host-kv-blocks <n>', 'blocks of host memory per worker, behind its KV blocks (default: 0)')
    .option('--host-gbps <x>', 'link from host memory to the device, Gbit/s (default: 504)')
    .option(
      '--timing <model>',
      "default (the Dynamo mocker's), 8b, 70b or smg (which also charge attention over cached tokens), or none: each request is finished before the next arrives",
      'default',
    )
    .option('--model <model>', 'engine, or block-list: every trace id is a full block, no outputs', 'engine')
    .option('--nic-gbps <x>', 'link of an engine to its peers, Gbit/s (default: 100)')
    .option('--speedup <x>', "divides the trace's arrival times (default: 1)")
    .option(
      '--load <u>',
      'requests: the speedup at which computing all prompts would keep the workers busy for the share u of the time',
    )
    .option('--spread-arrivals', 'requests: those of one time come at random times before the next')
    .option(
      '--warm-up <share>',
      'latencies of the first requests, this share of all, do not count',
      shareOfWhole,
    )
    .option(
      '--routers <n>',
      'routers that share nothing but events and get the requests in turn (default: 1)',
    )
    .option('--skip <n>', 'requests: leave out the first n of the trace')
    .option(
      '--limit <n>',
      'only the first n requests (behind those left out), or the first n lines of a session trace',
    )
    .option('--format <kind>', 'auto, mooncake or sessions', oneOf(['auto', 'mooncake', 'sessions']), 'auto')
    .option('--copies <n>', 'sessions: copies of each, with blocks of their own (default: 1)')
    .option(
      '--session-window <time>',
      'sessions: they start at random within so long (default: 5400s)',
      duration,
    )
    .option('--think-cap <time>', 'sessions: no think time is longer (default: 3600s)', duration)
    .option('--max-context <tokens>', 'sessions: leave out those with a longer prompt')
    .option(
      '--memory <ratio>',
      'KV blocks of all workers, of sessions in peak live working sets, else in different blocks of the trace: 0.5, 1/3',
      share,
    )
    .option('--host-memory <ratio>', 'sessions: blocks of host memory likewise', share)
    .option('--seed <s>', 'seed of every random choice, from 1', '1')
    .option(
      '--compare <names>',
      `${[...REPLAY_MODES, ...REPLAY_POLICIES].join(', ')} or policy files (.yaml); several with commas`,
      'kv',
    )
    .option('--encoded-events', 'hand KV events over as encoded bytes, as on a wire; the report is the same')
    .addOption(new Option('--fast-events', 'the default now: KV events are handed over decoded').hideHelp())
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
actions the engines reject, is counted in the table (policy_faults and hints in the JSON), and stderr says why. Actions count by
what became of them in the end; deferred ones are those that nothing was told of any more.

A line of a trace, times in ms: {"timestamp": 0, "input_length": 1000, "output_length": 64, "hash_ids": [1, 2]}; one id per
512 tokens, equal ids are equal blocks. It may name its session: "session_id": "s1", or "session_context" with session_id,
parent_session_id, session_final, input_trigger and agent_headers. Other fields are ignored.

A line of a session trace is a session with its sub-agents, as in kv-cache-tester's files: {"id": "s1", "block_size": 64, "requests":
[{"t": 0, "type": "n", "in": 130, "out": 20, "hash_ids": [1, 2], "api_time": 2.5}, …]}. Its next turn is sent when the answer to the
last one is complete and its think time is over, or its sub-agents are done. docs/session-traces.md says more.

Examples:
  $ pointsman replay conversation_trace.jsonl.gz --compare round-robin,kv
  $ pointsman replay trace.jsonl --workers 4 --kv-blocks 5000 --speedup 8 --compare kv,policy.yaml --json
  $ pointsman replay trace.jsonl --prefill-workers 4 --decode-workers 4 --compare kv,conditional.yaml
  $ pointsman replay sessions.jsonl.gz --workers 4 --copies 3 --max-context 260000 --memory 1/2 --compare kv,policy.yaml
  $ pointsman replay trace.jsonl --timing 8b --load 0.9 --memory 1/2 --spread-arrivals --warm-up 0.1 --compare kv,pointsman-expected-time
  $ pointsman replay trace.jsonl --routers 2 --event-faults delay=200ms --no-event-replay
  $ pointsman replay trace.jsonl --event-faults drop=0.3,duplicate=0.05,reorder=0.05 --restart-engine 2@10m
  $ pointsman replay trace.jsonl --timing none --model block-list --kv-blocks unlimited --compare round-robin`,
    )
    .action((trace: string, flags: ReplayFlags) => runReplay(trace, flags, io));
}

async function runReplay(file: string, flags: ReplayFlags, io: CliIo): Promise<void> {
  const runs = parseCompare(flags.compare);
  const format = flags.format === 'auto' ? await traceFormatOf(file) : flags.format;
  const settings = readSettings(flags, format);
  checkReplaySettings(settings);
  const trace = await (format === 'sessions' ? readSessionTrace : readTrace)(file, linesToRead(settings));
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
      fastEvents: flags.encodedEvents !== true,
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

/** Null = all. */
function linesToRead({ limit, skip = 0 }: ReplaySettings): number | null {
  return limit === null ? null : limit + skip;
}

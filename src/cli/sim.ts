// `pointsman sim`: simulated engines in a process of their own. The first line on stdout tells their addresses as JSON.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { applyOverrides, defaultConfig, overridesFromEnv } from '../config/index.ts';
import { createBlockHasher } from '../kv/index.ts';
import { PointsmanError } from '../plugin/index.ts';
import {
  DEFAULT_ENGINE_SETTINGS,
  DEFAULT_EVENT_HISTORY,
  DEFAULT_SIM_BODY_BYTES,
  DOUBLE_FAULT_NAMES,
  type DoubleFaults,
  type DoubleHints,
  type EngineRestart,
  type EventFaultSettings,
  HANDOFF_KINDS,
  type HandoffKind,
  MAX_EVENT_HISTORY,
  MAX_SIMULATORS,
  type RunningSimulators,
  type SimulatedRole,
  startSimulators,
  TIMING_NAMES,
  type TimingName,
} from '../simulator/index.ts';
import { EVENT_FAULTS_HELP, engineRestarts, eventFaults, RESTART_HELP } from './fault-options.ts';
import { createJsonLog } from './json-log.ts';
import { actionNames, notNegative, oneOf, positive, shareOfWhole, wholeNumber } from './option-values.ts';
import type { CliIo } from './output.ts';
import {
  doubleFaults,
  HINT_FORMS,
  refuseForeignOptions,
  SIM_SHAPES,
  type SimShape,
  startDouble,
  WIRES,
} from './sim-doubles.ts';
import { stopSignal } from './stop-signal.ts';
import { systemClock } from './system-clock.ts';

interface SimOptions {
  readonly count: number;
  readonly port: number;
  readonly model: string;
  readonly blockSize: number;
  readonly kvBlocks: number | null;
  readonly hostKvBlocks: number;
  readonly hostGbps: number;
  readonly retainedShare: number;
  readonly hashSeed: number;
  readonly seed: number;
  readonly speed: number;
  readonly timing: TimingName;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly kvBytesPerToken: number;
  readonly nicGbps: number;
  readonly fetchLatencyMs: number;
  readonly fetchReserveTimeoutMs: number;
  readonly fetchTimeoutMs: number;
  readonly role: SimulatedRole;
  readonly handoff: HandoffKind;
  readonly handoffTimeoutMs: number;
  readonly actionSet: boolean;
  readonly acceptAction?: readonly string[];
  readonly eventHistory: number;
  readonly eventReplayFrames: 3 | 4;
  readonly eventFaults?: EventFaultSettings;
  readonly restartEngine?: readonly EngineRestart[];
  readonly bodyBytes: number;
  readonly graceMs: number;
  readonly exitWithParent?: true;
  readonly shape: SimShape;
  readonly hints: DoubleHints;
  readonly eventWire: 'map' | 'array';
  readonly doubleFault?: DoubleFaults;
}

const DEFAULTS = DEFAULT_ENGINE_SETTINGS;
const ROLES: readonly SimulatedRole[] = ['aggregated', 'prefill', 'decode'];
const MAX_SAFE = Number.MAX_SAFE_INTEGER;

/** Adds the command. */
export function register(program: Command, io: CliIo): void {
  program
    .command('sim')
    .description('run simulated engines: vLLM-shaped HTTP, KV events and hint execution, no GPU')
    .option('--count <n>', 'how many engines', wholeNumber(1, MAX_SIMULATORS), 1)
    .option(
      '--port <port>',
      'HTTP port of the first, the others follow; 0 = any free',
      wholeNumber(0, 65_535),
      0,
    )
    .option('--model <name>', 'model name they serve', 'tiny-sim')
    .option('--block-size <tokens>', 'tokens per KV block', wholeNumber(1, 1_048_576), DEFAULTS.blockSize)
    .option('--kv-blocks <n>', 'KV blocks per engine, or "unlimited"', blocks, DEFAULTS.kvBlocks)
    .option(
      '--host-kv-blocks <n>',
      'blocks of host memory that takes what leaves the KV blocks',
      wholeNumber(0, 67_108_864),
      DEFAULTS.hostKvBlocks,
    )
    .option('--host-gbps <x>', 'link from host memory to the device, Gbit/s', positive, DEFAULTS.hostGbps)
    .option(
      '--retained-share <x>',
      'most of the KV blocks that hints retain',
      shareOfWhole,
      DEFAULTS.retainedShare,
    )
    .option(
      '--hash-seed <n>',
      'seed of the engines’ block hashes',
      wholeNumber(0, MAX_SAFE),
      DEFAULTS.hashSeed,
    )
    .option('--seed <n>', 'seed of the synthetic answers', wholeNumber(0, MAX_SAFE), DEFAULTS.seed)
    .option('--speed <x>', 'how many times faster than the modelled GPU', positive, DEFAULTS.speedup)
    .option(
      '--timing <name>',
      '"default", "none" (every pass takes no time), or "8b", "70b" or "smg", which also charge attention over cached tokens',
      oneOf(TIMING_NAMES),
      DEFAULTS.timing,
    )
    .option(
      '--max-num-seqs <n>',
      'requests in the running batch',
      wholeNumber(1, 1_048_576),
      DEFAULTS.maxNumSeqs,
    )
    .option(
      '--max-num-batched-tokens <n>',
      'tokens per pass',
      wholeNumber(1, 1_073_741_824),
      DEFAULTS.maxNumBatchedTokens,
    )
    .option('--kv-bytes-per-token <n>', 'size of a token’s KV', positive, DEFAULTS.kvBytesPerToken)
    .option('--nic-gbps <x>', 'link of each engine for kv.fetch, Gbit/s', positive, DEFAULTS.nicGbps)
    .option('--fetch-latency-ms <ms>', 'fixed part of a transfer', notNegative, DEFAULTS.fetchLatencyMs)
    .option(
      '--fetch-reserve-timeout-ms <ms>',
      'wait for a source’s answer',
      positive,
      DEFAULTS.fetchReserveTimeoutMs,
    )
    .option('--fetch-timeout-ms <ms>', 'wait for a whole fetch', positive, DEFAULTS.fetchTimeoutMs)
    .option('--role <role>', 'aggregated, prefill or decode', oneOf(ROLES), DEFAULTS.role)
    .option(
      '--handoff <kind>',
      'how computed KV is handed over: nixl, nixl_push, mooncake or bootstrap',
      oneOf(HANDOFF_KINDS),
      DEFAULTS.handoff,
    )
    .option(
      '--handoff-timeout-ms <ms>',
      'wait for the other side of a handoff',
      positive,
      DEFAULTS.handoffTimeoutMs,
    )
    .option('--no-action-set', 'do not advertise which hint actions are understood')
    .option(
      '--accept-action <type@version>',
      'advertise this hint action too and answer it "accepted", without doing anything; may be given again',
      actionNames,
    )
    .option(
      '--event-history <batches>',
      'KV event batches kept for subscribers that missed some; 0 = no replay',
      wholeNumber(0, MAX_EVENT_HISTORY),
      DEFAULT_EVENT_HISTORY,
    )
    .option(
      '--event-replay-frames <n>',
      'frames of a replayed batch: 4 as current vLLM, 3 without the topic as older engines',
      replayFrames,
      4,
    )
    .option('--event-faults <list>', EVENT_FAULTS_HELP, eventFaults)
    .option('--restart-engine <worker@time>', RESTART_HELP, engineRestarts)
    .option(
      '--body-bytes <n>',
      'largest request body',
      wholeNumber(1024, 1_073_741_824),
      DEFAULT_SIM_BODY_BYTES,
    )
    .option('--grace-ms <ms>', 'time for running requests at SIGTERM', wholeNumber(0, 3_600_000), 30_000)
    .option(
      '--shape <name>',
      'the server that is played: sim, or as they are vllm, sglang or llamacpp, which take their own arguments behind --',
      oneOf(SIM_SHAPES),
      'sim',
    )
    .option(
      '--hints <form>',
      'vllm, sglang: hints that its tier reads: none, envelope or legacy',
      oneOf(HINT_FORMS),
      'none',
    )
    .option('--event-wire <form>', 'vllm: events as maps (current) or arrays (older)', oneOf(WIRES), 'map')
    .addOption(
      new Option('--double-fault <name>', `one of ${DOUBLE_FAULT_NAMES.join(', ')}; may be given again`)
        .argParser(doubleFaults)
        .hideHelp(),
    )
    .option('--json', 'the address line is JSON with or without it')
    .option('--exit-with-parent', 'end as soon as standard input closes')
    .argument('[serve-arguments...]', 'of the server that is played')
    .addHelpText(
      'after',
      `
The first line on stdout is {"engines":[{"url","kv_events","kv_events_replay","control","model",…}]}; logs go to stderr.
Everything listens on 127.0.0.1. SIGTERM or SIGINT lets running requests finish; a second one ends at once with exit code 1.

Examples:
  $ pointsman sim --count 4
  $ pointsman sim --port 9000 --model my-model --block-size 32 --kv-blocks unlimited
  $ pointsman sim --speed 10 --hash-seed 7 --no-action-set
  $ pointsman sim --accept-action acme.pin@1.0
  $ pointsman sim --role prefill --handoff bootstrap
  $ pointsman sim --shape vllm -- tiny-sim --port 8000 --block-size 16 --enable-prompt-tokens-details
  $ pointsman sim --shape sglang -- --model-path tiny-sim --port 30000 --page-size 16 --enable-cache-report
  $ pointsman sim --shape llamacpp -- -m model.gguf --alias my-model --port 8080 --parallel 4 --ctx-size 65536
  $ pointsman sim --count 2 --event-faults drop=0.3,delay=200ms --restart-engine 2@10m`,
    )
    .action(async (serve: readonly string[], options: SimOptions, command: Command) => {
      const given = Object.keys(options).filter((name) => command.getOptionValueSource(name) === 'cli');
      refuseForeignOptions(options.shape, given);
      return run(io, serve, options);
    });
}

async function run(io: CliIo, serve: readonly string[], options: SimOptions): Promise<void> {
  const { observe } = applyOverrides(defaultConfig().config, overridesFromEnv(io.env));
  const log = createJsonLog(observe.logLevel, { write: (line) => io.err(line) });
  const stop = stopSignal({ exitWithParent: options.exitWithParent === true });
  try {
    const { shape } = options;
    const warn = (problem: string): void => log.warn(problem);
    const simulators = await (shape === 'sim'
      ? startEngines(serve, options, warn)
      : startDouble(shape, serve, { ...options, warn }));
    io.out(`${JSON.stringify({ engines: simulators.engines })}\n`);
    log.info('simulated engines are up', { engines: simulators.engines.length, shape: options.shape });
    const reason = await stop.reason;
    // A parent says so itself, and both lines would stand in one log.
    const level = options.exitWithParent === true ? 'debug' : 'info';
    log[level]('stopping: requests under way may finish; a second signal ends at once', { reason });
    await simulators.close(reason === 'parent' ? 0 : options.graceMs);
  } finally {
    stop.dispose();
  }
}

async function startEngines(
  serve: readonly string[],
  options: SimOptions,
  warn: (problem: string) => void,
): Promise<RunningSimulators> {
  if (serve.length > 0) {
    throw new PointsmanError(
      'PM_SIM_SETTINGS',
      `arguments behind -- are those of a played server; give --shape vllm, sglang or llamacpp, or leave out ${serve[0]}`,
    );
  }
  return startSimulators({
    count: options.count,
    port: options.port,
    hasher: createBlockHasher(),
    clock: systemClock(),
    maxBodyBytes: options.bodyBytes,
    eventHistory: options.eventHistory,
    eventReplayFrames: options.eventReplayFrames,
    eventFaults: options.eventFaults ?? null,
    restarts: options.restartEngine ?? [],
    warn,
    settings: {
      ...DEFAULTS,
      model: options.model,
      blockSize: options.blockSize,
      kvBlocks: options.kvBlocks,
      hostKvBlocks: options.hostKvBlocks,
      hostGbps: options.hostGbps,
      retainedShare: options.retainedShare,
      hashSeed: options.hashSeed,
      seed: options.seed,
      speedup: options.speed,
      timing: options.timing,
      maxNumSeqs: options.maxNumSeqs,
      maxNumBatchedTokens: options.maxNumBatchedTokens,
      kvBytesPerToken: options.kvBytesPerToken,
      nicGbps: options.nicGbps,
      fetchLatencyMs: options.fetchLatencyMs,
      fetchReserveTimeoutMs: options.fetchReserveTimeoutMs,
      fetchTimeoutMs: options.fetchTimeoutMs,
      role: options.role,
      handoff: options.handoff,
      handoffTimeoutMs: options.handoffTimeoutMs,
      actions: options.actionSet ? DEFAULTS.actions : null,
      acceptedActions: options.acceptAction ?? [],
    },
  });
}

function blocks(text: string): number | null {
  return text === 'unlimited' ? null : wholeNumber(1, 67_108_864)(text);
}

function replayFrames(text: string): 3 | 4 {
  if (text === '3') return 3;
  if (text === '4') return 4;
  throw new InvalidArgumentError('It must be 3 or 4.');
}

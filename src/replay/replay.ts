// A replay: the same trace once per compared routing, and one report.
import {
  DEFAULT_ENGINE_SETTINGS,
  type SimulatedEngineSettings,
  type SimulatedRole,
  type VirtualFleetOptions,
} from '../simulator/index.ts';
import { type PlannedReplay, planReplay } from './plan-replay.ts';
import { invalid, requireWhole } from './replay-settings.ts';
import { checkRequestSettings } from './request-settings.ts';
import { type PreparedRun, prepareRun, type RunOptions } from './run.ts';
import { checkSessionSettings } from './session-settings.ts';
import type { SessionTrace } from './session-trace.ts';
import { TRACE_BLOCK_SIZE, type Trace } from './trace.ts';
import type {
  ComposeReplayRouter,
  ReplayReport,
  ReplaySettings,
  RoutingChoice,
  RunReport,
  RunWall,
} from './types.ts';

/** Workers of one replay. */
export const MAX_WORKERS = 10_000;

/** What a replay needs. */
export interface ReplayOptions {
  readonly trace: Trace | SessionTrace;
  readonly settings: ReplaySettings;
  readonly runs: readonly { readonly name: string; readonly choice: RoutingChoice }[];
  readonly fastEvents: boolean;
  readonly compose: ComposeReplayRouter;
  readonly hasher: VirtualFleetOptions['hasher'];
  readonly encode: VirtualFleetOptions['encode'];
  /** The machine's clock in ms, for wall figures only. */
  readonly wallClock: () => number;
  readonly progress: (run: string, done: number, total: number) => void;
  readonly signal: AbortSignal;
}

/**
 * Refuses settings that do not fit together, or do not fit a Mooncake trace where none are for sessions.
 * @throws PM_REPLAY_SETTINGS
 */
export function checkReplaySettings(settings: ReplaySettings): void {
  const { workers, block_size: blockSize } = settings;
  requireWhole('--workers', workers, 1, MAX_WORKERS);
  const { decode_workers: decode, prefill_workers: prefill } = settings;
  if (prefill !== undefined || decode !== undefined) {
    requireWhole('--prefill-workers', prefill ?? 0, 1, MAX_WORKERS);
    requireWhole('--decode-workers', decode ?? 0, 1, MAX_WORKERS);
    if (settings.model !== 'engine') throw invalid('--prefill-workers takes --model engine');
  }
  if (settings.sessions !== undefined) checkSessionSettings(settings, settings.sessions);
  else requireWhole('--block-size', blockSize, 1, TRACE_BLOCK_SIZE);
  if (settings.sessions === undefined && TRACE_BLOCK_SIZE % blockSize !== 0) {
    throw invalid(
      `--block-size ${blockSize} does not divide the trace's block size ${TRACE_BLOCK_SIZE}; blocks of the engine would straddle blocks of the trace, so take 1, 2, 4, … ${TRACE_BLOCK_SIZE}`,
    );
  }
  if (settings.kv_blocks !== 'unlimited') requireWhole('--kv-blocks', settings.kv_blocks, 1, 2 ** 26);
  const { host_gbps: hostGbps = 1, host_kv_blocks: hostBlocks = 0 } = settings;
  requireWhole('--host-kv-blocks', hostBlocks, 0, 2 ** 26);
  if (!(hostGbps > 0 && hostGbps <= 1e9)) {
    throw invalid(`--host-gbps is ${hostGbps}; it must be a number above 0, at most 1000000000`);
  }
  if (hostBlocks > 0 && (settings.kv_blocks === 'unlimited' || settings.model !== 'engine')) {
    throw invalid(
      '--host-kv-blocks takes what leaves the KV blocks; give --kv-blocks a number, and --model engine',
    );
  }
  checkRequestSettings(settings);
  if (settings.limit !== null) requireWhole('--limit', settings.limit, 1, Number.MAX_SAFE_INTEGER);
  requireWhole('--seed', settings.seed, 1, Number.MAX_SAFE_INTEGER);
  if (!(settings.speedup > 0 && settings.speedup <= 1e6)) {
    throw invalid(`--speedup is ${settings.speedup}; it must be a number above 0, at most 1000000`);
  }
  for (const { worker } of settings.restart_engines ?? []) {
    if (worker < 1 || worker > workers) {
      throw invalid(`--restart-engine names worker ${worker}; there are workers 1 to ${workers}`);
    }
  }
  if (settings.model === 'block-list' && settings.timing !== 'none') {
    throw invalid(
      '--model block-list measures cache contents only and knows no time; add --timing none, or take --model engine',
    );
  }
}

/**
 * Runs the trace once per entry of `runs`. Everything outside `wall` is the same for the same trace, settings and names.
 * @throws PM_REPLAY_SETTINGS and what `compose` throws, before anything runs; the signal's reason when it is aborted.
 */
export async function replay(options: ReplayOptions): Promise<ReplayReport> {
  checkReplaySettings(options.settings);
  const planned = planReplay(options.trace, options.settings);
  const { settings } = planned;
  const prepared: PreparedRun[] = [];
  try {
    for (const run of options.runs) prepared.push(await prepareRun(runOptions(options, planned, run)));
    const runs: RunReport[] = [];
    const walls: RunWall[] = [];
    for (let next = prepared[0]; next !== undefined; next = prepared[0]) {
      const { report, wall } = await next.run();
      runs.push(report);
      walls.push(wall);
      // A finished run's fleet is not kept while the others run.
      prepared.shift();
      await next.close();
    }
    return { trace: planned.described, settings, runs, wall: { runs: walls } };
  } finally {
    for (const run of prepared) await run.close();
  }
}

function runOptions(
  options: ReplayOptions,
  { settings, workload }: PlannedReplay,
  run: ReplayOptions['runs'][number],
): RunOptions {
  const { fastEvents, compose, hasher, encode, wallClock, signal } = options;
  return {
    name: run.name,
    trace: workload,
    choice: run.choice,
    workers: settings.workers,
    ...(settings.prefill_workers !== undefined && { roles: rolesOf(settings) }),
    engine: engineSettings(settings),
    speedup: settings.speedup,
    seed: settings.seed,
    warmUp: settings.warm_up ?? 0,
    routers: settings.routers ?? 1,
    fastEvents,
    cutEvents: settings.cut_events,
    eventFaults: eventFaults(settings),
    // Histories hold the tokens of whole prompts; only a stream that loses something needs one.
    eventReplay:
      settings.event_replay ??
      (settings.event_faults !== undefined || (settings.restart_engines ?? []).length > 0),
    restarts: (settings.restart_engines ?? []).map(({ at_ms, worker }) => ({ atMs: at_ms, worker })),
    compose,
    hasher,
    encode,
    wallClock,
    progress: (done, total) => options.progress(run.name, done, total),
    signal,
  };
}

function rolesOf({ prefill_workers: prefill = 0, workers }: ReplaySettings): readonly SimulatedRole[] {
  return Array.from({ length: workers }, (_, index) => (index < prefill ? 'prefill' : 'decode'));
}

function eventFaults({ event_faults: faults }: ReplaySettings): RunOptions['eventFaults'] {
  if (faults === undefined) return null;
  const { delay_ms: delayMs, ...shares } = faults;
  return { ...shares, delayMs };
}

function engineSettings(settings: ReplaySettings): SimulatedEngineSettings {
  return {
    ...DEFAULT_ENGINE_SETTINGS,
    blockSize: settings.block_size,
    kvBlocks: settings.kv_blocks === 'unlimited' ? null : settings.kv_blocks,
    hostKvBlocks: settings.host_kv_blocks ?? 0,
    hostGbps: settings.host_gbps ?? DEFAULT_ENGINE_SETTINGS.hostGbps,
    timing: settings.timing,
    nicGbps: settings.nic_gbps ?? DEFAULT_ENGINE_SETTINGS.nicGbps,
    cacheModel: settings.model,
    handoff: settings.handoff ?? DEFAULT_ENGINE_SETTINGS.handoff,
    acceptedActions: settings.accept_actions ?? [],
    seed: settings.seed,
  };
}

// The options of `pointsman replay` as settings.
import { PointsmanError } from '../plugin/index.ts';
import type { ReplaySettings, SessionReplaySettings, TraceFormat } from '../replay/index.ts';
import {
  type EngineRestart,
  type EventFaultSettings,
  HANDOFF_KINDS,
  TIMING_NAMES,
} from '../simulator/index.ts';

/** What a block is unless the options say otherwise: what an id of the trace stands for. */
const BLOCK_SIZE: Readonly<Record<TraceFormat, number>> = { mooncake: 512, sessions: 64 };
const WORKERS = '8';
const KV_BLOCKS = '16384';
const HOST_GBPS = '504';
const SESSION_WINDOW_MS = 5_400_000;
const THINK_CAP_MS = 3_600_000;

/** The options as commander gives them. */
export interface ReplayFlags {
  readonly workers?: string;
  readonly prefillWorkers?: string;
  readonly decodeWorkers?: string;
  readonly handoff?: string;
  readonly blockSize?: string;
  readonly kvBlocks?: string;
  readonly hostKvBlocks?: string;
  readonly hostGbps?: string;
  readonly timing: string;
  readonly model: string;
  readonly speedup?: string;
  readonly load?: string;
  readonly skip?: string;
  readonly spreadArrivals?: true;
  readonly warmUp?: number;
  readonly routers?: string;
  readonly nicGbps?: string;
  readonly limit?: string;
  readonly seed: string;
  readonly compare: string;
  readonly format: 'auto' | TraceFormat;
  readonly copies?: string;
  readonly sessionWindow?: number;
  readonly thinkCap?: number;
  readonly maxContext?: string;
  readonly memory?: number;
  readonly hostMemory?: number;
  readonly encodedEvents?: true;
  readonly cutEvents?: true;
  readonly eventReplay: boolean;
  readonly eventFaults?: EventFaultSettings;
  readonly restartEngine?: readonly EngineRestart[];
  readonly acceptAction?: readonly string[];
  readonly json?: true;
}

/**
 * Reads them for a kind of trace.
 * @throws PM_USAGE for a value that cannot be read, and for options that exclude each other or do not go with that kind.
 */
export function readSettings(flags: ReplayFlags, format: TraceFormat): ReplaySettings {
  const hostBlocks = numberOf('--host-kv-blocks', flags.hostKvBlocks ?? '0');
  const hostGbps = numberOf('--host-gbps', flags.hostGbps ?? HOST_GBPS);
  if (flags.hostGbps !== undefined && hostBlocks === 0 && flags.hostMemory === undefined) {
    throw new PointsmanError('PM_USAGE', '--host-gbps goes with --host-kv-blocks or --host-memory');
  }
  const divided = readDivision(flags);
  return {
    workers: divided === null ? numberOf('--workers', flags.workers ?? WORKERS) : divided.workers,
    ...divided,
    block_size:
      flags.blockSize === undefined ? BLOCK_SIZE[format] : numberOf('--block-size', flags.blockSize),
    kv_blocks:
      flags.kvBlocks === 'unlimited' ? 'unlimited' : numberOf('--kv-blocks', flags.kvBlocks ?? KV_BLOCKS),
    timing: oneOf('--timing', flags.timing, TIMING_NAMES),
    model: oneOf('--model', flags.model, ['engine', 'block-list']),
    speedup: numberOf('--speedup', flags.speedup ?? '1'),
    limit: flags.limit === undefined ? null : numberOf('--limit', flags.limit),
    seed: numberOf('--seed', flags.seed),
    cut_events: flags.cutEvents === true,
    ...(flags.eventReplay ? {} : { event_replay: false }),
    ...(hostBlocks > 0 && { host_kv_blocks: hostBlocks, host_gbps: hostGbps }),
    ...(flags.hostMemory !== undefined && flags.hostGbps !== undefined && { host_gbps: hostGbps }),
    ...(flags.eventFaults && { event_faults: faultSettings(flags.eventFaults) }),
    ...(flags.restartEngine && {
      restart_engines: flags.restartEngine.map(({ atMs, worker }) => ({ worker, at_ms: atMs })),
    }),
    ...(flags.acceptAction && { accept_actions: flags.acceptAction }),
    ...(flags.warmUp !== undefined && { warm_up: flags.warmUp }),
    ...(flags.routers !== undefined && { routers: numberOf('--routers', flags.routers) }),
    ...(flags.nicGbps !== undefined && { nic_gbps: numberOf('--nic-gbps', flags.nicGbps) }),
    ...(format === 'sessions' ? { sessions: readSessions(flags) } : readRequests(flags)),
  };
}

function readSessions(flags: ReplayFlags): SessionReplaySettings {
  const { copies = '1', hostMemory, maxContext, memory } = flags;
  requireNoRequests(flags);
  if (memory !== undefined && flags.kvBlocks !== undefined) throw notBoth('--memory', '--kv-blocks');
  if (hostMemory !== undefined && flags.hostKvBlocks !== undefined) {
    throw notBoth('--host-memory', '--host-kv-blocks');
  }
  return {
    copies: numberOf('--copies', copies),
    window_ms: flags.sessionWindow ?? SESSION_WINDOW_MS,
    think_cap_ms: flags.thinkCap ?? THINK_CAP_MS,
    max_context: maxContext === undefined ? null : numberOf('--max-context', maxContext),
    ...(memory !== undefined && { memory }),
    ...(hostMemory !== undefined && { host_memory: hostMemory }),
  };
}

function readRequests(
  flags: ReplayFlags,
): Pick<ReplaySettings, 'load' | 'memory' | 'skip' | 'spread_arrivals'> {
  requireNoSessions(flags);
  const { kvBlocks, load, memory, skip, speedup } = flags;
  if (load !== undefined && speedup !== undefined) throw notBoth('--load', '--speedup');
  if (memory !== undefined && kvBlocks !== undefined) throw notBoth('--memory', '--kv-blocks');
  return {
    ...(load !== undefined && { load: numberOf('--load', load) }),
    ...(memory !== undefined && { memory }),
    ...(skip !== undefined && { skip: numberOf('--skip', skip) }),
    ...(flags.spreadArrivals && { spread_arrivals: true }),
  };
}

function requireNoRequests(flags: ReplayFlags): void {
  const given = [
    ['--load', flags.load],
    ['--skip', flags.skip],
    ['--spread-arrivals', flags.spreadArrivals],
  ].find(([, value]) => value !== undefined);
  if (given === undefined) return;
  throw new PointsmanError(
    'PM_USAGE',
    `${given[0]} goes with traces of requests at their own times; this one holds sessions`,
  );
}

function requireNoSessions(flags: ReplayFlags): void {
  const given = [
    ['--copies', flags.copies],
    ['--session-window', flags.sessionWindow],
    ['--think-cap', flags.thinkCap],
    ['--max-context', flags.maxContext],
    ['--host-memory', flags.hostMemory],
  ].find(([, value]) => value !== undefined);
  if (given === undefined) return;
  throw new PointsmanError(
    'PM_USAGE',
    `${given[0]} goes with session traces; this one holds requests at their own times`,
  );
}

function notBoth(one: string, other: string): PointsmanError {
  return new PointsmanError('PM_USAGE', `${one} and ${other} say the same; give one of them`);
}

/** Null = every worker serves whole requests. */
function readDivision({
  decodeWorkers,
  handoff,
  prefillWorkers,
  workers,
}: ReplayFlags): Pick<ReplaySettings, 'workers' | 'prefill_workers' | 'decode_workers' | 'handoff'> | null {
  if (prefillWorkers === undefined && decodeWorkers === undefined) {
    if (handoff === undefined) return null;
    throw new PointsmanError(
      'PM_USAGE',
      '--handoff goes with --prefill-workers and --decode-workers; without them nothing is handed over',
    );
  }
  if (prefillWorkers === undefined || decodeWorkers === undefined) {
    throw new PointsmanError('PM_USAGE', '--prefill-workers and --decode-workers are given together');
  }
  if (workers !== undefined) {
    throw new PointsmanError(
      'PM_USAGE',
      '--prefill-workers and --decode-workers take the place of --workers; leave --workers out',
    );
  }
  const prefill = numberOf('--prefill-workers', prefillWorkers);
  const decode = numberOf('--decode-workers', decodeWorkers);
  return {
    workers: prefill + decode,
    prefill_workers: prefill,
    decode_workers: decode,
    handoff: oneOf('--handoff', handoff ?? 'nixl', HANDOFF_KINDS),
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
  const what = text.startsWith('-') ? 'a number that is not negative' : 'a number';
  throw new PointsmanError('PM_USAGE', `${option} takes ${what}, not ${JSON.stringify(text)}`);
}

function oneOf<T extends string>(option: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === text);
  if (found !== undefined) return found;
  throw new PointsmanError(
    'PM_USAGE',
    `${option} takes ${allowed.join(' or ')}, not ${JSON.stringify(text)}`,
  );
}

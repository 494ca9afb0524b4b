// Makes of a trace and its settings what runs: the sessions drawn, and memory as numbers of blocks.

import { DEFAULT_ENGINE_SETTINGS } from '../simulator/index.ts';
import { invalid } from './replay-settings.ts';
import { planSessions, type SessionPlan } from './session-plan.ts';
import { checkBlockSizes } from './session-settings.ts';
import type { SessionTrace } from './session-trace.ts';
import {
  blocksPerId,
  differentBlocks,
  largestRequest,
  offeredLoad,
  spreadArrivals,
  withoutFirst,
} from './shape-trace.ts';
import { TRACE_BLOCK_SIZE, type Trace } from './trace.ts';
import type { ReplayReport, ReplaySettings, SessionReplaySettings } from './types.ts';
import { measureWorkingSet } from './working-set.ts';

/** Blocks of one worker. */
const MAX_KV_BLOCKS = 2 ** 26;

/** What every run of a replay gets. */
export interface PlannedReplay {
  readonly workload: Trace | SessionPlan;
  /** With memory in blocks. */
  readonly settings: ReplaySettings;
  readonly described: ReplayReport['trace'];
}

/** @throws PM_REPLAY_SETTINGS when the settings do not fit the trace. */
export function planReplay(trace: Trace | SessionTrace, settings: ReplaySettings): PlannedReplay {
  const { sessions } = settings;
  if (trace.kind === 'requests') {
    if (sessions === undefined) return planRequests(trace, settings);
    throw invalid(
      `${trace.name} holds requests at their own times; the options of sessions do not go with it`,
    );
  }
  if (sessions === undefined) {
    throw invalid(`${trace.name} holds sessions; a replay of them needs the settings of sessions`);
  }
  checkBlockSizes(settings.block_size, trace.blockSize);
  const plan = planSessions(trace, sessions, settings.seed);
  const { blocks, durationMs } = measureWorkingSet(plan, settings.speedup);
  const tokens = blocks * plan.blockSize;
  const described = {
    name: trace.name,
    block_size: trace.blockSize,
    requests: plan.requests,
    input_tokens: plan.inputTokens,
    output_tokens: plan.outputTokens,
    duration_ms: Math.round(durationMs),
    sessions: {
      lines: trace.lines.length,
      dropped: plan.dropped,
      sessions: plan.sessions.length,
      sub_agents: plan.sessions.filter(({ parent }) => parent >= 0).length,
      working_set_blocks: blocks,
      working_set_tokens: tokens,
    },
  };
  return { workload: plan, settings: withMemory(settings, sessions, plan, tokens), described };
}

function planRequests(whole: Trace, settings: ReplaySettings): PlannedReplay {
  const { load, memory, seed, skip = 0 } = settings;
  if (skip >= whole.requests) {
    throw invalid(`--skip ${skip} leaves nothing of ${whole.name}, which holds ${whole.requests} requests`);
  }
  const part = withoutFirst(whole, skip);
  const trace = settings.spread_arrivals === true ? spreadArrivals(part, seed) : part;
  return {
    workload: trace,
    settings: {
      ...settings,
      ...(load !== undefined && { speedup: speedupFor(load, trace, settings) }),
      ...(memory !== undefined && { kv_blocks: blocksFor(memory, trace, settings) }),
    },
    described: describeTrace(trace),
  };
}

function speedupFor(load: number, trace: Trace, settings: ReplaySettings): number {
  const { prefill_workers: prefill, timing, workers } = settings;
  const { maxNumBatchedTokens } = DEFAULT_ENGINE_SETTINGS;
  const speedup = load / offeredLoad(trace, prefill ?? workers, timing, maxNumBatchedTokens);
  if (speedup > 0 && speedup <= 1e6) return speedup;
  throw invalid(`--load ${load} cannot be made of ${trace.name}, whose requests all come at one time`);
}

function blocksFor(memory: number, trace: Trace, { block_size: blockSize, workers }: ReplaySettings): number {
  const different = differentBlocks(trace) * blocksPerId(blockSize);
  const blocks = Math.ceil((memory * different) / workers);
  const needed = largestRequest(trace, blockSize);
  if (blocks > MAX_KV_BLOCKS) {
    throw invalid(
      `--memory ${memory} of ${different} blocks makes ${blocks} per worker; at most ${MAX_KV_BLOCKS} are possible`,
    );
  }
  if (blocks >= needed) return blocks;
  throw invalid(
    `--memory ${memory} gives each of ${workers} workers ${blocks} blocks, but the largest request needs ${needed}; take more memory, fewer --workers or more of the trace`,
  );
}

/** Memory given as a share of the working set, in blocks of one worker, rounded up. */
function withMemory(
  settings: ReplaySettings,
  { host_memory: hostMemory, memory }: SessionReplaySettings,
  plan: SessionPlan,
  workingSetTokens: number,
): ReplaySettings {
  const blocksOf = (option: string, share: number): number => {
    const blocks = Math.ceil((share * workingSetTokens) / settings.block_size / settings.workers);
    if (blocks >= 1 && blocks <= MAX_KV_BLOCKS) return blocks;
    throw invalid(
      `${option} ${share} of ${workingSetTokens} tokens makes ${blocks} blocks per worker; there must be 1 to ${MAX_KV_BLOCKS}`,
    );
  };
  const kvBlocks = memory === undefined ? settings.kv_blocks : blocksOf('--memory', memory);
  const needed = Math.ceil(plan.largest / settings.block_size);
  if (memory !== undefined && kvBlocks !== 'unlimited' && needed > kvBlocks) {
    throw invalid(
      `--memory ${memory} gives each of ${settings.workers} workers ${kvBlocks} blocks, but the largest request needs ${needed}; take more memory, more --copies, fewer --workers or a smaller --max-context`,
    );
  }
  return {
    ...settings,
    kv_blocks: kvBlocks,
    ...(hostMemory !== undefined && { host_kv_blocks: blocksOf('--host-memory', hostMemory) }),
  };
}

function describeTrace(trace: Trace): ReplayReport['trace'] {
  return {
    name: trace.name,
    block_size: TRACE_BLOCK_SIZE,
    requests: trace.requests,
    input_tokens: trace.inputLengths.reduce((sum, length) => sum + length, 0),
    output_tokens: trace.outputLengths.reduce((sum, length) => sum + length, 0),
    duration_ms: trace.arrivals.at(-1) ?? 0,
  };
}

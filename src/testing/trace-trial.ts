// Drives policies with a trace: the whole router over simulated engines, in virtual time.
import type { DefinitionReplayResult } from '../cli/index.ts';
import type { HintPolicyDefinition, WorkerSelectionPolicyDefinition } from '../plugin/index.ts';
import { conversationTrace, type TraceRequest } from './conversation-trace.ts';

/** A policy: the type of a built-in, or a definition with the parameters its YAML would give it. */
export type TrialPolicy<D> = string | { readonly definition: D; readonly parameters?: unknown };

/** What {@link replayTrial} works with; everything has a default. */
export interface TraceTrial {
  /** Default `dynamo-default-cost-fn`. */
  readonly selection?: TrialPolicy<WorkerSelectionPolicyDefinition>;
  /** In list order; default what runs by default under the selection policy. */
  readonly hints?: readonly TrialPolicy<HintPolicyDefinition>[];
  /** Requests, or the path of a Mooncake file, plain or .gz; default {@link conversationTrace}. */
  readonly trace?: readonly TraceRequest[] | string;
  /** Simulated workers, ids from 1; default 4. */
  readonly workers?: number;
  /** Tokens per block, a divisor of 512; default 512. */
  readonly blockSize?: number;
  /** KV blocks per worker; default 16,384. */
  readonly kvBlocks?: number;
  /**
   * Further hint actions that the engines take, for example `acme.pin@1.0`: they answer `accepted` and do nothing. Without it a policy
   * that sends another action than simulated engines execute (docs/simulated-engine.md) has its output dropped.
   */
  readonly acceptActions?: readonly string[];
  /** Divides the arrival times; default 1. */
  readonly speedup?: number;
  /** Seed of every random choice, from 1; default 1. */
  readonly seed?: number;
}

/** A decision whose request ended. */
export interface TracedDecision {
  /** Position of the request in the trace. */
  readonly request: number;
  readonly workerId: bigint;
  readonly rank: number;
  readonly promptTokens: number;
  /** Cost of each eligible worker; null under a policy whose picker alone decides. */
  readonly costs: readonly { readonly workerId: bigint; readonly cost: number | null }[];
  /** Tokens the router expected to be cached, hints aside; null without an index. */
  readonly predictedTokens: number | null;
  /** Tokens the engine reports as cached. */
  readonly cachedTokens: number;
  /** What was sent, and what the engine did with it. */
  readonly actions: readonly TracedAction[];
  /** From booking to the first token; null when none came. */
  readonly ttftMs: number | null;
}

/** A hint action that was sent. */
export interface TracedAction {
  /** With its version, for example `kv.fetch@1.0`. */
  readonly type: string;
  /** Name of the policy. */
  readonly policy: string;
  /** `accepted`, `clipped`, `deferred`, `rejected`, `missing` or `unreported`. */
  readonly outcome: string | null;
  /** The engine's word for why, for example `unsupported`; null when it gave none. */
  readonly reason: string | null;
  /** Blocks the engine fetched or kept; null when it did not say. */
  readonly blocksDone: number | null;
}

/** What came out of a replay. */
export interface TraceTrialResult {
  /** In order of completion. */
  readonly decisions: readonly TracedDecision[];
  readonly completed: number;
  /** Tokens reported as cached over tokens of all prompts, 0 to 1. */
  readonly hitRate: number;
  readonly ttftMs: { readonly mean: number | null; readonly p99: number | null };
  /** Requests per worker, worker 1 first. */
  readonly requestsPerWorker: readonly number[];
  /** What policies did wrong: choices that the default cost made instead, actions that were dropped. Empty is what you want. */
  readonly faults: readonly {
    readonly policy: string;
    readonly lost: 'choice' | 'actions' | 'classification';
    readonly reason: string;
    readonly count: number;
  }[];
  /** What the router logged as a warning or an error, with the text of what a policy threw. */
  readonly warnings: readonly string[];
}

/**
 * Replays a trace with policies at hand. The same input gives the same result, on every machine.
 *
 * @throws PointsmanError PM_REPLAY_TRACE, PM_REPLAY_SETTINGS; ConfigError (PM_CONFIG_INVALID) for what a start would refuse.
 * @example
 * const { decisions, faults } = await replayTrial({ selection: 'round-robin', hints: [{ definition: fetchLong }] });
 * expect(faults).toEqual([]);
 * expect(decisions.some(({ actions }) => actions.length > 0)).toBe(true);
 */
export async function replayTrial(trial: TraceTrial = {}): Promise<TraceTrialResult> {
  // Loaded here: most trials need no router.
  const { replayDefinitions } = await import('../cli/index.ts');
  const result = await replayDefinitions({
    selection: trial.selection ?? 'dynamo-default-cost-fn',
    hints: trial.hints,
    trace: trial.trace ?? conversationTrace(),
    settings: {
      workers: trial.workers ?? 4,
      block_size: trial.blockSize ?? 512,
      kv_blocks: trial.kvBlocks ?? 16_384,
      timing: 'default',
      model: 'engine',
      speedup: trial.speedup ?? 1,
      limit: null,
      seed: trial.seed ?? 1,
      cut_events: false,
      ...(trial.acceptActions && { accept_actions: trial.acceptActions }),
    },
  });
  const { report, warnings } = result;
  return {
    decisions: result.decisions.map(tracedDecision),
    completed: report.completed,
    hitRate: report.prefix_hit_rate_tokens ?? 0,
    ttftMs: { mean: report.ttft_ms.mean, p99: report.ttft_ms.p99 },
    requestsPerWorker: report.workers.map((worker) => worker.requests),
    faults: report.policy_faults,
    warnings,
  };
}

function tracedDecision(record: DefinitionReplayResult['decisions'][number]): TracedDecision {
  return {
    request: Number(record.request_id.slice(1)),
    workerId: record.pick.worker_id,
    rank: record.pick.dp_rank,
    promptTokens: record.prompt.tokens,
    costs: record.candidates.flatMap((candidate) =>
      candidate.eligible ? [{ workerId: candidate.worker_id, cost: candidate.cost }] : [],
    ),
    predictedTokens: record.prediction?.cached_tokens ?? null,
    cachedTokens: record.report?.cached_tokens ?? 0,
    actions: (record.hints?.sent ?? []).map(({ blocks_done, outcome, policy, reason, type }) => {
      return { type, policy, outcome, reason, blocksDone: blocks_done };
    }),
    ttftMs: record.outcome?.ttft_ms ?? null,
  };
}

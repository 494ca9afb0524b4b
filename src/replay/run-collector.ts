// Gathers the figures of one run, request by request. Latencies and rates are over completed requests only.
import type { EngineReport, ReportedHintOutcome } from '../engines/index.ts';
import type { KvEvent } from '../events/index.ts';
import type { DecisionBooking } from '../observe/index.ts';
import type { KvHint } from '../plugin/index.ts';
import type { SimulatedEngineStats } from '../simulator/index.ts';
import { type AwaitedTokens, CommitTally } from './commit-tally.ts';
import { Distribution, rate, rounded } from './distribution.ts';
import { OutcomeTally } from './outcome-tally.ts';
import { ReleaseTally } from './release-tally.ts';
import type { PolicyFault, RunReport, WorkerReport } from './types.ts';

interface WorkerTotals {
  requests: number;
  inputTokens: number;
  cachedTokens: number;
  outputTokens: number;
}

/** What is known of a request when it completes. */
export interface CompletedRequest {
  readonly worker: number;
  readonly inputTokens: number;
  readonly predictedTokens: number | null;
  readonly arrivedAt: number;
  readonly admittedAt: number;
  /** −1 = it has no output. */
  readonly firstTokenAt: number;
  readonly finishedAt: number;
  readonly report: EngineReport;
  /** What its committed copy awaits; null = none was sent. */
  readonly awaitedTokens: AwaitedTokens | null;
  /** Whether its latencies count; those of requests sent while caches fill need not. */
  readonly isMeasured: boolean;
}

/** Figures that not every report has. */
export interface OptionalFigures {
  /** The engines have host memory, so that what moved to and fro is reported. */
  readonly hostTier: boolean;
  /** Time of prompt work is reported. */
  readonly prefillTime: boolean;
}

/** Collects one run. */
export class RunCollector {
  readonly #blockSize: number;
  readonly #figures: OptionalFigures;
  readonly #workers: WorkerTotals[];
  readonly #ttft = new Distribution();
  readonly #itl = new Distribution();
  readonly #e2e = new Distribution();
  readonly #queueWait = new Distribution();
  readonly #actions = new Map<string, number>();
  readonly #outcomes = new OutcomeTally();
  readonly #releases = new ReleaseTally();
  readonly #commits: CommitTally;
  readonly #prompts = { remote_prefills: 0, bypassed: 0, fallbacks: 0 };
  #fetchedBlocks = 0;
  #fetchedBytes = 0;
  #completed = 0;
  #rejected = 0;
  #failed = 0;
  #refused = 0;
  #cachedBlocks = 0;
  #promptBlocks = 0;
  #predictedTokens = 0;
  #mispredictedTokens = 0;
  #predictions = 0;
  #lastFinish = 0;
  #inputTokens = 0;

  constructor(workers: number, blockSize: number, figures: OptionalFigures) {
    this.#blockSize = blockSize;
    this.#figures = figures;
    this.#commits = new CommitTally(blockSize);
    this.#workers = Array.from({ length: workers }, () => ({
      requests: 0,
      inputTokens: 0,
      cachedTokens: 0,
      outputTokens: 0,
    }));
  }

  /** Σ |expected − reported cached tokens| / Σ prompt tokens; null when nothing was predicted. */
  get mispredictionRate(): number | null {
    return this.#predictions === 0 ? null : rate(this.#mispredictedTokens, this.#inputTokens);
  }

  /** Requests that came to an end. */
  get ended(): number {
    return this.#completed + this.#rejected + this.#failed + this.#refused;
  }

  /** A request went to a worker. */
  dispatched(worker: number, inputTokens: number): void {
    const totals = this.#workers[worker]!;
    totals.requests += 1;
    totals.inputTokens += inputTokens;
  }

  /** A booking was made; answers what its committed copy awaits. */
  booked(record: DecisionBooking, inputTokens: number): AwaitedTokens | null {
    this.#outcomes.booked(record);
    const { handoff } = record;
    if (handoff !== null) {
      if (handoff.local === 'no_prefill_worker') this.#prompts.fallbacks += 1;
      else if (handoff.local !== null) this.#prompts.bypassed += 1;
      else this.#prompts.remote_prefills += 1;
    }
    return this.#commits.booked(record, inputTokens);
  }

  /** Blocks that engines gave up because a `kv.evict` said so. */
  get releases(): ReleaseTally {
    return this.#releases;
  }

  /** A request reached its engine with this hint. */
  hinted(hint: KvHint): void {
    for (const action of hint.actions) {
      count(this.#actions, `${action.action_type}@${action.action_version}`);
    }
  }

  /** The engine's answer to a request's hint. */
  outcomes(hint: KvHint, outcomes: readonly ReportedHintOutcome[]): void {
    this.#outcomes.answered(hint, outcomes);
    this.#releases.answered(hint, outcomes);
    for (const outcome of outcomes) {
      const action = hint.actions.find((one) => one.action_id === outcome.actionId);
      if (action?.action_type !== 'kv.fetch') continue;
      this.#fetchedBlocks += outcome.blocksDone ?? 0;
      this.#fetchedBytes += outcome.bytes ?? 0;
    }
  }

  /** KV events of an engine, which tell what became of deferred actions. */
  events(events: readonly KvEvent[]): void {
    this.#outcomes.events(events);
    this.#releases.events(events);
  }

  /** Time between two tokens of a request, ms. */
  gap(ms: number): void {
    this.#itl.add(ms);
  }

  completed(request: CompletedRequest): void {
    const { report, inputTokens } = request;
    const cached = report.cachedTokens ?? 0;
    const totals = this.#workers[request.worker]!;
    totals.cachedTokens += cached;
    totals.outputTokens += report.outputTokens ?? 0;
    if (request.awaitedTokens !== null) this.#commits.completed(request.awaitedTokens, cached);
    this.#completed += 1;
    this.#cachedBlocks += Math.floor(cached / this.#blockSize);
    this.#promptBlocks += Math.ceil(inputTokens / this.#blockSize);
    if (request.predictedTokens !== null) {
      this.#predictions += 1;
      this.#predictedTokens += request.predictedTokens;
      this.#mispredictedTokens += Math.abs(request.predictedTokens - cached);
    }
    if (request.isMeasured) {
      if (request.firstTokenAt >= 0) this.#ttft.add(request.firstTokenAt - request.arrivedAt);
      this.#e2e.add(request.finishedAt - request.arrivedAt);
      this.#queueWait.add(request.admittedAt - request.arrivedAt);
    }
    this.#lastFinish = Math.max(this.#lastFinish, request.finishedAt);
    this.#inputTokens += inputTokens;
  }

  rejected(): void {
    this.#rejected += 1;
  }

  failed(): void {
    this.#failed += 1;
  }

  /** The router refused a request by load. */
  refused(): void {
    this.#refused += 1;
  }

  /** The report of the run so far. */
  report(
    name: string,
    requests: number,
    stats: (
      worker: number,
    ) => Pick<SimulatedEngineStats, 'preemptions' | 'prefillMs' | 'offloadedBlocks' | 'onboardedBlocks'>,
    policyFaults: readonly PolicyFault[],
  ): RunReport {
    const workers = this.#workers.map((totals, index): WorkerReport => {
      const { offloadedBlocks, onboardedBlocks, preemptions, prefillMs } = stats(index);
      return {
        worker: index + 1,
        requests: totals.requests,
        input_tokens: totals.inputTokens,
        cached_tokens: totals.cachedTokens,
        output_tokens: totals.outputTokens,
        preemptions,
        ...(this.#figures.prefillTime && { prefill_ms: rounded(prefillMs) }),
        ...(this.#figures.hostTier && {
          onboarded_blocks: onboardedBlocks,
          offloaded_blocks: offloadedBlocks,
        }),
      };
    });
    const cached = workers.reduce((sum, worker) => sum + worker.cached_tokens, 0);
    const output = workers.reduce((sum, worker) => sum + worker.output_tokens, 0);
    const rejections = this.#outcomes.rejections();
    const commits = this.#commits.report();
    return {
      name,
      requests,
      completed: this.#completed,
      rejected: this.#rejected,
      failed: this.#failed,
      ...(this.#refused > 0 && { refused: this.#refused }),
      prefix_hit_rate: rate(this.#cachedBlocks, this.#promptBlocks),
      prefix_hit_rate_tokens: rate(cached, this.#inputTokens),
      predicted_hit_rate_tokens:
        this.#predictions === 0 ? null : rate(this.#predictedTokens, this.#inputTokens),
      ttft_ms: this.#ttft.summary(),
      itl_ms: this.#itl.summary(),
      e2e_ms: this.#e2e.summary(),
      queue_wait_ms: this.#queueWait.summary(),
      duration_ms: rounded(this.#lastFinish),
      output_tok_s: this.#lastFinish > 0 ? rounded((output * 1000) / this.#lastFinish) : null,
      hints: {
        actions_by_type: sorted(this.#actions),
        outcomes: this.#outcomes.outcomes(),
        fetched_blocks: this.#fetchedBlocks,
        fetched_bytes: this.#fetchedBytes,
        ...(rejections === null ? {} : { rejections }),
        ...(commits === null ? {} : { commits }),
      },
      ...(Object.values(this.#prompts).some((count) => count > 0) && {
        disaggregation: { ...this.#prompts },
      }),
      policy_faults: policyFaults,
      workers,
    };
  }
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function sorted(counts: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
}

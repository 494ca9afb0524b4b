// Drives a request classifier through the router's own stage, with requests written by hand and a clock that the test moves.
import { type ClassifierOutcome, createSoloClassifier, type RequestLifecycle } from '../host/index.ts';
import {
  type ClassifierEvent,
  type ClassifierWorker,
  errorText,
  ManualClock,
  NO_LOG,
  type Overrides,
  type Partition,
  type PointsmanError,
  type RequestClassifierDefinition,
  type WorkerRank,
  type WorkerTarget,
} from '../plugin/index.ts';
import { sessionOfTrial, type TrialSession } from './trial-session.ts';

/** A request to classify; everything has a default. */
export interface TrialClassifyRequest {
  /** Default: `r1`, `r2`, … */
  readonly requestId?: string;
  /** Default none. */
  readonly session?: TrialSession | null;
  /** Default 2,048. */
  readonly inputTokens?: number;
  readonly policyClass?: string | null;
  readonly pinnedWorker?: WorkerTarget | null;
}

/** What {@link testClassifier} works with. */
export interface ClassifierTrialOptions {
  /** As in YAML. */
  readonly parameters?: unknown;
  readonly partition?: Partition;
  /** Tokens per block; default 16; null = not configured. */
  readonly blockSize?: number | null;
  /** Policy classes that may be named; default: `default` alone, as without a queue profile. */
  readonly policyClasses?: readonly string[];
  /** What `workers()` answers; default: none. */
  readonly workers?: readonly ClassifierWorker[];
  /** How long a request may wait, ms; default 60,000. */
  readonly maxWaitMs?: number;
  /** Seed of `rng`; default 1. */
  readonly seed?: number;
  /** What the clock shows at first, ms; default 0. */
  readonly startMs?: number;
}

/** Where a request of a trial stands; `left` = it ended before it was classified. */
export type TrialState = 'waiting' | 'classified' | 'refused' | 'failed' | 'left';

const REFUSALS: ReadonlySet<string> = new Set(['PM_CLASSIFIER_CAPACITY', 'PM_CLASSIFIER_RATE_LIMITED']);
const NOTHING: Overrides = Object.freeze({});
const TRIAL_WORKER: WorkerRank = Object.freeze({ workerId: 1n, rank: 0 });
// Taken before any test can replace it.
const { setImmediate: afterPromises } = globalThis;

/** A request of a trial. Once it is classified the test plays its life; the end may come at any time, and counts once. */
export interface TrialedRequest {
  readonly requestId: string;
  /** Resolves when it does not wait any more, whatever came of it. */
  readonly answered: Promise<void>;
  readonly state: TrialState;
  /** The overrides as the router takes them, a target's missing rank null; empty when there are none. */
  readonly overrides: Overrides;
  /** From asking to the answer, ms; null = it was not classified. */
  readonly waitedMs: number | null;
  /** The error that the client would get; null = none. Its `details.retry_after` is the header, in seconds. */
  readonly refusal: PointsmanError | null;
  /** What the classifier threw, or what is wrong with its answer, in words that no client gets; null = nothing. */
  readonly error: string | null;
  /** The request is with an engine; default: worker 1, rank 0. */
  sent(worker?: WorkerRank): void;
  /** The engine answers. */
  responding(worker?: WorkerRank): void;
  /** The answer is complete, with so many tokens; default 0. */
  complete(outputTokens?: number, worker?: WorkerRank): void;
  /** The client leaves; with a code, the request fails by it. */
  abort(error?: string | null): void;
}

/** A classifier under test. */
export interface ClassifierTrial {
  /** Moved by {@link ClassifierTrial.advance}. */
  readonly clock: ManualClock;
  /** What the classifier was told, in order. */
  readonly events: readonly ClassifierEvent[];
  /**
   * A request arrives.
   * @throws PointsmanError PM_CLASSIFIER_DUPLICATE_ID while one with this id is under way.
   */
  send(request?: TrialClassifyRequest): TrialedRequest;
  /** Lets promises go on as far as they can without time. */
  settle(): Promise<void>;
  /** Lets time pass, timer by timer, with the promises of each moment. */
  advance(ms: number): Promise<void>;
  /** Disposes the classifier; whoever still waits is refused. */
  close(): Promise<void>;
}

class PlayedRequest implements TrialedRequest {
  readonly requestId: string;
  readonly answered: Promise<void>;
  readonly #lifecycle: RequestLifecycle | null;
  readonly #inputTokens: number;
  #outcome: ClassifierOutcome | null = null;

  /** @param lifecycle null = the classifier has nothing to ask and nothing to tell */
  constructor(requestId: string, inputTokens: number, lifecycle: RequestLifecycle | null) {
    this.requestId = requestId;
    this.#inputTokens = inputTokens;
    this.#lifecycle = lifecycle;
    this.answered = new Promise((resolve) => {
      if (lifecycle === null) resolve();
      lifecycle?.classify((outcome) => {
        this.#outcome = outcome;
        // The router ends what was refused.
        if (outcome.kind === 'refused') lifecycle.aborted(null, outcome.error.code);
        resolve();
      });
    });
  }

  get state(): TrialState {
    if (this.#lifecycle === null) return 'classified';
    if (this.#outcome === null) return 'waiting';
    if (this.#outcome.kind === 'classified') return 'classified';
    if (this.#outcome.kind === 'over') return 'left';
    return REFUSALS.has(this.#outcome.error.code) ? 'refused' : 'failed';
  }

  get overrides(): Overrides {
    return this.#outcome?.kind === 'classified' ? this.#outcome.classification.overrides : NOTHING;
  }

  get waitedMs(): number | null {
    if (this.#lifecycle === null) return 0;
    return this.#outcome?.kind === 'classified' ? this.#outcome.classification.waitedMs : null;
  }

  get refusal(): PointsmanError | null {
    return this.#outcome?.kind === 'refused' ? this.#outcome.error : null;
  }

  get error(): string | null {
    const cause = this.refusal?.cause;
    return this.state === 'failed' ? errorText(cause ?? this.refusal) : null;
  }

  sent(worker: WorkerRank = TRIAL_WORKER): void {
    this.#lifecycle?.sent(worker);
  }

  responding(worker: WorkerRank = TRIAL_WORKER): void {
    this.#lifecycle?.responding(worker);
  }

  complete(outputTokens = 0, worker: WorkerRank = TRIAL_WORKER): void {
    this.#lifecycle?.progress(this.#inputTokens + outputTokens);
    this.#lifecycle?.completed(worker);
  }

  abort(error: string | null = null): void {
    this.#lifecycle?.aborted(null, error);
  }
}

/**
 * Puts a request classifier under the router's own stage.
 *
 * @throws PointsmanError PM_POLICY_PARAMETERS, PM_PLUGIN_INVALID, PM_PLUGIN_THREW (from `create`).
 * @example
 * const trial = await testClassifier(tenantFair, { parameters: { tokens_per_second: 100 } });
 * const request = trial.send({ inputTokens: 500 });
 * await trial.advance(5000);
 * expect(request.state).toBe('classified');
 */
export async function testClassifier(
  definition: RequestClassifierDefinition,
  options: ClassifierTrialOptions = {},
): Promise<ClassifierTrial> {
  const clock = new ManualClock(options.startMs ?? 0);
  const partition = options.partition ?? { model: 'test', routingGroup: 'default' };
  const events: ClassifierEvent[] = [];
  const workers = (options.workers ?? []).map(({ workerId, ranks, totalKvBlocks }) => ({
    spec: {
      id: workerId,
      model: partition.model,
      ranks: { first: ranks[0] ?? 0, count: Math.max(1, ranks.length) },
      totalKvBlocks,
    },
    state: 'ready',
    capabilities: null,
  }));
  const solo = await createSoloClassifier({
    definition,
    parameters: options.parameters,
    partition,
    blockSize: options.blockSize === undefined ? 16 : options.blockSize,
    maxWaitMs: options.maxWaitMs ?? 60_000,
    clock,
    seed: options.seed ?? 1,
    log: NO_LOG,
    fleet: { workers: () => workers },
    told: (event) => void events.push(event),
    ...(options.policyClasses === undefined ? {} : { policyClasses: options.policyClasses }),
  });
  const settle = (): Promise<void> => new Promise((resolve) => afterPromises(resolve));
  let requests = 0;
  return {
    clock,
    events,
    send(request = {}) {
      requests += 1;
      const { requestId = `r${requests}`, inputTokens = 2048 } = request;
      const lifecycle = solo.classifierFor(partition)?.begin({
        requestId,
        session: sessionOfTrial(request.session),
        promptTokens: inputTokens,
        policyClass: request.policyClass ?? null,
        arrivedAt: clock.now(),
        pinnedWorker: request.pinnedWorker ?? null,
      });
      return new PlayedRequest(requestId, inputTokens, lifecycle ?? null);
    },
    settle,
    async advance(ms) {
      const until = clock.now() + ms;
      await settle();
      for (let at = clock.nextTimerAt(); at !== null && at <= until; at = clock.nextTimerAt()) {
        clock.advanceTo(at);
        await settle();
      }
      clock.advanceTo(until);
    },
    close: () => solo.close(),
  };
}

// One request as its classifier hears of it: asked once, told in order, ended once. Each lifecycle is an object of its own, so an answer
// that comes late finds its own lifecycle over and never meets a later request of the same id.
import type { ClassifierEvent, ClassifyRequest, PointsmanError, WorkerRank } from '../plugin/index.ts';
import type {
  Classification,
  ClassifierFacts,
  ClassifierOutcome,
  RequestLifecycle,
} from './classifier-types.ts';
import { frozenSession } from './frozen-session.ts';

/** The stage as a lifecycle uses it. */
export interface LifecycleStage {
  /** Whether the terminal event of an earlier request with this id is still to be delivered. */
  awaitsEarlier(lifecycle: Lifecycle): boolean;
  /** Asks the classifier; the function returned says that nobody waits for the answer any more. */
  ask(lifecycle: Lifecycle): () => void;
  tell(event: ClassifierEvent, delivered: (() => void) | null): void;
  /** The request ended, and the classifier was told. */
  forget(lifecycle: Lifecycle): void;
}

/** Where a lifecycle stands. Only forward. */
type Phase = 'arrived' | 'classifying' | 'classified' | 'sent' | 'responding' | 'ended';

const ORDER: readonly Phase[] = ['arrived', 'classifying', 'classified', 'sent', 'responding', 'ended'];

/** The lifecycle. */
export class Lifecycle implements RequestLifecycle {
  readonly facts: ClassifierFacts;
  /** What the classifier sees of the request. */
  readonly request: ClassifyRequest;
  readonly #stage: LifecycleStage;
  #phase: Phase = 'arrived';
  #contextTokens: number;
  #answer: Classification | null = null;
  #answered: ((outcome: ClassifierOutcome) => void) | null = null;
  #stopAsking: (() => void) | null = null;
  /** The classifier was not asked and hears nothing. */
  #silent = false;

  constructor(facts: ClassifierFacts, stage: LifecycleStage) {
    this.facts = facts;
    this.#stage = stage;
    this.#contextTokens = facts.promptTokens;
    this.request = requestView(facts, () => this.#contextTokens);
  }

  get ended(): boolean {
    return this.#phase === 'ended';
  }

  /** Whether somebody waits for the answer. */
  get waiting(): boolean {
    return this.#answered !== null;
  }

  // --- what the road tells ---

  classify(answered: (outcome: ClassifierOutcome) => void): void {
    if (this.#answer !== null) {
      answered({ kind: 'classified', classification: this.#answer });
    } else if (this.#phase !== 'arrived') {
      answered({ kind: 'over' });
    } else {
      this.#phase = 'classifying';
      this.#answered = answered;
      if (!this.#stage.awaitsEarlier(this)) this.ask();
    }
  }

  progress(contextTokens: number): void {
    if (contextTokens > this.#contextTokens && !this.ended) this.#contextTokens = contextTokens;
  }

  sent(worker: WorkerRank): void {
    // Nothing is sent that still waits for its classification.
    if (this.#isWaiting() || !this.#advance('sent')) return;
    this.#tell({ kind: 'sent', requestId: this.facts.requestId, worker: frozenRank(worker) }, null);
  }

  responding(worker: WorkerRank): void {
    // An engine may answer before it is said that it was asked.
    this.sent(worker);
    if (this.#isWaiting() || !this.#advance('responding')) return;
    this.#tell({ kind: 'responding', requestId: this.facts.requestId, worker: frozenRank(worker) }, null);
  }

  completed(worker: WorkerRank | null): void {
    this.#end({
      kind: 'completed',
      requestId: this.facts.requestId,
      worker: worker === null ? null : frozenRank(worker),
      contextTokens: this.#contextTokens,
    });
  }

  aborted(worker: WorkerRank | null, error: string | null): void {
    this.#end({
      kind: 'aborted',
      requestId: this.facts.requestId,
      worker: worker === null ? null : frozenRank(worker),
      contextTokens: this.#contextTokens,
      error,
    });
  }

  // --- what the stage tells ---

  /** The earlier request with this id is out of the way. */
  ask(): void {
    if (this.#answered === null) return;
    const stop = this.#stage.ask(this);
    // It may have answered already.
    if (this.#answered !== null) this.#stopAsking = stop;
  }

  /** The answer; one that comes after the end is dropped. */
  answer(classification: Classification): void {
    const answered = this.#takeAnswered();
    if (answered === null) return;
    this.#phase = 'classified';
    this.#answer = classification;
    this.#silent = !classification.asked;
    answered({ kind: 'classified', classification });
  }

  refuse(error: PointsmanError, silent: boolean): void {
    const answered = this.#takeAnswered();
    if (answered === null) return;
    this.#phase = 'classified';
    this.#silent = silent;
    answered({ kind: 'refused', error });
  }

  #takeAnswered(): ((outcome: ClassifierOutcome) => void) | null {
    const answered = this.#answered;
    this.#answered = null;
    this.#stopAsking?.();
    this.#stopAsking = null;
    return answered;
  }

  #isWaiting(): boolean {
    return this.#phase === 'arrived' || this.#phase === 'classifying';
  }

  #advance(to: Phase): boolean {
    if (ORDER.indexOf(to) <= ORDER.indexOf(this.#phase)) return false;
    this.#phase = to;
    return true;
  }

  #tell(event: ClassifierEvent, delivered: (() => void) | null): void {
    if (this.#silent) delivered?.();
    else this.#stage.tell(Object.freeze(event), delivered);
  }

  #end(event: ClassifierEvent): void {
    if (!this.#advance('ended')) return;
    const answered = this.#takeAnswered();
    this.#tell(event, () => this.#stage.forget(this));
    answered?.({ kind: 'over' });
  }
}

/** Frozen; `contextTokens` follows the request for as long as somebody keeps the object. */
function requestView(facts: ClassifierFacts, contextTokens: () => number): ClassifyRequest {
  const { requestId, session, promptTokens, policyClass, arrivedAt, pinnedWorker } = facts;
  return Object.freeze({
    requestId,
    session: frozenSession(session),
    inputTokens: promptTokens,
    schedulingCostTokens: promptTokens,
    policyClass,
    ingressAt: arrivedAt,
    dueAt: null,
    get contextTokens(): number {
      return contextTokens();
    },
    pinnedWorker: pinnedWorker === null ? null : Object.freeze({ ...pinnedWorker }),
  });
}

function frozenRank({ workerId, rank }: WorkerRank): WorkerRank {
  return Object.freeze({ workerId, rank });
}

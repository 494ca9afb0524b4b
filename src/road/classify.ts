// The classify step: when and as what a request enters the queue. The classifier answers through a callback, at once or later; where
// nobody classifies, nothing is asked and nothing is made.
import type { CheckedOverrides, Classification, ClassifierSource, RequestLifecycle } from '../host/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import type { RoadRequest } from './types.ts';

/** Class of a request that nobody put into another. */
const DEFAULT_CLASS = 'default';

/** Whom the step acts on. */
export interface ClassifiedExchange {
  readonly arrivedAt: number;
  /** The lifecycle is told of everything from here on. */
  follow(lifecycle: RequestLifecycle): void;
  refuse(error: PointsmanError): void;
}

/** Asks for requests before anything is booked, and counts those that wait. */
export class ClassifyStep {
  readonly #source: ClassifierSource | null;
  readonly #asError: (thrown: unknown) => PointsmanError;
  #waiting = 0;

  /** @param source null = nobody classifies */
  constructor(source: ClassifierSource | null, asError: (thrown: unknown) => PointsmanError) {
    this.#source = source;
    this.#asError = asError;
  }

  /** Requests that wait for an answer. */
  get waiting(): number {
    return this.#waiting;
  }

  /** As of {@link ClassifierSource}. */
  get unsettled(): boolean {
    return this.#source?.classifiersUnsettled() ?? false;
  }

  /**
   * Has a request classified. `goOn` is called when it may go on, before this returns where the answer is there at once; never when it
   * is refused, or ends before.
   */
  run(
    exchange: ClassifiedExchange,
    request: RoadRequest,
    goOn: (classification: Classification | null) => void,
  ): void {
    // A prefill or encode hop serves a request that its other hop has classified.
    const owns = request.role === 'aggregated' || request.role === 'decode';
    let lifecycle: RequestLifecycle | null = null;
    try {
      const stage = owns ? (this.#source?.classifierFor(request.partition) ?? null) : null;
      if (stage !== null) {
        lifecycle = stage.begin({
          requestId: request.requestId,
          session: request.session,
          promptTokens: request.tokens.length,
          policyClass: request.policyClass ?? null,
          arrivedAt: exchange.arrivedAt,
          pinnedWorker: request.constraints.pinnedWorker,
        });
      }
    } catch (thrown) {
      exchange.refuse(this.#asError(thrown));
      return;
    }
    if (lifecycle === null) {
      goOn(null);
      return;
    }
    exchange.follow(lifecycle);
    this.#waiting += 1;
    lifecycle.classify((outcome) => {
      this.#waiting -= 1;
      if (outcome.kind === 'classified') goOn(outcome.classification);
      else if (outcome.kind === 'refused') exchange.refuse(outcome.error);
    });
  }
}

/** The class a request is queued in. */
export function policyClassOf(classification: Classification | null): string {
  return classification?.overrides.policyClass ?? DEFAULT_CLASS;
}

/** Where a classifier would have the request go; advice. */
export function softTargetOf(classification: Classification | null): CheckedOverrides['workerTarget'] {
  return classification?.overrides.workerTarget ?? null;
}

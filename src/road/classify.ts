// The classify step: when and as what a request enters the queue. The classifier answers through a callback, at once or later; where
// nobody classifies, nothing is asked and nothing is made.
import type { CheckedOverrides, Classification, ClassifierSource, RequestLifecycle } from '../host/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import { promptTokensOf } from './caller-part.ts';
import type { RoadRequest } from './types.ts';

/** Class of a request that nobody put into another. */
const DEFAULT_CLASS = 'default';

/** Whom the step acts on. */
export interface ClassifiedExchange {
  readonly arrivedAt: number;
  /** The lifecycle is told of everything from here on. */
  follow(lifecycle: RequestLifecycle): void;
  refuse(error: PointsmanError): void;
  /** It ended, whatever was made of it before. */
  failed(error: PointsmanError): void;
}

/** What the step works with. */
export interface ClassifyPorts<E extends ClassifiedExchange> {
  /** Null = nobody classifies. */
  readonly source: ClassifierSource | null;
  /** The request may go on. */
  readonly goOn: (exchange: E, request: RoadRequest, classification: Classification | null) => void;
  readonly asError: (thrown: unknown) => PointsmanError;
}

/** Asks for requests before anything is booked, and counts those that wait. */
export class ClassifyStep<E extends ClassifiedExchange> {
  readonly #ports: ClassifyPorts<E>;
  #waiting = 0;

  constructor(ports: ClassifyPorts<E>) {
    this.#ports = ports;
  }

  /** Requests that wait for an answer. */
  get waiting(): number {
    return this.#waiting;
  }

  /** As of {@link ClassifierSource}. */
  get unsettled(): boolean {
    return this.#ports.source?.classifiersUnsettled() ?? false;
  }

  /**
   * Has a request classified. It goes on before this returns where the answer is there at once; never when it is refused, or ends
   * before.
   */
  run(exchange: E, request: RoadRequest): void {
    const { asError, goOn } = this.#ports;
    let lifecycle: RequestLifecycle | null;
    try {
      lifecycle = this.#begin(exchange, request);
    } catch (thrown) {
      exchange.refuse(asError(thrown));
      return;
    }
    if (lifecycle === null) goOn(exchange, request, null);
    else this.#ask(exchange, request, lifecycle);
  }

  #ask(exchange: E, request: RoadRequest, lifecycle: RequestLifecycle): void {
    exchange.follow(lifecycle);
    this.#waiting += 1;
    lifecycle.classify((outcome) => {
      this.#waiting -= 1;
      try {
        if (outcome.kind === 'classified') this.#ports.goOn(exchange, request, outcome.classification);
        else if (outcome.kind === 'refused') exchange.refuse(outcome.error);
      } catch (thrown) {
        // Of a late answer nobody is above to whom it could go.
        exchange.failed(this.#ports.asError(thrown));
      }
    });
  }

  #begin(exchange: E, request: RoadRequest): RequestLifecycle | null {
    // A prefill or encode hop serves a request that its other hop has classified.
    if (request.role !== 'aggregated' && request.role !== 'decode') return null;
    const stage = this.#ports.source?.classifierFor(request.partition) ?? null;
    if (stage === null) return null;
    return stage.begin({
      requestId: request.requestId,
      session: request.session,
      promptTokens: promptTokensOf(request),
      policyClass: request.policyClass ?? null,
      arrivedAt: exchange.arrivedAt,
      pinnedWorker: request.constraints.pinnedWorker,
    });
  }
}

/** The class of a request where there are no queues. */
export function policyClassOf(classification: Classification | null): string {
  return classification?.overrides.policyClass ?? DEFAULT_CLASS;
}

/** The class or family that was asked for, by a classifier or else by a trusted caller; null = none. */
export function askedClassOf(request: RoadRequest, classification: Classification | null): string | null {
  const own = classification?.overrides.policyClass;
  return own === undefined ? (request.policyClass ?? null) : own;
}

/** When a request must have been admitted, ms of the clock; null = whenever. */
export function dueAtOf(classification: Classification | null): number | null {
  return classification?.overrides.dueAt ?? null;
}

/** What a turn costs in tokens, ≥ 1: what the classifier says, else what is not cached. */
export function turnCostOf(
  classification: Classification | null,
  promptTokens: number,
  cachedTokens: number,
): number {
  return classification?.overrides.schedulingCostTokens ?? Math.max(1, promptTokens - cachedTokens);
}

/** Where a classifier would have the request go; advice. */
export function softTargetOf(classification: Classification | null): CheckedOverrides['workerTarget'] {
  return classification?.overrides.workerTarget ?? null;
}

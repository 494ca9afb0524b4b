// The one way through the router: classify → queue → select → book → hint → dispatch. Here requests arrive, and wait where they have
// to; the walk does the rest in one go, and what follows comes through the exchange. No promise is made or awaited here.
import type { QueueSettings } from '../config/index.ts';
import type { Classification } from '../host/index.ts';
import { ReleasePace } from '../observe/index.ts';
import { NO_LOG, type Partition } from '../plugin/index.ts';
import { admitDirectly } from './admission.ts';
import { AdmissionQueue } from './admission-queue.ts';
import { AffinityStep } from './affinity-step.ts';
import { BookingLeases } from './booking-leases.ts';
import { type Choice, isChoiceOnly, type Projection, type Waits } from './caller-part.ts';
import { ClassifyStep } from './classify.ts';
import { Exchange } from './exchange.ts';
import { FirstWorkerHold, NO_HOLD } from './first-worker-hold.ts';
import { Gates } from './gates.ts';
import { computesPrompt, isAside } from './request-leg.ts';
import { type HopRoad, RetryingRoad } from './retry.ts';
import type { RoadDeps } from './road-deps.ts';
import { asPointsmanError, workerLost } from './road-errors.ts';
import { roadLabels } from './road-labels.ts';
import type { RoadState } from './road-state.ts';
import { HintOutcomes } from './sent-hints.ts';
import type { Walk } from './staged-booking.ts';
import type { ChoosingRoad, LateHintOutcome, ResponseSink, RoadRequest } from './types.ts';
import { Walker } from './walk.ts';

/** Builds the road. It follows the fleet: exchanges of a worker that is gone or removed fail at once. */
export function createRoad(deps: RoadDeps): ChoosingRoad {
  const road = new SynchronousRoad(deps);
  deps.fleet.listen({
    stateChanged(worker) {
      if (worker.state === 'gone') road.workerGone(worker.spec.id);
    },
    removed(worker) {
      road.workerGone(worker.spec.id);
    },
  });
  const { retries, clock, metrics } = deps;
  return retries === undefined
    ? road
    : new RetryingRoad(road, { limits: () => deps.retries ?? retries, clock, metrics });
}

class SynchronousRoad implements HopRoad {
  readonly #deps: RoadDeps;
  readonly #state: RoadState;
  readonly #walker: Walker;
  readonly #classify: ClassifyStep<Exchange>;
  readonly #gates = new Gates();
  readonly #hold: FirstWorkerHold<Exchange>;
  readonly #queue: AdmissionQueue<Exchange>;
  readonly #leases: BookingLeases;

  constructor(deps: RoadDeps) {
    this.#deps = deps;
    const affinity = new AffinityStep(deps, (walk) => this.#walk(walk));
    this.#queue = new AdmissionQueue({
      ...deps,
      gate: deps.scheduler.gate,
      asQueued: (request) => affinity.queued(request),
      goOn: (walk: Walk) => this.#walk(walk),
      asError: asPointsmanError,
    });
    if (deps.queues !== undefined) this.#queue.set(deps.queues);
    const { copies } = deps.scheduler;
    const { links } = copies;
    links.report(deps.metrics);
    this.#walker = new Walker(deps, this.#queue, affinity, links);
    this.#classify = new ClassifyStep({
      source: deps.classifiers ?? null,
      goOn: (exchange: Exchange, request, classification) =>
        this.#classified(exchange, request, classification),
      asError: asPointsmanError,
    });
    this.#hold = new FirstWorkerHold({
      ...deps,
      limits: () => deps.firstWorkerHold ?? NO_HOLD,
      goOn: (walk: Walk) => this.#held(walk),
      asError: asPointsmanError,
    });
    deps.metrics.gauge('pointsman_classifications_waiting', () => this.#classify.waiting);
    this.#state = {
      clock: deps.clock,
      scheduler: deps.scheduler,
      decisions: deps.decisions,
      health: deps.health,
      metrics: deps.metrics,
      exchanges: new Set(),
      underWay: 0,
      pace: new ReleasePace(),
      hintOutcomes: new HintOutcomes(deps.metrics, deps.log ?? NO_LOG, copies),
      loadFell: (workerId) => this.#queue.loadFell(workerId),
      beliefs: deps.beliefs ?? null,
      sessions: deps.sessions ?? null,
      computedBlocks: deps.computedBlocks ?? null,
      answered: deps.answered ?? null,
      labelsOf: roadLabels(),
    };
    this.#leases = new BookingLeases(this.#state, () => deps.bookingExpiryMs ?? Number.POSITIVE_INFINITY);
  }

  arrive(request: RoadRequest, sink: ResponseSink): Exchange {
    const exchange = new Exchange(this.#state, request, sink);
    this.#leases.review(exchange.arrivedAt);
    const { pace, underWay } = this.#state;
    // It counts itself already.
    const refusal = isAside(request)
      ? null
      : admitDirectly(underWay - 1, this.#deps.concurrentRequests, pace, exchange.arrivedAt);
    if (refusal !== null) exchange.refuse(refusal);
    else if (isChoiceOnly(request)) this.#walk({ exchange, request, classification: null, heldSince: null });
    else this.#classify.run(exchange, request);
    return exchange;
  }

  again(earlier: Exchange, request: RoadRequest, sink: ResponseSink): Exchange {
    const exchange = new Exchange(this.#state, request, sink, earlier);
    try {
      // It had its turn, and is not put behind others again.
      const { classification, admitted } = exchange;
      this.#walk({ exchange, request, classification, heldSince: null, admitted });
    } catch (thrown) {
      // Nobody is above to whom it could go.
      exchange.failed(asPointsmanError(thrown));
    }
    return exchange;
  }

  choose(request: RoadRequest): Choice {
    return this.#walker.choose(request);
  }

  project(request: RoadRequest): Projection {
    return this.#walker.project(request);
  }

  waitingOf(partition: Partition): Waits {
    return this.#queue.waitingOf(partition);
  }

  workerGone(workerId: bigint): void {
    for (const exchange of [...this.#state.exchanges]) {
      if (exchange.workerId !== workerId) continue;
      exchange.lose(workerLost(workerId));
    }
  }

  hintOutcome(event: LateHintOutcome): void {
    this.#state.hintOutcomes.report(event);
  }

  unsettled(): boolean {
    return this.#classify.unsettled;
  }

  expireBookings(): number {
    return this.#leases.review(this.#deps.clock.now());
  }

  setQueues(settings: QueueSettings): void {
    this.#queue.set(settings);
  }

  close(): void {
    this.#queue.close();
  }

  activeBookings(): number {
    return this.#deps.scheduler.loads.activeBookings;
  }

  #classified(exchange: Exchange, request: RoadRequest, own: Classification | null): void {
    const classification = own ?? request.leg?.classification ?? null;
    exchange.classification = classification;
    this.#toGate({ exchange, request, classification, heldSince: null });
  }

  /** It waited for a worker, and there is one. */
  #held(walk: Walk): void {
    const { request } = walk;
    const { divided } = request;
    if (divided?.isOpen() !== true) this.#walk(walk);
    else this.#toGate({ ...walk, request: { ...request, gate: divided.gate } });
  }

  #toGate(walk: Walk): void {
    const { exchange, request, classification } = walk;
    if (request.gate === undefined) {
      this.#walk(walk);
      return;
    }
    const { clock } = this.#deps;
    // What it waits at the gate is no wait for a worker.
    const heldMs = walk.heldSince === null ? null : clock.now() - walk.heldSince;
    exchange.goesOnAs(request);
    this.#gates.hold(request.gate, exchange, classification, (next) => {
      exchange.goesOnAs(next);
      this.#walk({ ...walk, request: next, heldSince: heldMs === null ? null : clock.now() - heldMs });
    });
  }

  #walk(walk: Walk): void {
    const error = this.#walker.walk(walk);
    if (error === null) return;
    // Whoever carries its requests itself asks again when there is a worker, and blocks that are computed elsewhere cannot wait for one.
    const { caller, leg, queueing } = walk.request;
    const waits = caller == null && computesPrompt(leg) && queueing !== 'refuse';
    const refusal = waits ? this.#hold.take(walk, error) : error;
    if (refusal !== null) walk.exchange.refuse(refusal);
  }
}

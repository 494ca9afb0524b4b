// The one way through the router: classify → queue → select → book → hint → dispatch. Here requests arrive, and wait where they have
// to; the walk does the rest in one go, and what follows comes through the exchange. No promise is made or awaited here.
import type { Classification } from '../host/index.ts';
import { ReleasePace } from '../observe/index.ts';
import { admitDirectly } from './admission.ts';
import { BookingLeases } from './booking-leases.ts';
import { ClassifyStep } from './classify.ts';
import { Exchange } from './exchange.ts';
import { FirstWorkerHold, NO_HOLD } from './first-worker-hold.ts';
import { Gates } from './gates.ts';
import type { RoadDeps } from './road-deps.ts';
import { asPointsmanError, workerLost } from './road-errors.ts';
import { roadLabels } from './road-labels.ts';
import type { RoadState } from './road-state.ts';
import { HintOutcomes } from './sent-hints.ts';
import type { Walk } from './staged-booking.ts';
import type { LateHintOutcome, ResponseSink, Road, RoadRequest, RoadTicket } from './types.ts';
import { Walker } from './walk.ts';

/** Builds the road. It follows the fleet: exchanges of a worker that is gone or removed fail at once. */
export function createRoad(deps: RoadDeps): Road {
  const road = new SynchronousRoad(deps);
  deps.fleet.listen({
    stateChanged(worker) {
      if (worker.state === 'gone') road.workerGone(worker.spec.id);
    },
    removed(worker) {
      road.workerGone(worker.spec.id);
    },
  });
  return road;
}

class SynchronousRoad implements Road {
  readonly #deps: RoadDeps;
  readonly #state: RoadState;
  readonly #walker: Walker;
  readonly #classify: ClassifyStep<Exchange>;
  readonly #gates = new Gates();
  readonly #hold: FirstWorkerHold<Exchange>;
  readonly #leases: BookingLeases;

  constructor(deps: RoadDeps) {
    this.#deps = deps;
    this.#walker = new Walker(deps);
    this.#classify = new ClassifyStep({
      source: deps.classifiers ?? null,
      goOn: (exchange: Exchange, request, classification) =>
        this.#classified(exchange, request, classification),
      asError: asPointsmanError,
    });
    this.#hold = new FirstWorkerHold({
      ...deps,
      limits: () => deps.firstWorkerHold ?? NO_HOLD,
      goOn: (walk: Walk) => this.#walk(walk),
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
      asides: { count: 0 },
      pace: new ReleasePace(),
      hintOutcomes: new HintOutcomes(),
      beliefs: deps.beliefs ?? null,
      computedBlocks: deps.computedBlocks ?? null,
      labelsOf: roadLabels(),
    };
    this.#leases = new BookingLeases(this.#state, () => deps.bookingExpiryMs ?? Number.POSITIVE_INFINITY);
  }

  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket {
    const exchange = new Exchange(this.#state, request, sink);
    this.#leases.review(exchange.arrivedAt);
    const { asides, exchanges } = this.#state;
    const underWay =
      exchanges.size - asides.count + this.#classify.waiting + this.#gates.waiting + this.#hold.waiting;
    const { concurrentRequests: limit } = this.#deps;
    const refusal =
      request.leg?.aside === true
        ? null
        : admitDirectly(underWay, limit, this.#state.pace, exchange.arrivedAt);
    if (refusal !== null) exchange.refuse(refusal);
    else this.#classify.run(exchange, request);
    return exchange;
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

  activeBookings(): number {
    return this.#deps.scheduler.loads.activeBookings;
  }

  #classified(exchange: Exchange, request: RoadRequest, classification: Classification | null): void {
    const { gate, leg } = request;
    const goOn = (next: RoadRequest): void =>
      this.#walk({
        exchange,
        request: next,
        classification: classification ?? leg?.classification ?? null,
        heldSince: null,
      });
    if (gate === undefined) goOn(request);
    else this.#gates.hold(gate, exchange, classification, goOn);
  }

  #walk(walk: Walk): void {
    const error = this.#walker.walk(walk);
    if (error === null) return;
    const refusal = this.#hold.take(walk, error);
    if (refusal !== null) walk.exchange.refuse(refusal);
  }
}

// The road where workers are divided into those that compute prompts and those that decode: a layer above the road for one worker, for
// requests of models that have such workers. Decides at a request's gate who computes its prompt, once it is classified.
import type { DisaggregationSettings } from '../../config/index.ts';
import type { Classification } from '../../host/index.ts';
import { PointsmanError, type Rng } from '../../plugin/index.ts';
import { NO_HOLD } from '../first-worker-hold.ts';
import type { GatedRequest, RequestGate } from '../gates.ts';
import { createRoad } from '../road.ts';
import type { RoadDeps } from '../road-deps.ts';
import type {
  ChoosingRoad,
  ResponseSink,
  Road,
  RoadRequest,
  RoadTicket,
  RoutingConstraints,
} from '../types.ts';
import { type Bypass, BypassProbes } from './bypass-probes.ts';
import { localRequest, prefillRequest } from './legs.ts';
import { PrefillRouters } from './prefill-routers.ts';
import { SplitRequest } from './split-request.ts';

/** What the layer needs beside the road's parts. */
export interface DisaggregationDeps {
  /** Read at each request. */
  readonly settings: () => DisaggregationSettings;
  /** For rooms. */
  readonly rng: Rng;
}

/** The road of a router, with the layer above it. */
export function createDisaggregatedRoad(deps: RoadDeps, disaggregation: DisaggregationDeps): ChoosingRoad {
  const road = createRoad(deps);
  const routers = new PrefillRouters(deps.fleet);
  const layer = new DisaggregationLayer(road, routers, deps, disaggregation);
  return {
    arrive: (request, sink) => layer.arrive(request, sink),
    workerGone: (workerId) => road.workerGone(workerId),
    hintOutcome: (event) => road.hintOutcome(event),
    unsettled: () => road.unsettled(),
    expireBookings: () => road.expireBookings(),
    activeBookings: () => road.activeBookings(),
    setQueues: (settings) => road.setQueues(settings),
    close: () => road.close(),
    choose: (request) => road.choose(request),
    project: (request) => road.project(request),
    waitingOf: (partition) => road.waitingOf(partition),
  };
}

class DisaggregationLayer {
  readonly #road: Road;
  readonly #routers: PrefillRouters;
  readonly #deps: RoadDeps;
  readonly #own: DisaggregationDeps;
  readonly #probes: BypassProbes;

  constructor(road: Road, routers: PrefillRouters, deps: RoadDeps, own: DisaggregationDeps) {
    this.#road = road;
    this.#routers = routers;
    this.#deps = deps;
    this.#own = own;
    this.#probes = new BypassProbes(deps);
  }

  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket {
    const { model } = request.partition;
    // Whoever carries its requests itself, or names a role, chooses among the two kinds as well.
    if (request.role !== 'aggregated' || (request.caller ?? null) !== null)
      return this.#road.arrive(request, sink);
    const waits = (this.#deps.firstWorkerHold ?? NO_HOLD).waitMs > 0;
    const divides = this.#routers.divides(model) && !(waits && this.#routers.isDeserted(model));
    if (!divides && !waits) return this.#road.arrive(request, sink);
    const answered = new AnsweredRequest(sink);
    const gate: RequestGate = (held, classification) => this.#gated(request, answered, held, classification);
    const ticket = this.#road.arrive(
      divides
        ? { ...request, role: 'decode', gate }
        : { ...request, divided: { gate, isOpen: () => this.#isOpen(model) } },
      answered,
    );
    return answered.ticketOf(ticket);
  }

  /** Whether a request that waited for its first worker can be served by two. */
  #isOpen(model: string): boolean {
    const hasPrefill = this.#routers.stateOf(model) === 'active' || this.#own.settings().decodeFallback;
    return hasPrefill && this.#routers.decodes(model);
  }

  /** Decides who computes the prompt. */
  #gated(
    request: RoadRequest,
    answered: AnsweredRequest,
    held: GatedRequest,
    classification: Classification | null,
  ): () => void {
    const { model } = request.partition;
    const settings = this.#own.settings();
    const nothing = (): void => undefined;
    if (!this.#routers.decodes(model)) {
      this.#count(model, 'refused');
      held.fail(noDecodeWorker(model));
      return nothing;
    }
    if (this.#routers.stateOf(model) !== 'active') {
      if (settings.decodeFallback) this.#local(request, held, request.constraints, 'no_prefill_worker');
      else {
        this.#count(model, 'refused');
        held.fail(noPrefillWorker(model, this.#routers.stateOf(model)));
      }
      return nothing;
    }
    const bypass = this.#bypass(settings, request);
    if (bypass !== null) {
      this.#local(request, held, { ...request.constraints, pinnedWorker: bypass.rank }, bypass.reason);
      return nothing;
    }
    const { fleet, metrics } = this.#deps;
    const split = new SplitRequest(
      { road: this.#road, fleet, metrics, rng: this.#own.rng, conditional: settings.conditional !== null },
      request,
      held,
    );
    answered.follow(split);
    split.start(classification);
    return () => split.abandoned();
  }

  #local(
    request: RoadRequest,
    held: GatedRequest,
    constraints: RoutingConstraints,
    why: 'no_prefill_worker' | Bypass['reason'],
  ): void {
    this.#count(request.partition.model, why === 'no_prefill_worker' ? 'fallback' : 'bypass');
    held.open(localRequest(request, constraints, { leg: 'decode', kind: null, local: why, other: null }));
  }

  #bypass({ conditional }: DisaggregationSettings, request: RoadRequest): Bypass | null {
    if (conditional === null) return null;
    try {
      const record = { leg: 'prefill', kind: null, local: null, other: null } as const;
      const prefill = prefillRequest(request, null, record, () => {
        throw new Error('a probe is never sent');
      });
      const local = localRequest(request, request.constraints, { ...record, leg: 'decode' });
      return this.#probes.decide(conditional, request, { prefill, local });
    } catch {
      // What is wrong with the leg is told when it is sent.
      return null;
    }
  }

  #count(model: string, path: string): void {
    this.#deps.metrics.count('pointsman_disaggregated_requests_total', { model, path });
  }
}

/** A client's side of a request that may have two legs. */
class AnsweredRequest implements ResponseSink {
  readonly #sink: ResponseSink;
  #split: SplitRequest | null = null;
  #ticket: RoadTicket | null = null;
  #begun = false;
  #over = false;
  /** The client left, and the decode leg goes on until it has taken the blocks. */
  #leaves = false;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  follow(split: SplitRequest): void {
    this.#split = split;
  }

  /** What the client's door holds. */
  ticketOf(ticket: RoadTicket): RoadTicket {
    this.#ticket = ticket;
    return {
      requestId: ticket.requestId,
      abort: () => this.#abort(ticket),
      pause: () => {
        if (!this.#leaves) ticket.pause();
      },
      resume: () => ticket.resume(),
    };
  }

  booked(...booked: Parameters<ResponseSink['booked']>): void {
    this.#split?.decodeBooked(...booked);
    this.#tell(() => this.#sink.booked(...booked));
  }

  dispatched(): void {
    this.#tell(() => this.#sink.dispatched?.());
  }

  head(...head: Parameters<ResponseSink['head']>): void {
    this.#tell(() => this.#sink.head(...head));
  }

  data(bytes: Uint8Array): void {
    this.#begins();
    this.#tell(() => this.#sink.data(bytes));
  }

  tokens(count: number): void {
    this.#begins();
    this.#tell(() => this.#sink.tokens(count));
  }

  finished(...finished: Parameters<ResponseSink['finished']>): void {
    this.#over = true;
    this.#split?.ended(true);
    if (!this.#leaves) this.#sink.finished(...finished);
  }

  failed(...failed: Parameters<ResponseSink['failed']>): void {
    this.#over = true;
    this.#split?.ended(false);
    if (!this.#leaves) this.#sink.failed(...failed);
  }

  waits(): boolean {
    return !this.#leaves && (this.#sink.waits?.() ?? false);
  }

  /** A door that throws ends its request, and is told of no end. */
  #tell(tell: () => void): void {
    if (this.#leaves) return;
    try {
      tell();
    } catch (thrown) {
      this.#over = true;
      this.#split?.ended(false);
      throw thrown;
    }
  }

  /** There is output, so the blocks are taken. A head says nothing: engines send that of a stream before they begin. */
  #begins(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#split?.decodeBegun();
    if (this.#leaves) this.#ticket?.abort();
  }

  #abort(ticket: RoadTicket): void {
    if (this.#over || this.#leaves) return;
    if (this.#split?.computed === true && !this.#begun) {
      this.#leaves = true;
      ticket.resume();
      return;
    }
    this.#over = true;
    this.#split?.abandoned();
    ticket.abort();
  }
}

function noPrefillWorker(model: string, state: string): PointsmanError {
  const why =
    state === 'pending' ? 'no prefill worker has been ready yet' : 'no prefill worker is ready any more';
  return new PointsmanError(
    'PM_DISAGG_NO_PREFILL',
    `model "${model}" is served by separate prefill and decode workers, and ${why}; router.decode_fallback: true lets decode workers compute prompts`,
    { details: { model, state } },
  );
}

function noDecodeWorker(model: string): PointsmanError {
  return new PointsmanError(
    'PM_SELECTION_NO_ENDPOINTS',
    `model "${model}" is served by separate prefill and decode workers, and no decode worker is ready`,
    { details: { model, role: 'decode' } },
  );
}

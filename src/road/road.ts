// The one way through the router: classify → queue → select → book → hint → dispatch, one synchronous walk; what follows comes
// through the exchange. No promise is made or awaited here.
import type { EngineExchange, EngineRequest, EngineTransport } from '../engines/index.ts';
import type { Fleet, Worker, WorkerHealth } from '../fleet/index.ts';
import type { HintBooking, HintStage, HintStageResult } from '../host/index.ts';
import type { DecisionRing, MetricLabels, Metrics, StoredDecision } from '../observe/index.ts';
import { type Clock, type KvHint, PointsmanError } from '../plugin/index.ts';
import type { Placement, Scheduler } from '../scheduling/index.ts';
import { admitDirectly } from './admission.ts';
import { classifyPassThrough } from './classify.ts';
import { commitFor, countCommitMade, settleCommit } from './commits.ts';
import { type BookingFacts, DecisionWriter, type EventStreams } from './decision-writer.ts';
import { Exchange } from './exchange.ts';
import { fetchedBlocks, predictedTokens } from './prediction.ts';
import { type LookupDeps, type PromptLookup, PromptLookups } from './prompt-lookup.ts';
import type { RoadState } from './road-state.ts';
import { HintOutcomes } from './sent-hints.ts';
import type { LateHintOutcome, ResponseSink, Road, RoadRequest, RoadTicket } from './types.ts';

/** What a road is made of. */
export interface RoadDeps extends LookupDeps {
  readonly fleet: Fleet;
  readonly scheduler: Scheduler;
  readonly transportFor: (worker: Worker) => EngineTransport;
  /** Null = worker health is nobody's business. */
  readonly health: WorkerHealth | null;
  readonly decisions: DecisionRing | null;
  /** Router mode, for the record; read at each decision, as `concurrentRequests` is at each arrival. */
  readonly mode: string;
  /** Most requests booked at once. */
  readonly concurrentRequests: number;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Event streams, for the record; absent = none are heard. */
  readonly events?: EventStreams;
  /** Told of each finished request how many whole blocks of its prompt the worker did not find cached, by its own report. */
  readonly computedBlocks?: (workerId: bigint, blocks: number) => void;
}

/** The booking's committed copy cannot be sent and the booking is to be given up. */
const COMMIT_RELEASED = Symbol('commit released');

const NO_EVENTS: EventStreams = { ageMs: () => null, stale: () => false };

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
  readonly #writer: DecisionWriter | null;
  readonly #lookups: PromptLookups;

  constructor(deps: RoadDeps) {
    this.#deps = deps;
    this.#lookups = new PromptLookups(deps);
    const labels = new Map<string, MetricLabels>();
    this.#state = {
      clock: deps.clock,
      scheduler: deps.scheduler,
      decisions: deps.decisions,
      health: deps.health,
      metrics: deps.metrics,
      exchanges: new Set(),
      hintOutcomes: new HintOutcomes(),
      computedBlocks: deps.computedBlocks ?? null,
      modelLabels(model) {
        const known = labels.get(model);
        if (known !== undefined) return known;
        const made = { model };
        labels.set(model, made);
        return made;
      },
    };
    this.#writer =
      deps.decisions === null
        ? null
        : new DecisionWriter(deps.decisions, deps.fleet, () => deps.mode, deps.events ?? NO_EVENTS);
  }

  arrive(request: RoadRequest, sink: ResponseSink): RoadTicket {
    const exchange = new Exchange(this.#state, request, sink);
    const { policyClass } = classifyPassThrough();
    const refusal = admitDirectly(this.#state.exchanges.size, this.#deps.concurrentRequests);
    if (refusal !== null) exchange.refuse(refusal);
    else this.#walk(exchange, request, policyClass);
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

  activeBookings(): number {
    return this.#deps.scheduler.loads.activeBookings;
  }

  #walk(exchange: Exchange, request: RoadRequest, policyClass: string): void {
    const { fleet, transportFor } = this.#deps;
    let lookup: PromptLookup;
    let placement: Placement;
    try {
      lookup = this.#lookups.of(request);
      placement = this.#place(request, lookup, true);
    } catch (thrown) {
      exchange.refuse(asPointsmanError(thrown));
      return;
    }
    let { slot, rank, workerId: placedOn } = placement;
    let outcome = this.#bookAndHint(exchange, request, policyClass, lookup, placement, 1);
    if (outcome === COMMIT_RELEASED) {
      // What was counted on cannot be had: choose once more without counting on any copy.
      exchange.giveUpBooking();
      if (exchange.over) return;
      try {
        placement = this.#place(request, lookup, false);
      } catch (thrown) {
        exchange.refuse(asPointsmanError(thrown));
        return;
      }
      ({ slot, rank, workerId: placedOn } = placement);
      outcome = this.#bookAndHint(exchange, request, policyClass, lookup, placement, 2);
    }
    const hint = outcome === COMMIT_RELEASED ? null : outcome;
    // From here on others are told, and each of them may end the exchange or start another walk.
    exchange.announce(rank);
    const worker = fleet.workerOfSlot(slot);
    if (exchange.over) return;
    if (worker === null) {
      exchange.lose(workerLost(placedOn));
      return;
    }
    let engine: EngineExchange;
    try {
      engine = transportFor(worker).dispatch(engineRequest(request, worker, rank, hint), exchange);
    } catch (thrown) {
      exchange.failed(asPointsmanError(thrown));
      return;
    }
    exchange.dispatched(engine);
  }

  #place(request: RoadRequest, lookup: PromptLookup, copyCredit: boolean): Placement {
    return this.#deps.scheduler.place({
      requestId: request.requestId,
      partition: request.partition,
      role: request.role,
      runtime: lookup.runtime,
      promptTokens: request.tokens.length,
      blockSize: lookup.blockSize,
      hashes: lookup.hashes,
      match: lookup.match,
      session: request.session,
      constraints: request.constraints,
      expectedOutputTokens: request.expectedOutputTokens,
      copyCredit,
    });
  }

  /** Arms the booking, takes the decision down and runs the hint stage; returns the envelope to send, if any. */
  #bookAndHint(
    exchange: Exchange,
    request: RoadRequest,
    policyClass: string,
    lookup: PromptLookup,
    placement: Placement,
    bookings: number,
  ): KvHint | typeof COMMIT_RELEASED | null {
    const { runtime, blockSize, hashes, match } = lookup;
    const { attempt, workerId, slot, rank, table, row } = placement;
    const promptTokens = request.tokens.length;
    const matched = (table.deviceBlocks[row] ?? 0) + (table.hostBlocks[row] ?? 0);
    const predicted = match === null ? null : predictedTokens(matched, promptTokens, blockSize);
    const decision = this.#takeDown({
      request,
      policyClass,
      attempt: bookings,
      lookup,
      placement,
      predictedTokens: predicted,
      atMs: this.#deps.clock.now(),
      nowMicros: this.#deps.wallMicros(),
    });
    const hold = runtime.hold ?? null;
    exchange.booked({ attempt, workerId, blockSize, decision, predictedTokens: predicted, hold });
    const commit = commitFor(placement.commit, runtime.commits);
    if (commit !== null) countCommitMade(this.#deps.metrics, runtime.policy.type);
    if (runtime.hintStage === null && commit === null) return null;
    const before = this.#deps.wallMicros();
    const result = runHintStage(runtime.hintStage, {
      requestId: request.requestId,
      slot,
      workerId,
      rank,
      role: request.role,
      partition: request.partition,
      promptTokens,
      blockSize,
      session: request.session,
      hashes,
      match,
      index: this.#deps.index,
      incomingHint: request.incomingHint,
      selected: { table, row },
      commit,
    });
    const settled =
      commit === null ? null : settleCommit(this.#deps.metrics, runtime.policy.type, commit, result?.commit);
    const released = settled?.result === 'released';
    if (result === null) return released ? COMMIT_RELEASED : null;
    const { hint } = result;
    const fetched = hint === null ? 0 : predictedTokens(fetchedBlocks(hint), promptTokens, blockSize);
    const withHints = predicted === null ? null : Math.max(predicted, fetched);
    if (decision !== null) {
      this.#writer?.hinted(
        decision,
        request.requestId,
        result,
        settled,
        withHints,
        this.#deps.wallMicros() - before,
      );
    }
    if (released) return COMMIT_RELEASED;
    if (hint !== null) exchange.hinted(hint, withHints);
    return hint;
  }

  /** A decision that cannot be recorded is carried out all the same: the load is booked already. */
  #takeDown(facts: BookingFacts): StoredDecision | null {
    try {
      return this.#writer?.open(facts) ?? null;
    } catch {
      this.#deps.metrics.count('pointsman_decisions_unrecorded_total');
      return null;
    }
  }
}

/** The stage contains its policies; should it fail itself, the request goes on without a hint. */
function runHintStage(stage: HintStage | null, booking: HintBooking): HintStageResult | null {
  try {
    return stage?.run(booking) ?? null;
  } catch {
    return null;
  }
}

function engineRequest(
  request: RoadRequest,
  worker: Worker,
  rank: number,
  hint: KvHint | null,
): EngineRequest {
  return {
    requestId: request.requestId,
    partition: request.partition,
    role: request.role,
    worker,
    rank,
    servedAs: request.servedAs,
    api: request.api,
    body: request.body,
    stream: request.stream,
    tokens: request.tokensSource === 'estimate' ? null : request.tokens,
    maxOutputTokens: request.maxOutputTokens,
    session: request.session,
    hint,
  };
}

function workerLost(workerId: bigint): PointsmanError {
  return new PointsmanError(
    'PM_ENGINE_LOST',
    `worker ${workerId} was lost before its answer was complete; send the request again`,
    { details: { worker_id: String(workerId) } },
  );
}

function asPointsmanError(thrown: unknown): PointsmanError {
  if (thrown instanceof PointsmanError) return thrown;
  return new PointsmanError('PM_INTERNAL', 'something failed inside the router', { cause: thrown });
}

// A walk: from a classified request to its dispatch. Look up, choose and book in one synchronous step, run the hint stage, send. A
// walk goes on in a callback where hint policies in threads of their own answer later. No promise is made or awaited here.
import type { EngineExchange } from '../engines/index.ts';
import type { HintBooking, HintStageResult } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type { StoredDecision } from '../observe/index.ts';
import type { KvHint, PointsmanError } from '../plugin/index.ts';
import type { LinkTimes, Placement } from '../scheduling/index.ts';
import type { AdmissionQueue } from './admission-queue.ts';
import { type AffinityStep, unplaced } from './affinity-step.ts';
import { type Choice, isChoiceOnly, NO_REPORT, type Projection, promptTokensOf } from './caller-part.ts';
import { policyClassOf } from './classify.ts';
import { commitFor, countCommitMade, settleCommit } from './commits.ts';
import { type BookingFacts, DecisionWriter, type EventStreams } from './decision-writer.ts';
import { engineRequest } from './engine-request.ts';
import type { Exchange } from './exchange.ts';
import { endedEarly, hasNothingToRun, runHintStage, startHintStage } from './hint-stages.ts';
import { withConversation } from './keyless.ts';
import { messageIdOf } from './message-id.ts';
import { placementRequest } from './placement-request.ts';
import { fetchedBlocks, hostTokens, predictedTokens } from './prediction.ts';
import { type PromptLookup, PromptLookups } from './prompt-lookup.ts';
import type { RoadDeps } from './road-deps.ts';
import { asPointsmanError, workerLost } from './road-errors.ts';
import type { SessionPorts } from './session-ports.ts';
import type { StagedBooking, Walk } from './staged-booking.ts';
import type { RoadRequest } from './types.ts';

/** The booking's committed copy cannot be sent and the booking is to be given up. */
const COMMIT_RELEASED = Symbol('commit released');

/** The booking waits for hint policies in threads of their own. */
const HELD = Symbol('held');

const NO_EVENTS: EventStreams = { ageMs: () => null, stale: () => false };

/** Walks requests, one synchronous walk at a time. */
export class Walker {
  readonly #deps: RoadDeps;
  readonly #lookups: PromptLookups;
  readonly #writer: DecisionWriter | null;
  readonly #queue: AdmissionQueue<Exchange>;
  readonly #affinity: AffinityStep;
  readonly #sessions: SessionPorts | null;
  readonly #links: LinkTimes;

  constructor(deps: RoadDeps, queue: AdmissionQueue<Exchange>, affinity: AffinityStep, links: LinkTimes) {
    this.#deps = deps;
    this.#queue = queue;
    this.#links = links;
    this.#affinity = affinity;
    this.#sessions = deps.sessions ?? null;
    this.#lookups = new PromptLookups(deps);
    this.#writer =
      deps.decisions === null
        ? null
        : new DecisionWriter(deps.decisions, deps.fleet, () => deps.mode, deps.events ?? NO_EVENTS);
  }

  /**
   * Places a request, books it and sends it, unless it has to wait for its turn or its session's binding, or is only chosen for. What
   * fails after the booking ends the exchange.
   * @returns null, or why it cannot be placed, or may not wait: then nothing is booked and the exchange knows nothing of it.
   */
  walk(walk: Walk): PointsmanError | null {
    const { admitted = null } = walk;
    let passed = walk;
    let lookup: PromptLookup;
    let placement: Placement;
    try {
      this.#deps.beliefs?.expire(this.#deps.clock.now());
      lookup = this.#lookups.of(walk.request, walk.known);
      passed = withConversation(this.#deps, walk, lookup);
      const { request } = passed;
      if (this.#queue.active && admitted === null && (request.caller?.target ?? null) === null) {
        const outcome = this.#queue.pass(passed, lookup);
        if (outcome.kind === 'refused') return outcome.error;
        if (outcome.kind === 'waits') return null;
        passed = { ...passed, admitted: outcome.facts };
      }
      if (isChoiceOnly(request)) {
        request.caller?.placed(lookup, this.#chosen(request, lookup));
        walk.exchange.finished(NO_REPORT);
        return null;
      }
      walk.exchange.admitted = passed.admitted ?? null;
      if (this.#affinity.active) {
        const bound = this.#affinity.take(passed, lookup);
        if (bound === null) return null;
        passed = bound;
      }
      placement = this.#place(passed, lookup, true);
    } catch (thrown) {
      return unplaced(passed.binding, passed.request, thrown);
    }
    this.#bookAndSend(passed, lookup, placement, 1);
    return null;
  }

  /** Chooses for a request and books nothing. @throws PointsmanError as of the look-up and {@link Scheduler.place} */
  choose(request: RoadRequest): Choice {
    this.#deps.beliefs?.expire(this.#deps.clock.now());
    const lookup = this.#lookups.of(request);
    return { lookup, placement: this.#chosen(request, lookup) };
  }

  /** All candidates of a request. @throws PointsmanError as of the look-up */
  project(request: RoadRequest): Projection {
    this.#deps.beliefs?.expire(this.#deps.clock.now());
    const lookup = this.#lookups.of(request);
    return {
      lookup,
      table: this.#deps.scheduler.project(placementRequest(request, null, lookup, false, this.#sessions)),
    };
  }

  #chosen(request: RoadRequest, lookup: PromptLookup): Placement {
    return this.#affinity.choose(request, placementRequest(request, null, lookup, true, this.#sessions));
  }

  /** From a placement to the engine, unless the hint stage waits: then the rest follows when it answers. */
  #bookAndSend(walk: Walk, lookup: PromptLookup, placement: Placement, bookings: number): void {
    const { attempt, slot, rank, workerId } = placement;
    let outcome: KvHint | typeof COMMIT_RELEASED | typeof HELD | null;
    try {
      outcome = this.#bookAndHint(walk, lookup, placement, bookings);
    } catch (thrown) {
      // No door has a ticket yet that could end it; and it may not even be the exchange's.
      if (walk.exchange.attempt !== attempt) this.#deps.scheduler.release(attempt);
      walk.binding?.ended(null);
      walk.exchange.failed(asPointsmanError(thrown));
      return;
    }
    if (outcome === HELD) return;
    if (outcome === COMMIT_RELEASED && bookings === 1) this.#placeAgain(walk, lookup);
    else this.#send(walk, slot, rank, workerId, outcome === COMMIT_RELEASED ? null : outcome);
  }

  /** What was counted on cannot be had: chooses once more without counting on any copy. `lookup` null = its match is gone. */
  #placeAgain(walk: Walk, lookup: PromptLookup | null): void {
    const { binding, exchange, request } = walk;
    exchange.giveUpBooking();
    if (exchange.over) return;
    let again: PromptLookup;
    let placement: Placement;
    try {
      again = lookup ?? this.#lookups.of(request);
      placement = this.#place(walk, again, false);
    } catch (thrown) {
      exchange.refuse(unplaced(binding, request, thrown));
      return;
    }
    this.#bookAndSend(walk, again, placement, 2);
  }

  #send(
    { binding, exchange, request }: Walk,
    slot: OwnerSlot,
    rank: number,
    placedOn: bigint,
    hint: KvHint | null,
  ): void {
    const { fleet, transportFor } = this.#deps;
    const { caller } = request;
    const refused = binding?.commit({ workerId: placedOn, rank }) ?? null;
    if (refused !== null) {
      exchange.cancel(refused);
      return;
    }
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
      exchange.sending();
      const transport = caller?.transport ?? transportFor(worker);
      const asksIds = saysIds(request) && this.#deps.asksIds?.(slot) === true;
      engine = transport.dispatch(engineRequest(request, worker, rank, hint, asksIds), exchange);
    } catch (thrown) {
      exchange.failed(asPointsmanError(thrown));
      return;
    }
    exchange.dispatched(engine);
  }

  #place(
    { binding = null, classification, request }: Walk,
    lookup: PromptLookup,
    copyCredit: boolean,
  ): Placement {
    const placing = placementRequest(request, classification, lookup, copyCredit, this.#sessions);
    return this.#deps.scheduler.place(binding === null ? placing : binding.placing(placing));
  }

  /** Arms the booking, takes the decision down and runs the hint stage; returns the envelope to send, if any. */
  #bookAndHint(
    walk: Walk,
    lookup: PromptLookup,
    placement: Placement,
    bookings: number,
  ): KvHint | typeof COMMIT_RELEASED | typeof HELD | null {
    const { binding = null, exchange, request, classification } = walk;
    const { runtime, blockSize, hashes, match } = lookup;
    const { attempt, workerId, slot, rank, table, row } = placement;
    const promptTokens = promptTokensOf(request);
    const matched = (table.deviceBlocks[row] ?? 0) + (table.hostBlocks[row] ?? 0);
    const credited = match !== null && request.leg?.overrides.overlapCredit !== false;
    const predicted = !credited ? null : predictedTokens(matched, promptTokens, blockSize);
    const predictedHostTokens = hostTokens(predicted ?? 0, table.deviceBlocks[row] ?? 0, blockSize);
    const decision = this.#takeDown({
      request,
      policyClass: walk.admitted?.policyClass ?? policyClassOf(classification),
      admitted: walk.admitted ?? null,
      classification,
      affinity: binding?.placed({ workerId, rank }) ?? null,
      attempt: exchange.bookings + 1,
      heldSince: walk.heldSince,
      lookup,
      placement,
      predictedTokens: predicted,
      predictedHostTokens,
      atMs: this.#deps.clock.now(),
      arrivedMs: exchange.arrivedAt,
      nowMicros: this.#deps.wallMicros(),
    });
    const hold = runtime.hold ?? null;
    exchange.booked({
      attempt,
      workerId,
      rank,
      slot,
      blockSize,
      hashes,
      decision,
      predictedTokens: predicted,
      predictedHostTokens,
      bookedAt: this.#deps.clock.now(),
      hold,
      binding,
    });
    const sessions = this.#sessions;
    if (request.session !== null) sessions?.booked(request, slot, match, hashes);
    request.caller?.placed(lookup, placement);
    const commit = commitFor(placement.commit, runtime.commits);
    if (commit !== null) countCommitMade(this.#deps.metrics, runtime.policy.type);
    if (commit === null && hasNothingToRun(runtime, request, decision)) return null;
    const { hintStage, threadedHints = null } = runtime;
    const messageId = messageIdOf(request, exchange.bookings);
    const staged: StagedBooking = {
      exchange,
      decision,
      predictedTokens: predicted,
      policy: runtime.policy.type,
      messageId,
      promptTokens,
      blockSize,
      commit,
      startedMicros: this.#deps.wallMicros(),
    };
    const booking: HintBooking = {
      requestId: request.requestId,
      messageId,
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
      loadOf: this.#deps.scheduler.requestsOn,
      links: this.#links,
      commit,
      lineage: sessions !== null && runtime.needs.lineage ? sessions.lineageFor(request, slot) : null,
      residency: sessions !== null && runtime.needs.residency ? sessions.residencyFor(slot) : null,
    };
    if (threadedHints === null) return this.#hinted(staged, runHintStage(hintStage, booking));
    const result = startHintStage(threadedHints, booking, (late) => {
      exchange.waitedFor();
      try {
        const outcome = this.#hinted(staged, late);
        if (outcome === COMMIT_RELEASED && bookings === 1) this.#placeAgain(walk, null);
        else this.#send(walk, slot, rank, workerId, outcome === COMMIT_RELEASED ? null : outcome);
      } catch (thrown) {
        // Nobody is above to whom it could go.
        exchange.failed(asPointsmanError(thrown));
      }
    });
    if (result === null || !('pending' in result)) return this.#hinted(staged, result);
    exchange.waitsFor(() => {
      result.cancel();
      this.#hinted(staged, endedEarly(commit));
    });
    return HELD;
  }

  /** Takes down what the hint stage made of a booking; returns the envelope to send, if any. */
  #hinted(staged: StagedBooking, result: HintStageResult | null): KvHint | typeof COMMIT_RELEASED | null {
    const { exchange, decision, predictedTokens: predicted, commit, promptTokens, blockSize } = staged;
    const settled =
      commit === null ? null : settleCommit(this.#deps.metrics, staged.policy, commit, result?.commit);
    const released = settled?.result === 'released';
    if (result === null) return released ? COMMIT_RELEASED : null;
    const { hint } = result;
    const fetched = hint === null ? 0 : predictedTokens(fetchedBlocks(hint), promptTokens, blockSize);
    const withHints = predicted === null ? null : Math.max(predicted, fetched);
    if (decision !== null) {
      const micros = this.#deps.wallMicros() - staged.startedMicros;
      this.#writer?.hinted(decision, staged.messageId, result, settled, withHints, micros);
    }
    if (released) return COMMIT_RELEASED;
    if (hint !== null) exchange.hinted(hint, result?.actionPolicies ?? [], withHints);
    if (fetched > 0 && exchange.attempt !== null)
      this.#deps.scheduler.copies.copyBegun(exchange.attempt, fetched);
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

/** Whether a whole request goes to one engine whose ids would be those that the router has. */
function saysIds({ caller = null, leg, tokensSource }: RoadRequest): boolean {
  return caller === null && leg === undefined && tokensSource !== 'estimate';
}

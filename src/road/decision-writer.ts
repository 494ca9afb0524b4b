// Takes a decision down: gathers what the steps of the road know into the one input of the decision ring.
import type { Fleet } from '../fleet/index.ts';
import type { Classification, HintStageResult } from '../host/index.ts';
import type { OwnerSlot } from '../kv/index.ts';
import type {
  AffinityRecord,
  DecisionExclusions,
  DecisionInput,
  DecisionRecord,
  DecisionRing,
  IneligibleReason,
  StoredDecision,
} from '../observe/index.ts';
import { EXCLUSION_REASONS, type ExcludedRows, type Placement } from '../scheduling/index.ts';
import { promptTokensOf } from './caller-part.ts';
import type { PromptLookup } from './prompt-lookup.ts';
import type { QueueFacts } from './queue-walk.ts';
import { sentHintRecords } from './sent-hints.ts';
import type { RoadRequest } from './types.ts';

/** Ages of event streams are recorded for at most this many workers. */
const MOST_AGES = 64;
const NONE: readonly never[] = [];

/** What the steps of the road know when a booking was just made. */
export interface BookingFacts {
  readonly request: RoadRequest;
  readonly policyClass: string;
  /** Null = nobody classifies. */
  readonly classification: Classification | null;
  /** Null = its session is not bound, or it has none. */
  readonly affinity: AffinityRecord | null;
  /** 1 = the request's first booking. */
  readonly attempt: number;
  readonly lookup: PromptLookup;
  readonly placement: Placement;
  readonly predictedTokens: number | null;
  readonly predictedHostTokens: number;
  /** Since when it waited for a worker, ms of the clock; null = it did not. */
  readonly heldSince: number | null;
  /** How it passed the queue; null = its model has none. */
  readonly admitted: QueueFacts | null;
  readonly atMs: number;
  /** When the request arrived, ms of the clock. */
  readonly arrivedMs: number;
  /** Wall clock, in µs. */
  readonly nowMicros: number;
}

/** What the record tells of event streams, by slot. */
export interface EventStreams {
  /** Ms since the last KV event; null = none yet. */
  ageMs(slot: OwnerSlot): number | null;
  /** Whether batches of the stream are missing. */
  stale(slot: OwnerSlot): boolean;
  /** Codes of what parity checks found of it; null or absent = nobody compares. */
  parity?(slot: OwnerSlot): readonly string[] | null;
}

/** Writes to the ring. */
export class DecisionWriter {
  readonly #ring: DecisionRing;
  readonly #fleet: Fleet;
  readonly #mode: () => string;
  readonly #events: EventStreams;
  readonly #excluded: ExcludedView;

  constructor(ring: DecisionRing, fleet: Fleet, mode: () => string, events: EventStreams) {
    this.#ring = ring;
    this.#fleet = fleet;
    this.#mode = mode;
    this.#events = events;
    this.#excluded = new ExcludedView(fleet);
  }

  /** Opens the record of a booking that was just made. */
  open(facts: BookingFacts): StoredDecision {
    const {
      request,
      policyClass,
      classification,
      affinity,
      attempt,
      lookup,
      placement,
      predictedTokens,
      predictedHostTokens,
      heldSince,
      admitted,
      atMs,
      arrivedMs,
      nowMicros,
    } = facts;
    const { runtime, hashes, match } = lookup;
    const { pick, table } = placement;
    const timeCost = placement.fellBackOn === null ? (runtime.timeCost ?? null) : null;
    const { router_temperature: usual = 0 } = placement.costWeights ?? timeCost?.weights ?? {};
    this.#excluded.rows = placement.excluded;
    return this.#ring.open({
      requestId: request.requestId,
      attempt,
      atMs,
      arrivedMs,
      door: request.door,
      model: request.partition.model,
      routingGroup: request.partition.routingGroup,
      role: request.role,
      mode: this.#mode(),
      policy: runtime.policy,
      session: request.session,
      policyClass,
      queuedMs: waitedSince(heldSince, atMs),
      turn: turnOf(admitted, atMs),
      classification,
      agentHints: request.agentHints ?? null,
      stripped: request.stripped ?? NONE,
      handoff: request.leg?.record ?? null,
      affinity,
      promptTokens: promptTokensOf(request),
      blocks: Math.floor(promptTokensOf(request) / lookup.blockSize),
      blockSize: lookup.blockSize,
      tokensSource: request.tokensSource,
      estimated: request.estimated ?? null,
      headLow: hashes?.sequence[0] ?? null,
      headHigh: hashes?.sequence[1] ?? 0,
      indexVersion: match?.version ?? null,
      eventAges: match === null ? NONE : this.#ages(placement),
      parity: this.#events.parity?.(placement.slot) ?? null,
      timings: runtime.needs.timing ? table.timings : null,
      columns: table,
      costs: pick.costs,
      droppedBy: pick.droppedBy,
      excluded: this.#excluded,
      row: placement.row,
      costWeights: placement.costWeights,
      timeCost,
      outputTokens: timeCost && (table.averageOutputTokens ?? request.expectedOutputTokens),
      copyLink: timeCost?.peerCopies === true ? table.copyLink : null,
      tracksPrefillTokens: placement.tracksPrefillTokens,
      by: chosenBy(placement, request),
      ties: pick.ties,
      randomDraw: pick.randomDraw,
      temperature: request.constraints.temperature ?? usual,
      attemptId: placement.attempt,
      prefillTokens: placement.prefillTokens,
      decodeBlocks: placement.decodeBlocks,
      predictedTokens,
      predictedHostTokens,
      tokenizeMicros: request.tokenizeMicros,
      hashMicros: lookup.hashMicros,
      lookupMicros: lookup.lookupMicros,
      selectMicros: nowMicros - lookup.doneMicros,
    });
  }

  /** Notes what the hint stage did. */
  hinted(
    decision: StoredDecision,
    messageId: string,
    result: HintStageResult,
    commit: NonNullable<DecisionRecord['hints']>['commit'],
    withHintsTokens: number | null,
    micros: number,
  ): void {
    this.#ring.hinted(
      decision,
      {
        message_id: result.hint?.message_id ?? messageId,
        capable: result.capable,
        sent: sentHintRecords(result),
        policies: result.policies,
        commit,
      },
      withHintsTokens,
      micros,
    );
  }

  #ages({ table }: Placement): DecisionInput['eventAges'] {
    const ages: { workerId: bigint; ageMs: number; stale: boolean }[] = [];
    for (let row = 0; row < table.count && ages.length < MOST_AGES; row += 1) {
      const slot = table.slots[row] ?? 0;
      const ageMs = this.#events.ageMs(slot);
      const workerId = this.#fleet.slotWorkerId(slot);
      if (ageMs !== null && workerId !== null)
        ages.push({ workerId, ageMs, stale: this.#events.stale(slot) });
    }
    return ages;
  }
}

function waitedSince(since: number | null, atMs: number): number | null {
  return since === null ? null : atMs - since;
}

function turnOf(admitted: QueueFacts | null, atMs: number): NonNullable<DecisionInput['turn']> | null {
  if (admitted === null) return null;
  const { bucket, costTokens, queuedSince } = admitted;
  return { bucket, costTokens, waitedMs: waitedSince(queuedSince, atMs) };
}

/** How it was chosen, also when the policy did not choose. */
function chosenBy({ fellBackOn, pick }: Placement, { constraints }: RoadRequest): string {
  if (fellBackOn === null) {
    // A policy keeps to a pin and to a preferred worker alike; who asked for it is what people look for.
    return pick.by === 'pinned' && constraints.pinnedWorker === null ? 'affinity' : pick.by;
  }
  return fellBackOn === 'PM_SELECTION_TRIPPED' ? 'default_while_tripped' : 'default_after_failure';
}

/** Those who were no candidates, by slot; one object that the ring reads during its call. */
class ExcludedView implements DecisionExclusions {
  readonly #fleet: Fleet;
  rows: ExcludedRows = { count: 0, slots: new Int32Array(0), reasons: new Uint8Array(0) };

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  get count(): number {
    return this.rows.count;
  }

  workerId(index: number): bigint {
    return this.#fleet.slotWorkerId(this.rows.slots[index] ?? -1) ?? 0n;
  }

  rank(index: number): number {
    return this.#fleet.slotRank(this.rows.slots[index] ?? -1);
  }

  reason(index: number): IneligibleReason {
    return EXCLUSION_REASONS[this.rows.reasons[index] ?? 0] ?? 'gone';
  }
}

// Selections and reservations of one service: what is chosen, what waits for its reservation, and what is booked.
import type { BlockSizes, Fleet } from '../../fleet/index.ts';
import type { BlockHasher } from '../../kv/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { type Clock, type Partition, PointsmanError, type WorkerRank } from '../../plugin/index.ts';
import type { CallerPart, ChoosingRoad } from '../../road/index.ts';
import { type ChosenAnswer, chosenAnswer } from './answers.ts';
import { chooseInTurn } from './choice.ts';
import { bytesOf, type HeldSelection, heldSelection } from './held-selection.ts';
import { noSelection, type PendingLimits, PendingSelections, pendingKey } from './pending-selections.ts';
import type { BlockShape, ReadPrompt } from './prompt-fields.ts';
import { type Reservation, type ReservationRequest, reserve } from './reservation.ts';
import { ReservationTable } from './reservation-table.ts';
import {
  type Asked,
  type AskedPlace,
  choiceRequest,
  freeRequest,
  placeRequest,
  probeRequest,
  replayRequest,
} from './road-requests.ts';
import { asUnknownWorker } from './wire-answer.ts';

/** What the desk works with. */
export interface SelectionDeskOptions {
  readonly road: ChoosingRoad;
  readonly fleet: Fleet;
  readonly blockSizes: BlockSizes;
  readonly hasher: BlockHasher;
  readonly limits: PendingLimits;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** Where the road placed a request. */
type Placed = Parameters<CallerPart['placed']>;

/** A choice made. */
export interface Chosen {
  readonly answer: ChosenAnswer;
  readonly tracksPrefill: boolean;
}

/** A booking made. */
export interface Booked extends Chosen {
  readonly reservation: Reservation;
}

/** Chooses and books. */
export class SelectionDesk {
  readonly #options: SelectionDeskOptions;
  readonly #pending: PendingSelections<HeldSelection>;
  readonly #reservations = new ReservationTable<Reservation>();

  constructor(options: SelectionDeskOptions) {
    this.#options = options;
    const { clock, limits, metrics } = options;
    this.#pending = new PendingSelections(limits, clock, (reason) =>
      metrics.count('pointsman_selector_pending_lost_total', { reason }),
    );
    metrics.gauge('pointsman_selector_pending_entries', () => this.#pending.size);
    metrics.gauge('pointsman_selector_pending_bytes', () => this.#pending.bytes);
    metrics.gauge('pointsman_selector_reservations', () => this.#reservations.size);
  }

  /** How blocks of a partition are hashed. @throws PM_SELECTOR_NOT_READY while that is not known. */
  shapeOf(partition: Partition): BlockShape {
    const { blockSizes, hasher } = this.#options;
    const { model, routingGroup } = partition;
    const blockSize = blockSizes.ofModel(model, routingGroup);
    if (blockSize === null) throw notReady(partition);
    return { hasher, blockSize, pairs: blockSizes.pairsOfModel(model, routingGroup) ?? false };
  }

  /** Chooses when its turn comes and books nothing; kept for a reservation where `keeps` says so. */
  select(asked: Asked, keeps: boolean, signal: AbortSignal): Promise<Chosen> {
    const read = (...at: Placed): Chosen => this.#chosen(asked, keeps, ...at);
    return chooseInTurn(this.#options.road, choiceRequest(asked), read, signal);
  }

  /** The same by the state of this moment, whoever waits. */
  advise(asked: Asked, keeps: boolean): Chosen {
    const { lookup, placement } = this.#options.road.choose(probeRequest(asked));
    return this.#chosen(asked, keeps, lookup, placement);
  }

  /** Chooses and books at once. */
  selectAndReserve(asked: Asked, signal: AbortSignal): Promise<Booked> {
    return this.#book(asked, freeRequest(asked), signal);
  }

  /** Books what was selected under an id. @throws PM_SELECTOR_UNKNOWN */
  async replay(partition: Partition, id: string, signal: AbortSignal): Promise<Booked> {
    const key = pendingKey(partition, id);
    this.#reservations.check(id);
    const entry = this.#pending.peek(key);
    if (entry === null) throw noSelection(id);
    const { generation, value: held } = entry;
    const booked = await this.#bookAt(
      held,
      { id, prompt: held.prompt },
      replayRequest(partition, id, held),
      signal,
    );
    this.#pending.consume(key, generation);
    return booked;
  }

  /** Books a worker that the caller chose; what was selected under the id is forgotten. @throws PM_SELECTOR_UNKNOWN */
  reserveAt(asked: AskedPlace, signal: AbortSignal): Promise<Booked> {
    this.#pending.discard(pendingKey(asked.partition, asked.id));
    return this.#bookAt(asked, asked, placeRequest(asked), signal);
  }

  /** A booked reservation. @throws PM_SELECTOR_UNKNOWN */
  reservation(id: string): Reservation {
    const found = this.#reservations.get(id);
    if (found !== null) return found;
    throw new PointsmanError('PM_SELECTOR_UNKNOWN', `no reservation ${id} is held here`);
  }

  /** Ids held or claimed; 0 when idle. */
  get reservedIds(): number {
    return this.#reservations.rows;
  }

  /** Ends all reservations. */
  close(): void {
    for (const reservation of [...this.#reservations.values()]) reservation.giveUp();
  }

  #chosen(asked: Asked, keeps: boolean, ...[lookup, placement]: Placed): Chosen {
    const answer = chosenAnswer(this.#options.fleet, lookup, placement, asked.prompt.promptTokens);
    if (keeps) {
      const held = heldSelection(asked, placement, answer.effective_prefill_tokens);
      const key = pendingKey(asked.partition, asked.id);
      this.#pending.put(key, held, bytesOf(key, held));
    }
    return { answer, tracksPrefill: placement.tracksPrefillTokens };
  }

  async #bookAt(
    { rank, workerId }: WorkerRank,
    asked: { readonly id: string; readonly prompt: ReadPrompt },
    request: ReservationRequest,
    signal: AbortSignal,
  ): Promise<Booked> {
    try {
      return await this.#book(asked, request, signal);
    } catch (thrown) {
      throw asUnknownWorker(thrown, workerId, rank);
    }
  }

  async #book(
    asked: { readonly id: string; readonly prompt: ReadPrompt },
    request: ReservationRequest,
    signal: AbortSignal,
  ): Promise<Booked> {
    const { fleet, road } = this.#options;
    const claim = this.#reservations.claim(asked.id);
    try {
      const { placed, reservation } = await reserve(
        road,
        request,
        (lookup, placement): Chosen => ({
          answer: chosenAnswer(fleet, lookup, placement, asked.prompt.promptTokens),
          tracksPrefill: placement.tracksPrefillTokens,
        }),
        {
          booked: (made) => claim.install(made),
          ended: (made) => this.#reservations.remove(asked.id, made),
        },
        signal,
      );
      return { ...placed, reservation };
    } finally {
      claim.release();
    }
  }
}

/** Nobody can be chosen yet. */
export function notReady({ model, routingGroup }: Partition): PointsmanError {
  return new PointsmanError(
    'PM_SELECTOR_NOT_READY',
    `no worker of model ${model} in routing group ${routingGroup} can be scheduled; register one, or see what its record lacks in GET /workers`,
    { details: { model_name: model, routing_group: routingGroup } },
  );
}

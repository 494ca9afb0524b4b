// A request booked for a caller that carries it itself: from its arrival on the road to the call that ends it.
import { type KvHint, PointsmanError, type WorkerRank } from '../../plugin/index.ts';
import {
  type CallerPart,
  type CallerSink,
  type CallerTransport,
  NO_REPORT,
  type ResponseSink,
  type Road,
  type RoadRequest,
  type RoadTicket,
} from '../../road/index.ts';

/** What a booking is asked with; the rest of its caller's part is this file's. */
export type ReservationRequest = Omit<RoadRequest, 'caller'> & {
  readonly caller: Omit<CallerPart, 'placed' | 'transport'>;
};

/** A booking, and what was read of its placement. */
export interface Reserved<T> {
  readonly reservation: Reservation;
  readonly placed: T;
}

/** Where a reservation stands; told what becomes of it. */
export interface ReservationEvents {
  /** It is booked and hinted. False = nobody wants it any more: it is ended at once. */
  booked(reservation: Reservation): boolean;
  /** A booked one is over, whoever ended it. */
  ended(reservation: Reservation): void;
}

/** A booked request. */
export class Reservation {
  readonly place: WorkerRank;
  readonly hint: KvHint | null;
  readonly #sink: CallerSink;
  readonly #abort: () => void;

  /** @param abort ends it as one that nobody wanted. */
  constructor(place: WorkerRank, hint: KvHint | null, sink: CallerSink, abort: () => void) {
    this.place = place;
    this.hint = hint;
    this.#sink = sink;
    this.#abort = abort;
  }

  /** The first token is out. */
  prefillCompleted(): void {
    this.#sink.prefillCompleted();
  }

  /** The output grew into one more block. */
  outputBlock(weight: number | null): void {
    this.#sink.outputBlock(weight);
  }

  /** The request is over. */
  finish(): void {
    this.#sink.finished(NO_REPORT);
  }

  /** Its caller never heard of it. */
  giveUp(): void {
    this.#abort();
  }
}

/**
 * Sends a request down the road and waits until it is booked.
 * @param read reads where it is placed, at once.
 * @param signal ends the wait, and the booking with it; its reason is thrown where that is a PointsmanError.
 * @throws PointsmanError as the road refuses; then nothing is booked.
 */
export function reserve<T>(
  road: Pick<Road, 'arrive'>,
  request: ReservationRequest,
  read: (...placed: Parameters<CallerPart['placed']>) => T,
  events: ReservationEvents,
  signal: AbortSignal,
): Promise<Reserved<T>> {
  if (signal.aborted) return Promise.reject(leftBy(signal));
  return new Promise((resolve, reject) => {
    let ticket: RoadTicket | null = null;
    let booked: Reservation | null = null;
    // As placed last: a copy that cannot be sent has a request placed again.
    const places: T[] = [];
    const end = (): void => ticket?.abort();
    const over = (): void => {
      signal.removeEventListener('abort', left);
      const ended = booked;
      booked = null;
      if (ended !== null) events.ended(ended);
    };
    const left = (): void => {
      reject(leftBy(signal));
      end();
    };
    const transport: CallerTransport = {
      dispatch({ hint, rank, worker }, sink) {
        signal.removeEventListener('abort', left);
        const reservation = new Reservation({ workerId: worker.spec.id, rank }, hint, sink, end);
        booked = reservation;
        const placed = places.pop();
        if (placed !== undefined && !signal.aborted && events.booked(reservation)) {
          resolve({ reservation, placed });
        } else {
          reject(leftBy(signal));
          // Not before the road has what this returns.
          queueMicrotask(end);
        }
        return {
          abort: over,
          pause: () => undefined,
          resume: () => undefined,
        };
      },
    };
    const sink: ResponseSink = {
      booked: () => undefined,
      head: () => undefined,
      data: () => undefined,
      tokens: () => undefined,
      finished: over,
      failed(error) {
        over();
        reject(error);
      },
    };
    signal.addEventListener('abort', left);
    ticket = road.arrive(
      {
        ...request,
        caller: { ...request.caller, transport, placed: (...at) => void places.push(read(...at)) },
      },
      sink,
    );
    if (signal.aborted) left();
  });
}

/** Why nobody waits for an answer any more: what the signal says, else its client left. */
export function leftBy({ reason }: AbortSignal): PointsmanError {
  return reason instanceof PointsmanError
    ? reason
    : new PointsmanError('PM_SELECTOR_REQUEST', 'the client left before its turn came');
}

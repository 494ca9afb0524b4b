// The gate between the classify step and the queue: a request whose door asks for it waits there until that door lets it on, perhaps as
// another one. So a prompt can be computed elsewhere first, for a request that is classified, counted and followed only once.

import type { EngineSink } from '../engines/index.ts';
import type { Classification } from '../host/index.ts';
import type { PointsmanError } from '../plugin/index.ts';
import type { RoadRequest } from './types.ts';

/** A request that came to its gate. Calls after its end do nothing. */
export interface GatedRequest {
  /** Lets it on, once. */
  open(request: RoadRequest): void;
  /** Ends it with an error, whether it was let on or not. */
  fail(error: PointsmanError): void;
  /** Answers it in the place of an engine, while it is not let on. */
  readonly answer: Pick<EngineSink, 'head' | 'data' | 'finished'>;
}

/** Takes a request; returns what is called when it ends before it is let on. Must not throw. */
export type RequestGate = (held: GatedRequest, classification: Classification | null) => () => void;

/** The other way of a request that waits for its model's first worker, should workers of two kinds come. */
export interface DividedWay {
  /** Whether they have come. */
  readonly isOpen: () => boolean;
  /** The request comes here then. */
  readonly gate: RequestGate;
}

/** What a gate does with an exchange. */
export interface GatedExchange extends Pick<EngineSink, 'head' | 'data' | 'finished'> {
  readonly over: boolean;
  waitsFor(stopWaiting: () => void): void;
  waitedFor(): void;
  cancel(error: PointsmanError): void;
}

/** The gates of a road. */
export class Gates {
  #waiting = 0;

  /** Requests at their gate. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Holds a request. @param goOn called at once or later, at most once. */
  hold(
    gate: RequestGate,
    exchange: GatedExchange,
    classification: Classification | null,
    goOn: (request: RoadRequest) => void,
  ): void {
    let held = true;
    let stop: () => void = () => undefined;
    const leave = (): boolean => {
      if (!held) return false;
      held = false;
      this.#waiting -= 1;
      exchange.waitedFor();
      return true;
    };
    this.#waiting += 1;
    exchange.waitsFor(() => {
      if (leave()) stop();
    });
    stop = gate(
      {
        open(request) {
          if (leave() && !exchange.over) goOn(request);
        },
        fail(error) {
          leave();
          exchange.cancel(error);
        },
        answer: {
          head: (...head) => held && exchange.head(...head),
          data: (bytes) => held && exchange.data(bytes),
          finished: (report) => {
            if (leave()) exchange.finished(report);
          },
        },
      },
      classification,
    );
  }
}

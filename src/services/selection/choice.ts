// A choice that waits for its turn: from its arrival on the road to its answer, without a booking.
import type { CallerPart, Road, RoadRequest } from '../../road/index.ts';
import { leftBy } from './reservation.ts';

/** What a choice is asked with; the rest of its caller's part is this file's. */
export type ChoiceRequest = Omit<RoadRequest, 'caller'> & {
  readonly caller: Omit<CallerPart, 'placed' | 'transport'> & { readonly transport: null };
};

/**
 * Sends a request down the road and waits until its turn has come and a worker is chosen for it.
 * @param read reads the choice, at once.
 * @param signal ends the wait; its reason is thrown where that is a PointsmanError.
 * @throws PointsmanError as the road refuses.
 */
export function chooseInTurn<T>(
  road: Pick<Road, 'arrive'>,
  request: ChoiceRequest,
  read: (...placed: Parameters<CallerPart['placed']>) => T,
  signal: AbortSignal,
): Promise<T> {
  if (signal.aborted) return Promise.reject(leftBy(signal));
  return new Promise((resolve, reject) => {
    const over = (): void => signal.removeEventListener('abort', left);
    const left = (): void => {
      over();
      reject(leftBy(signal));
      ticket.abort();
    };
    signal.addEventListener('abort', left);
    const ticket = road.arrive(
      { ...request, caller: { ...request.caller, placed: (...at) => resolve(read(...at)) } },
      {
        booked: () => undefined,
        head: () => undefined,
        data: () => undefined,
        tokens: () => undefined,
        finished: over,
        failed(error) {
          over();
          reject(error);
        },
      },
    );
  });
}

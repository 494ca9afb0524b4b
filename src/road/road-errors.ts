// The road's own errors.
import { PointsmanError } from '../plugin/index.ts';

/** Its worker is gone before the answer was complete. */
export function workerLost(workerId: bigint): PointsmanError {
  return new PointsmanError(
    'PM_ENGINE_LOST',
    `worker ${workerId} was lost before its answer was complete; send the request again`,
    { details: { worker_id: String(workerId) } },
  );
}

/** What was thrown, as an error that a door can answer with. */
export function asPointsmanError(thrown: unknown): PointsmanError {
  if (thrown instanceof PointsmanError) return thrown;
  return new PointsmanError('PM_INTERNAL', 'something failed inside the router', { cause: thrown });
}

/** A booking nobody needs any more. */
export function expired(): PointsmanError {
  return new PointsmanError(
    'PM_ROAD_EXPIRED',
    'the engine sent nothing for long, and nobody waits for the answer',
  );
}

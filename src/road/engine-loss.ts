// Which failures say something about the worker rather than about the request.
import type { EngineExchange } from '../engines/index.ts';
import type { WorkerHealth } from '../fleet/index.ts';
import type { PointsmanError, WorkerId } from '../plugin/index.ts';

/** How the connection to a worker failed; null when the worker answered, however badly. */
function lossOf(error: PointsmanError): 'refused' | 'reset' | null {
  if (error.code === 'PM_ENGINE_UNREACHABLE') return 'refused';
  if (error.code === 'PM_ENGINE_LOST') return 'reset';
  return null;
}

/** Tells whoever watches the workers of a failed connection; null = nobody does. */
export function noteLoss(health: WorkerHealth | null, workerId: WorkerId, error: PointsmanError): void {
  const loss = lossOf(error);
  if (loss === 'refused') health?.connectionRefused(workerId);
  else if (loss === 'reset') health?.streamReset(workerId);
}

/** Ends an engine's part of an exchange; null = there is none. A transport that cannot abort must not keep the booking. */
export function abortQuietly(engine: EngineExchange | null): void {
  try {
    engine?.abort();
  } catch {
    // The booking ends all the same.
  }
}

// Which failures say something about the worker rather than about the request.
import type { PointsmanError } from '../plugin/index.ts';

/** How the connection to a worker failed; null when the worker answered, however badly. */
export function lossOf(error: PointsmanError): 'refused' | 'reset' | null {
  if (error.code === 'PM_ENGINE_UNREACHABLE') return 'refused';
  if (error.code === 'PM_ENGINE_LOST') return 'reset';
  return null;
}

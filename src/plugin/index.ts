// The public contract of Pointsman plugins. Imports nothing from the rest of the router.
export { type Clock, ManualClock } from './clock.ts';
export { ERROR_CODES, type ErrorCode, type ErrorCodeRow } from './error-codes.ts';
export { type ErrorDetails, errorText, PointsmanError, type PointsmanErrorOptions } from './errors.ts';
export { exactJsonStringify } from './exact-json.ts';
export type { BlockHash, Partition, Role, WorkerId, WorkerRank } from './ids.ts';
export {
  type HintAction,
  type HintJson,
  type KvHint,
  type KvHintAction,
  MAX_HINT_ACTIONS,
} from './kv-hint.ts';
export { type Rng, seededRng } from './rng.ts';
export type { SessionContext } from './session.ts';

// The public contract of Pointsman plugins. Imports nothing from the rest of the router.
export { type Clock, ManualClock } from './clock.ts';
export {
  type AnyCreateContext,
  type Branded,
  COMMITMENTS,
  type Commitment,
  type CommitmentOptions,
  type CommonOptions,
  type CreateBase,
  type CreateContext,
  type CreatePartition,
  ISOLATIONS,
  type Isolation,
  PLUGIN_API_VERSION,
  type PluginKind,
  type Scope,
} from './define.ts';
export { ERROR_CODES, type ErrorCode, type ErrorCodeRow } from './error-codes.ts';
export {
  type ErrorDetails,
  errorText,
  PointsmanError,
  type PointsmanErrorOptions,
  systemReason,
} from './errors.ts';
export { exactJsonStringify } from './exact-json.ts';
export {
  type AnyHintPolicy,
  type CommittedHintContext,
  type DefaultHost,
  defineHintPolicy,
  HINT_INPUTS,
  type HintContext,
  type HintContextBase,
  type HintContextFor,
  type HintInput,
  type HintInputs,
  type HintPolicy,
  type HintPolicyDefinition,
  type HintPolicyOptions,
} from './hint-policy.ts';
export { type BlockHash, type Partition, ROLES, type Role, type WorkerId, type WorkerRank } from './ids.ts';
export {
  type CacheColumns,
  type Column,
  type CopyColumns,
  type Granted,
  type LoadColumns,
  type Merge,
  type PhaseColumns,
  type Row,
  WORKER_INPUTS,
  type WorkerInput,
  type WorkerInputs,
  type WorkerRowInputs,
} from './inputs.ts';
export {
  type CommittedKvCopy,
  expectedCopyMs,
  type KvCopy,
  type KvCopyLocations,
  type KvCopyOwner,
  type MeasuredLink,
} from './kv-copy.ts';
export {
  type HintAction,
  type HintJson,
  type KvHint,
  type KvHintAction,
  MAX_HINT_ACTIONS,
} from './kv-hint.ts';
export {
  LINEAR_COST_WEIGHTS,
  type LinearCost,
  type LinearCostWeight,
  type LinearCostWeights,
  linearCost,
  linearCostWithCopies,
  MAX_LINEAR_COST_WEIGHT,
} from './linear-cost.ts';
export { type LogFields, type Logger, NO_LOG } from './logger.ts';
export type { PluginMetrics } from './plugin-metrics.ts';
export type {
  HintPolicyFactory,
  PluginRegistry,
  RequestClassifierFactory,
  WorkerSelectionFactory,
} from './plugin-registry.ts';
export { CapacityExhausted, RateLimited } from './refusals.ts';
export {
  type AnyClassifierCreateContext,
  type ClassifierCreateContext,
  type ClassifierEvent,
  type ClassifierPartition,
  type ClassifierWorker,
  type ClassifyAnswer,
  type ClassifyRequest,
  defineRequestClassifier,
  type Overrides,
  type RequestClassifier,
  type RequestClassifierDefinition,
  type RequestClassifierOptions,
} from './request-classifier.ts';
export { type Rng, seededRng } from './rng.ts';
export type { NoParameters, ParameterSchema, Parameters, SchemaIssue, SchemaResult } from './schema.ts';
export type { SelectionRequest, WorkerTarget } from './selection-request.ts';
export type { SessionContext } from './session.ts';
export type {
  BlockResidency,
  LineageNode,
  LineageNodeId,
  SessionFrontier,
  SessionLineage,
  StorageTier,
} from './session-lineage.ts';
export {
  type StatedTiming,
  TIME_COST_DEFAULTS,
  type TimeCost,
  type TimeCostOptions,
  type TimeCostWeight,
  timeCost,
} from './time-cost.ts';
export {
  type Candidate,
  type CandidateFor,
  type Candidates,
  type CandidatesFor,
  type CommittingPick,
  filterWorkers,
  type Pick,
  pickLowestCost,
  picksLowestCost,
  pickWorker,
  scoreEachWorker,
  scoreWorkers,
  type WorkerFilter,
  type WorkerPicker,
  type WorkerScorer,
} from './worker-components.ts';
export {
  defineWorkerSelectionPolicy,
  type WorkerSelectionOptions,
  type WorkerSelectionPolicy,
  type WorkerSelectionPolicyDefinition,
} from './worker-selection.ts';
export { DECODE_BEND, type TimingColumns, type WorkerTiming } from './worker-timing.ts';

// Runs plugins: loading, registry, per-role resolution, selection pipeline, hint stage.
export type { GenerationHold } from './booking-hold.ts';
export { createCandidateTable } from './candidate-table.ts';
export type { HintFleet, HintWorker } from './copy-locations.ts';
export { CopySources } from './copy-sources.ts';
export { evaluateLinearCost } from './linear-cost.ts';
export type { PluginPlace, PluginStatus, RunningPlugin } from './plugin-guard.ts';
export {
  createPluginHost,
  type PluginHostOptions,
  type ResolvedPluginHost,
  type RoleResolution,
} from './plugin-host.ts';
export { policiesOf } from './refused-versions.ts';
export {
  createReloadableHost,
  type GenerationStatus,
  type HostReload,
  type ReloadableHost,
} from './reloadable-host.ts';
export { breakTies, chooseSampled } from './row-choice.ts';
export { createSoloRuntime, type SoloOptions, type SoloPolicy } from './solo-runtime.ts';
export type {
  CandidateTable,
  CommitFailure,
  CommitOutcome,
  CommitSetting,
  CopyCommit,
  HintBooking,
  HintPolicyResult,
  HintStage,
  HintStageResult,
  PluginHost,
  RoleNeeds,
  RoleRuntime,
  SelectionFacts,
  SelectionPick,
} from './types.ts';

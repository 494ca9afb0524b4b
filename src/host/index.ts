// Runs plugins: loading, registry, per-role resolution, selection pipeline, hint stage.
export type { GenerationHold } from './booking-hold.ts';
export { builtinTypes } from './builtin-policies.ts';
export { createCandidateTable, type PhaseTable } from './candidate-table.ts';
export type {
  CheckedOverrides,
  Classification,
  ClassifierOutcome,
  ClassifierSource,
  ClassifierStage,
  RequestLifecycle,
} from './classifier-types.ts';
export type { HintFleet, HintWorker } from './copy-locations.ts';
export { CopySources } from './copy-sources.ts';
export { createCostColumns } from './cost-scan.ts';
export { LineageView } from './lineage-view.ts';
export { evaluateLinearCost } from './linear-cost.ts';
export type { PluginPlace, PluginStatus, RunningPlugin } from './plugin-guard.ts';
export {
  type ClassifierResolution,
  createPluginHost,
  type PluginHostOptions,
  type ResolvedPluginHost,
  type RoleResolution,
} from './plugin-host.ts';
export { PluginLoader } from './plugin-loader.ts';
export type { HostModules } from './plugin-transpiler.ts';
export { policiesOf } from './refused-versions.ts';
export {
  createReloadableHost,
  type GenerationStatus,
  type HostReload,
  type ReloadableHost,
} from './reloadable-host.ts';
export { ResidencyView } from './residency-view.ts';
export type { Provision, RoleProvisions } from './role-provisions.ts';
export { chooseFromTable } from './row-choice.ts';
export { isRefusal } from './selection-errors.ts';
export { SessionKeys } from './session-keys.ts';
export type { SiteFailure } from './site-failures.ts';
export { createSoloClassifier, type SoloClassifier, type SoloClassifierOptions } from './solo-classifier.ts';
export {
  createSoloHints,
  createSoloRuntime,
  type SoloHints,
  type SoloOptions,
  type SoloPolicy,
} from './solo-runtime.ts';
export { switchedOffInputs } from './startup-notes.ts';
export { shareBehind } from './time-terms.ts';
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
  PendingHints,
  PluginHost,
  RoleNeeds,
  RoleRuntime,
  SelectionFacts,
  SelectionPick,
  ThreadedHintStage,
} from './types.ts';

// Runs plugins: loading, registry, per-role resolution, selection pipeline, hint stage.
export type {
  CandidateTable,
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

// One schema, one parser for every YAML key.
export type {
  ConfigPath,
  ConfigProblem,
  ConfigSource,
  HintEntry,
  InstanceEntry,
  LoadedConfig,
  ModelConfig,
  ProblemAnchor,
  RoleSelectionEntry,
  RouterConfig,
  RouterMode,
  RouterSettings,
  TokensSetting,
  WorkerConfig,
} from './types.ts';

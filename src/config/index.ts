// One schema, one parser for every YAML key; also the reader of exact JSON.
export { parseExactJson } from './exact-json.ts';
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

// One schema, one parser for every YAML key; also the reader of exact JSON.

export type { AgentSettings, SessionBodyField } from './agent-settings.ts';
export { bearsToken } from './bearer.ts';
export {
  type BusyThresholds,
  NO_THRESHOLDS,
  readThresholdChange,
  type ThresholdChange,
  testsNothing,
  thresholdsOf,
  type WrittenThresholds,
  writtenThresholds,
} from './busy-thresholds.ts';
export { ConfigError } from './config-error.ts';
export { isLoopback } from './cross-checks.ts';
export type { ConditionalDisaggregation, DisaggregationSettings } from './disaggregation.ts';
export { configForDisplay } from './display.ts';
export { parseExactJson } from './exact-json.ts';
export type { ModelConfig, TokensSetting, WorkerConfig } from './fleet-types.ts';
export { IN_PROCESS_BLOCK_SIZE, type InProcessEngine } from './in-process-workers.ts';
export { nestsDeeperThan } from './json-depth.ts';
export { defaultConfig, loadConfig, loadPolicyFile, parseConfig } from './load.ts';
export { didYouMean, nameList } from './nearest.ts';
export { applyOverrides, type ConfigOverrides, overridesFromEnv } from './overrides.ts';
export {
  type QueueClassSettings,
  type QueuePolicy,
  type QueueProfileSettings,
  type QueueSettings,
  queueSettingsOf,
} from './queue-settings.ts';
export { type ReloadedConfig, reloadedConfig } from './reloaded-config.ts';
export { ROUTER_MODES } from './schema.ts';
export type { ConfigSurroundings } from './secrets.ts';
export { SELECTION_SERVICE_DEFAULTS } from './selection-service.ts';
export type { SessionAffinitySettings } from './session-affinity.ts';
export type { SglangSettings } from './sglang-settings.ts';
export { renderPath } from './text-source.ts';
export { type StatedKind, writtenTimingProfile } from './timing-profile.ts';
export type {
  ClassifierEntry,
  ConfigPath,
  ConfigProblem,
  ConfigSource,
  ContainmentSettings,
  HintEntry,
  InstanceEntry,
  LoadedConfig,
  ProblemAnchor,
  RoleSelectionEntry,
  RouterConfig,
  RouterMode,
  RouterSettings,
} from './types.ts';

// The package's entry: what a program that embeds a router imports from `pointsman`. Plugins import `pointsman/plugin`, their
// tests `pointsman/testing`.
export {
  type EmbeddedRouter,
  type EmbeddedRouterOptions,
  startEmbeddedRouter as startRouter,
} from './cli/index.ts';
export {
  ConfigError,
  type ConfigProblem,
  type ConfigSource,
  type ConfigSurroundings,
  defaultConfig,
  type LoadedConfig,
  loadConfig,
  parseConfig,
  type RouterConfig,
} from './config/index.ts';
export type { Readiness } from './observe/index.ts';
export { type ErrorCode, type Logger, PointsmanError } from './plugin/index.ts';

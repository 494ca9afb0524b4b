// What the package's entry and the test kit take from the program; the commands themselves are nobody's to import.
export {
  type EmbeddedRouter,
  type EmbeddedRouterOptions,
  startEmbeddedRouter,
} from './embedded-router.ts';
export { type DefinitionReplayResult, type PolicyAtHand, replayDefinitions } from './replay-definitions.ts';
